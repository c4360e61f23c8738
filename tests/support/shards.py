"""Logs of shards (``key_prefix`` of ``[[tables]]``), and what each cut shows of each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spark_repl.control.table.cut import reader_tables
from spark_repl.delta.store.delta_rs_read import read
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import LocalDelta, cuts, run

V = "varchar(40)"


def shard(number: int | str, *more: tuple[str, str]) -> Table:
    return Table("orders", (("id", "int"), ("v", V), *more), database=f"shop_{number}")


ONE, TWO, THREE = shard(1), shard(2), shard(3)
RULE = {"match": r"shop\_%.orders", "to": "lake.orders", "key_prefix": "shop"}
MAPPED = {"keys": {"column_mapping": True}}
BOTH: dict[str, Any] = {"tables": [RULE], **MAPPED}
APART: dict[str, Any] = {"tables": [{**RULE, "to": "lake.orders_%", "key_prefix": ""}], **MAPPED}
Rows = Mapping[str, list[tuple[tuple[str, Any], ...]]]


def of_each(target: Path) -> dict[str, Rows]:
    """GTID set -> shard -> its rows at that cut, without NULLs: from one table, or from many."""
    found: dict[str, dict[str, Any]] = {}
    for cut in cuts(target):
        shards = found.setdefault(cut.gtid_executed, {})
        for name, at in reader_tables(cut).items():
            own = name.removeprefix("lake.orders").removeprefix("_")
            if not own:
                shards |= {one.partition("//")[2]: [] for one in cut.tables}
            for row in read(f"{target}/{at.path}", at.version).to_pylist():
                values = {key: value for key, value in row.items() if value is not None}
                rows = shards.setdefault(own or values.pop("shop"), [])
                rows.append(tuple(sorted(values.items())))
            if own:
                shards.setdefault(own, [])
    return {
        gtids: {one: sorted(rows) for one, rows in shards.items()}
        for gtids, shards in found.items()
    }


def columns(target: Path) -> list[str]:
    (at,) = reader_tables(cuts(target)[-1]).values()
    return list(read(f"{target}/{at.path}", at.version).column_names)


def fields(target: Path) -> dict[str, Any]:
    """The columns of the Delta table, with Delta's types."""
    (at,) = reader_tables(cuts(target)[-1]).values()
    there = LocalDelta().snapshot(f"{target}/{at.path}", at.version)
    assert there is not None
    return {one["name"]: one["type"] for one in json.loads(there.schema_string)["fields"]}


def alike(log: LogWriter, folder: Path, **options: Any) -> dict[str, Rows]:
    """What each cut shows, which is what tables of their own would."""
    assert run(log.folder, folder / "apart", group_max_transactions=1, **APART)
    assert run(log.folder, folder / "lake", **{**BOTH, **options})
    want, got = of_each(folder / "apart"), of_each(folder / "lake")
    assert {gtids: want[gtids] for gtids in got} == got
    assert [*got][-1] == [*want][-1]
    return got


def begun(folder: Path) -> LogWriter:
    """A log that creates two shards."""
    made = LogWriter(folder)
    made.ddl(ONE.create, "shop_1")
    made.ddl(TWO.create, "shop_2")
    return made


def filled(log: LogWriter) -> LogWriter:
    log.transaction(insert(ONE, (1, "a"), (2, "b")), insert(TWO, (1, "c"), (3, "d")))
    return log
