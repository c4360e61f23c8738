"""Guards that only a history cut off at the right place, or a log with a hole in it, needs."""

from __future__ import annotations

import errno
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from spark_repl.apply.group.failure_report import FailureReport
from spark_repl.errors import DecodeError, HistoryError, LogError, RowError, TargetError
from spark_repl.observe.reports.applier_status import ApplierStatus
from spark_repl.observe.reports.worker_status import APPLYING, STAGING
from spark_repl.position import RelayPosition
from spark_repl.relay.record import RECORD
from spark_repl.schedule.until import Until
from tests.property.test_histories import Writer, check
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import CRASHES, HERE, LocalDelta, applier, cuts, rows, run

A, B = Table("a"), Table("b")


@pytest.mark.parametrize("crash", range(1, 40, 3))
def test_no_cut_while_a_table_is_ahead(tmp_path: Path, crash: int) -> None:
    """Cut off between two tables of a large group, then gone on with in groups of one."""
    writer = Writer(LogWriter(tmp_path / "log"))
    writer.begin()
    for number in range(4):
        writer.step("rows", number, 3)
    target = tmp_path / "lake"
    run(writer.log.folder, target, crash=crash, group_max_transactions=100)
    assert run(writer.log.folder, target, group_max_transactions=1)
    check(writer, target, cuts(target))


def test_files_that_were_not_applied_are_missed(log, target):
    """They were known when the applier ended, and are gone at the next start."""
    for key in range(1, 7):
        log.transaction(insert(A, (key, "x")))
        if key in (2, 4):
            log.rotate()
    with applier(log.folder, target, until=Until.parse(f"after-gtids:{log.gtid(3)}")) as found:
        found.coordinator.apply(found.index.slice(0, found.index.end))
    assert rows(target, A) == [(1, "x")]
    for name in ("bin.000001", "bin.000002"):
        (log.folder / name).unlink()
    with pytest.raises(HistoryError, match="missing"):
        run(log.folder, target)


def test_update_of_a_row_that_is_surely_gone(log, target):
    """In idempotent mode it is passed over, though both changes stand in one group."""
    log.transaction(insert(A, (1, "x"), (2, "x")))
    log.transaction(delete(A, (1, "x")))
    log.transaction(update(A, ((1, "x"), (1, "y"))))
    assert run(log.folder, target, exec_mode="idempotent")
    assert rows(target, A) == [(2, "x")]


def test_a_group_that_changes_nothing_makes_no_version(log, target):
    log.transaction(insert(A, (1, "x")), delete(A, (1, "x")))
    assert run(log.folder, target)
    assert rows(target, A) == []
    assert LocalDelta().version(str(target / "t" / "a")) == 0
    assert cuts(target)[-1].gtid_executed.endswith(":1-4")


def test_a_kill_between_two_tables_is_caught_up_once(log, target, killed, monkeypatch):
    """As tests/crash does it to a process: what the one has the other gets, once."""
    monkeypatch.setenv("SPARK_REPL_CRASH", "between_tables:99")  # so that it is reached
    log.transaction(insert(A, (1, "x")), insert(B, (1, "x")))
    killed(log, target, lambda name: name == "between_tables")
    assert [rows(target, table) for table in (A, B)] == [[(1, "x")], []]
    assert run(log.folder, target)
    assert rows(target, A) == rows(target, B) == [(1, "x")]


def test_what_a_group_does_is_said_and_counted(log, target, monkeypatch):
    """Its states, its waves, and that a cut was published, which may show a copy."""
    said, shown = list[str](), list[int]()

    class Told(ApplierStatus):
        def works(self, group: Any, state: str) -> None:
            said.append(state)

    monkeypatch.setattr(CRASHES, "told", lambda name: name != "after_cut" or shown.append(1))
    with applier(log.folder, target, parts=replace(HERE, status=Told)) as found:
        coordinator = found.coordinator
        coordinator.apply(found.index.slice(0, found.index.end))
        statements, before = len(said), len(shown)
        # The cuts of the second and the third statement are published together.
        assert said == [STAGING, APPLYING] * 3 and before == 2
        log.transaction(insert(A, (1, "x")))
        log.transaction(update(A, ((1, "x"), (1, "y"))))
        waves = found.counters.waves
        index = found.opened.applied.refresh()
        coordinator.apply(index.slice(coordinator.mark.position, index.end))
        assert found.counters.waves == waves + 2
    assert said[statements:] == [STAGING, APPLYING]
    assert len(shown) == before + 1


@pytest.mark.parametrize("order", [True, False])
def test_nothing_that_was_staged_is_left(log, target, faults, order):
    """Not of a group that landed, nor of an attempt that failed, nor of the group that stops it."""
    log.transaction(insert(A, (1, "x")), insert(B, (1, "x")))
    log.transaction(delete(A, (77, "no such")))
    log.transaction(insert(A, (2, "behind")), insert(B, (2, "behind")))
    faults(("t/a",), 1)
    apply = {"preserve_commit_order": order, "group_max_transactions": 1}
    with applier(log.folder, target, **apply) as found:
        with pytest.raises(RowError):
            found.coordinator.apply(found.index.slice(0, found.index.end))
        staging = Path(found.tracking.layout.staging(found.tracking.control.epoch))
        assert [*staging.glob("group-*")] == []
    assert rows(target, A) == rows(target, B) == [(1, "x")]


def test_nothing_that_was_staged_is_left_while_the_disk_is_full(log, target):
    """As long as it waits for room, what it can read again is not in the way."""
    log.transaction(insert(A, (1, "x")))
    left = list[list[Path]]()

    class Full(LocalDelta):
        def commit(self, *args: Any) -> int:
            if not left:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().commit(*args)

    def wait(stopping: threading.Event, seconds: float) -> bool:
        left.append([*(target / "_repl" / "staging").glob("*/group-*")])
        return False

    assert run(log.folder, target, parts=replace(HERE, delta_log=Full, wait=wait))
    assert left == [[]]
    assert rows(target, A) == [(1, "x")]


@pytest.mark.parametrize(("count", "position"), [(1, None), (2, None), (2, "000001:150")])
def test_an_error_names_a_transaction_only_if_it_is_known_which(count, position):
    records = np.zeros(count, RECORD)
    records["position"] = [RelayPosition(1, 100 * (i + 1)).packed for i in range(count)]
    records["end"] = records["position"] + 100
    shares = {0: 1, 1: 1}
    one: Any = SimpleNamespace(slot=0, records=records, worker=np.arange(count), shares=shares)
    applied, control = MagicMock(), MagicMock()
    control.named = lambda error: error
    applied.placed = lambda error, record: setattr(error, "gtid", "known")
    failures = FailureReport(applied, control, MagicMock(), MagicMock())
    for error in (DecodeError("damage", position=position), LogError("damage", position=position)):
        found = failures.named(error, one)
        assert (found.gtid == "known") == (count == 1 or position is not None)
    other = failures.named(TargetError("storage", position=position), one)
    assert other.gtid is None
