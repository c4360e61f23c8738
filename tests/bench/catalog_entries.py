"""How long it takes to register many tables in a Hive metastore of its own, and to compare them.

    python -m tests.bench.catalog_entries [TABLES]

prints one JSON object: seconds for all new entries, which a registrar makes in the background, for
a comparison of all of them by another applier, and for one renamed table. Meanwhile a group hands
its cut over to the registrar every 10 ms: ``hand_over_max_s`` is the longest of these calls.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from spark_repl.catalog.entry import EntryOwner
from spark_repl.catalog.naming import Naming
from spark_repl.catalog.registrar import Registrar
from spark_repl.catalog.registration import TableRegistration
from spark_repl.catalog.session_catalog import SessionCatalog
from spark_repl.config.sections import Catalog
from spark_repl.control.table.cut import Cut, TableVersion
from spark_repl.control.table.layout import Layout
from spark_repl.runtime.spark_session import build_session
from tests.support.hive_metastore import HiveMetastore

_EACH_S = 0.01


def main(tables: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        metastore = HiveMetastore(Path(folder) / "metastore").start()
        try:
            print(json.dumps(measured(metastore.uri, str(Path(folder) / "lake"), tables)))
        finally:
            metastore.kill()


def measured(uri: str, target: str, count: int) -> dict[str, float]:
    """Return the seconds of each step."""
    settings = Catalog("spark_catalog", uri).spark_settings()
    catalog = SessionCatalog(build_session(master="local[1]", settings=settings, delta=False))
    paths = {f"shop.t{number}": f"shop/t{number}" for number in range(count)}
    renamed = {**paths, "shop.renamed": paths["shop.t0"]}
    del renamed["shop.t0"]
    catalog.schemas()  # connects
    seconds: dict[str, float] = {"tables": count}
    task = registration(target)
    began = time.perf_counter()
    seconds["hand_over_max_s"] = round(created(catalog, task, paths), 6)
    seconds["create_s"] = round(time.perf_counter() - began, 3)
    for step, task_of_step, tables in (
        ("compare", registration(target), paths),
        ("rename", task, renamed),
    ):
        began = time.perf_counter()
        assert task_of_step.carry_out(catalog, cut_of(tables)) == []
        seconds[f"{step}_s"] = round(time.perf_counter() - began, 3)
    assert len(catalog.entries("shop")) == count
    return seconds


def created(catalog: SessionCatalog, task: TableRegistration, paths: dict[str, str]) -> float:
    """Register all tables in the background. Return the longest time of a hand-over in seconds."""
    longest, cut = 0.0, cut_of(paths)
    registrar = Registrar(lambda is_stopping: catalog, [task], lambda name, notice: None)
    registrar.start(cut)
    while not registrar.wait_idle(_EACH_S):
        began = time.perf_counter()
        registrar.cut_published(cut)
        longest = max(longest, time.perf_counter() - began)
    registrar.close()
    return longest


def registration(target: str) -> TableRegistration:
    return TableRegistration(Layout(target), Naming(), EntryOwner(target, "default"))


def cut_of(paths: dict[str, str]) -> Cut:
    tables = {name: TableVersion(path, 1, "", 1) for name, path in paths.items()}
    return Cut(1, "", "", {}, tables)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
