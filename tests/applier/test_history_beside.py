"""mode = "history" beside other keys of the configuration: names, and Delta's change data feed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from spark_repl.delta.log import log_replay
from spark_repl.delta.store.delta_rs_read import read
from tests.property.test_change_feed import changes
from tests.support.binlog_writer import LogWriter
from tests.support.extra_model import FIRST, T, begun
from tests.support.local_delta import run
from tests.support.version_model import VersionModel, versions


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    return begun(tmp_path / "log")


def test_a_routed_table_may_have_a_history(log: LogWriter, tmp_path: Path) -> None:
    model = VersionModel(log)
    model.first(FIRST)
    model.transaction(model.update(1, (1, 2, "x")))
    log.ddl("TRUNCATE t.a")
    model.truncate()
    model.transaction(model.insert(FIRST[0]))
    rule = {"match": "t.%", "to": "lake.%", "mode": "history"}
    assert run(log.folder, tmp_path / "lake", tables=[rule])
    assert versions(tmp_path / "lake", table="lake.a") == model.rows


def _told(lake: Path, version: int, actions: list[Any]) -> list[dict[str, Any]]:
    """What readers of the feed take from a commit."""
    if (told := changes(lake, T, version)) is not None:
        return told
    paths = [one["add"]["path"] for one in actions if "add" in one]
    rows = [row for path in paths for row in pq.read_table(lake / "t/a" / path).to_pylist()]
    return [{**row, "_change_type": "insert"} for row in rows]


@pytest.mark.parametrize("vectors", [True, False])
def test_the_feed_leads_from_version_to_version(
    log: LogWriter, tmp_path: Path, vectors: bool
) -> None:
    """Versions that end in one shard of a group, and that only begin in another, are in it."""
    model, lake = VersionModel(log), tmp_path / "lake"
    model.first(FIRST)
    for n in range(6):
        changes_of_one = [model.update(1, (1, n, "u")), model.insert((10 + n, n, "i"))]
        if n % 2:
            changes_of_one += [model.delete(10 + n), model.update(9 + n, (9 + n, n, "moved"))]
        model.transaction(*changes_of_one)
    given: dict[str, Any] = {"feed": True, "keys": {"compact_files": 0}, "workers": 3}
    given["tables"] = [{"match": "t.a", "mode": "history"}]
    assert run(log.folder, lake, vectors=vectors, group_max_transactions=2, **given)
    state: Counter[tuple[Any, ...]] = Counter()
    version = 0
    while (actions := log_replay.read_commit(str(lake / "t/a"), version)) is not None:
        for row in _told(lake, version, actions):
            came = row.pop("_change_type") in ("insert", "update_postimage")
            state[tuple(row.values())] += 1 if came else -1
        there = read(str(lake / "t/a"), version).to_pylist()
        assert +state == Counter(tuple(row.values()) for row in there)
        assert min(state.values(), default=0) >= 0
        version += 1
    assert version > 3 and versions(lake) == model.rows
