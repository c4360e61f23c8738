"""A table that changes no more keeps what is live, beside one that changes, and at rest it has no
deletion vectors."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_repl.delta.store.delta_rs_read import read
from spark_repl.write.upkeep import scheduler
from spark_repl.write.upkeep.scheduler import UpkeepScheduler
from spark_repl.write.upkeep.table_maintenance import TableMaintenance
from tests.applier.test_promised_cuts import hours_pass
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import HERE, LocalDelta, applier, apply_without_stream, run
from tests.support.tended import finish, hurry
from tests.support.wait_until import wait_until

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
            finish(upkeep)
            upkeep.close()
    assert data_files(target) == (live, live)


def test_a_table_at_rest_has_no_deletion_vectors(
    log: LogWriter, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And groups go on from there. Few deleted rows stay where they are."""
    folder, delta = target / "t" / "a", LocalDelta()
    log.transaction(insert(A, *((key, "0") for key in range(40))))
    log.transaction(delete(A, (0, "0")), update(A, ((1, "0"), (1, "1"))))

    def vectors() -> int:
        snapshot = delta.snapshot(str(folder))
        return 0 if snapshot is None else delta.files(snapshot).totals().deleted_rows

    assert run(log.folder, target, group_max_transactions=1, parts=HERE)
    assert vectors() == 2, "2 of 40: too few"
    monkeypatch.setattr(scheduler, "REST_S", 0.0)
    log.transaction(delete(A, (2, "0")))
    with applier(log.folder, target, parts=HERE) as found:
        apply_without_stream(found)
        wait_until(lambda: vectors() == 0)
    log.transaction(delete(A, (3, "0")))
    assert run(log.folder, target, parts=HERE)
    snapshot = delta.snapshot(str(folder))
    assert snapshot is not None
    columns = read(str(folder), snapshot.version).to_pydict().values()
    rows = sorted(zip(*columns, strict=True))
    assert rows == [(1, "1"), *((key, "0") for key in range(4, 40))]
