"""A table that changes no more keeps what is live, beside one that changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_repl.write.upkeep.scheduler import UpkeepScheduler
from spark_repl.write.upkeep.table_maintenance import TableMaintenance
from tests.applier.test_promised_cuts import hours_pass
from tests.support.binlog_writer import LogWriter, Table, insert, update
from tests.support.local_delta import HERE, LocalDelta, applier, apply_without_stream, run
from tests.support.tended import hurry

A, B = Table("a"), Table("b")
KEYS = {
    "every_cut_hours": 1, "minute_cut_hours": 1, "cut_retention_hours": 1, "vacuum_hours": 1,
    "commit_retention_hours": 1, "compact_files": 0,
}  # fmt: skip


def data_files(target: Path) -> tuple[int, int]:
    """There are, and are live."""
    folder, delta = target / "t" / "a", LocalDelta()
    snapshot = delta.snapshot(str(folder))
    assert snapshot is not None
    return len(list(folder.glob("part-*"))), len(delta.files(snapshot))


def test_dead_files_of_a_table_that_changes_no_more_go(
    log: LogWriter, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    log.transaction(insert(A, (1, "0")), insert(B, (1, "0")))
    for n in range(4):
        log.transaction(update(A, ((1, str(n)), (1, str(n + 1)))))
        assert run(log.folder, target, keys=KEYS, parts=HERE)
    there, live = data_files(target)
    assert there > live + 1
    for n in range(2):
        hours_pass(24, target)
        log.transaction(update(B, ((1, str(n)), (1, str(n + 1)))))
        with applier(log.folder, target, keys=KEYS, parts=HERE) as found:
            apply_without_stream(found)
            aim, workers = found.config.target, HERE.workers(None, 2, found.config)  # type: ignore[arg-type]
            maintenance = TableMaintenance(found.tracking, workers, aim)
            upkeep = UpkeepScheduler(found.tracking, aim, maintenance.maintain, maintenance.forget)
            upkeep.schedule(["t.b"])
            upkeep._pool.submit(int).result()
            upkeep.close()
    assert data_files(target) == (live, live)
