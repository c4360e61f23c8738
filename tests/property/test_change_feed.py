"""The change files of random changes: what goes and what comes, replayed, is the next version."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from spark_repl.delta.log import log_replay
from tests.property.test_weak_hash import BAG, PAIR, TEXT, Model
from tests.support.binlog_writer import LogWriter, Table
from tests.support.local_delta import rows, run

_GOES, _COMES = ("delete", "update_preimage"), ("insert", "update_postimage")


def changes(target: Path, table: Table, version: int) -> list[dict[str, Any]] | None:
    """The rows of a version's change files; None for a commit that has none."""
    folder = target / table.database / table.name
    actions = log_replay.read_commit(str(folder), version) or []
    files = [action["cdc"]["path"] for action in actions if "cdc" in action]
    if not files:
        return None
    return [row for path in files for row in pq.read_table(folder / path).to_pylist()]


@pytest.mark.parametrize("vectors", [True, False])
def test_feed_leads_from_version_to_version(tmp_path: Path, vectors: bool) -> None:
    model, log, target = Model(5), LogWriter(tmp_path / "log"), tmp_path / "lake"
    for table in (TEXT, PAIR, BAG):
        log.ddl(table.create)
    for _ in range(60):
        log.transaction(*(c for table in (TEXT, PAIR, BAG) for c in model.change(table)))
    run(log.folder, target, vectors=vectors, feed=True, group_max_transactions=9)
    for table in (TEXT, PAIR, BAG):
        state: Counter[tuple[Any, ...]] = Counter()
        kinds = Counter[str]()
        version = 0
        while log_replay.read_commit(str(target / "t" / table.name), version) is not None:
            for row in changes(target, table, version) or []:
                kind = row.pop("_change_type")
                kinds[kind] += 1
                state[tuple(row.values())] += (kind in _COMES) - (kind in _GOES)
            assert sorted(state.elements()) == rows(target, table, version)
            version += 1
        assert kinds["insert"] and kinds["delete"]
        assert kinds["update_preimage"] == kinds["update_postimage"] > 0 or table is BAG
