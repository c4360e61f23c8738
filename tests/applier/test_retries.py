"""WL#6964 in the whole applier: only the part that failed is retried, after its own pause, and each
retry of a transaction is counted. The status shows the retries, also those of the groups that wait
(WL#6813)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from spark_repl import Config
from spark_repl.apply.applied.applied_log import AppliedLog
from spark_repl.apply.stream.stream import RelayStream
from spark_repl.decode.stage_task import StageTask
from spark_repl.errors import DecodeError, GivenUpError, RowError
from spark_repl.observe.reports.applier_status import ApplierStatus
from spark_repl.observe.status.status import status
from spark_repl.position import RelayPosition
from tests.support import local_delta
from tests.support.binlog_writer import LogWriter, Table, delete, insert
from tests.support.local_delta import (
    HERE,
    applier,
    broken,
    cuts,
    rows,
    run,
    stopped,
)

A, B = Table("a"), Table("b")
WAIT_S = 60
BY_WORKER = "replication_applier_status_by_worker"


def by_worker(target: Path, column: str) -> list[Any]:
    return [row[column] for row in status(str(target))[BY_WORKER]]


def wave(log: LogWriter, *changes: Any) -> None:
    """Transactions of one wave: each worker has one of them."""
    log.parent = log.gno - 1
    for change in changes:
        log.transaction(change)
    log.parent = None


def waiting(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """What is done instead of each wait for the next attempt."""

    def wait(stopping: threading.Event, seconds: float) -> bool:
        do()
        return stopping.is_set()

    monkeypatch.setattr(local_delta, "HERE", replace(local_delta.HERE, wait=wait))


def starts(log: LogWriter) -> list[int]:
    return [start for _, start, _ in log.spans]


# Only what failed is done again.


def test_only_the_worker_that_failed_reads_again(log, target, reading):
    wave(log, *(insert(A, (key, "x" * 30)) for key in range(3)))
    failed = []

    def once(task: StageTask) -> None:
        if task.worker == 1 and not failed:
            failed.append(task.spans[0].starts.tolist())
            raise broken()

    read = reading(once)
    run(log.folder, target, workers=3)
    assert rows(target, A) == [(key, "x" * 30) for key in range(3)]
    assert sorted(read.values()) == [1, 1, 2]
    assert [read[start] for start in failed[0]] == [2]
    name = "LAST_APPLIED_TRANSACTION"
    assert by_worker(target, "COUNT_TRANSACTIONS_RETRIES") == [0, 1, 0]
    assert by_worker(target, f"{name}_RETRIES_COUNT") == [0, 1, 0]
    assert by_worker(target, "LAST_TRANSIENT_ERROR_NUMBER") == [0, 5, 0]
    assert by_worker(target, f"{name}_LAST_TRANSIENT_ERROR_NUMBER") == [0, 5, 0]


@pytest.mark.parametrize("order", [True, False])
def test_two_workers_wait_while_the_next_group_is_read(log, target, reading, monkeypatch, order):
    """F-3 and NF-1 of WL#6964: both waits and the reading of the last group behind meet at a
    barrier, so none of them holds another up. With commit order two groups are under way."""
    groups = 2 if order else 4
    for number in range(groups):
        wave(log, *(insert(A, (3 * number + i, "x" * 30)) for i in range(3)))
    meeting, failed = threading.Barrier(3), set[int]()

    def before(task: StageTask) -> None:
        first = starts(log)[6] > task.spans[0].starts[0]
        if first and task.worker < 2 and task.worker not in failed:
            failed.add(task.worker)
            raise broken()
        if task.worker == 0 and task.spans[0].starts[0] >= starts(log)[-3]:
            meeting.wait(WAIT_S)

    read = reading(before)
    waiting(monkeypatch, lambda: meeting.wait(WAIT_S))
    bounds = {"group_max_transactions": 3, "preserve_commit_order": order}
    run(log.folder, target, workers=3, **bounds)
    assert len(rows(target, A)) == 3 * groups
    assert sorted(read.values()) == [*[1] * (3 * groups - 2), 2, 2]


def test_two_tables_wait_at_once(log, target, faults, monkeypatch):
    """Without commit order: each lane waits for itself, and has the budget for itself."""
    log.transaction(insert(A, (1, "x")), insert(B, (1, "x")))
    meeting = threading.Barrier(2)
    waiting(monkeypatch, lambda: meeting.wait(WAIT_S))
    faults(("t/a", "t/b"), 1)
    run(log.folder, target, preserve_commit_order=False, transaction_retries=1)
    assert rows(target, A) == rows(target, B) == [(1, "x")]
    assert by_worker(target, "COUNT_TRANSACTIONS_RETRIES")[0] == 2


def test_nothing_lands_behind_what_turns_out_to_be_damaged(log, target, reading, monkeypatch):
    """Without commit order, too, where the next group has been read meanwhile: the first one's
    worker tries again, and finds damage."""
    log.transaction(insert(A, (1, "x" * 30)))
    log.transaction(insert(B, (2, "x" * 30)))
    tried, there = list[int](), threading.Event()

    def before(task: StageTask) -> None:
        if task.spans[0].starts[0] == starts(log)[-1]:
            there.set()
            return
        tried.append(1)
        if len(tried) == 1:
            raise broken()
        raise DecodeError("damaged", position=RelayPosition(1, starts(log)[-2]))

    reading(before)
    waiting(monkeypatch, lambda: there.wait(WAIT_S))
    bounds = {"group_max_transactions": 1, "preserve_commit_order": False}
    error = stopped(log.folder, target, workers=1, **bounds)
    assert isinstance(error, DecodeError) and error.gtid == log.gtid(3)
    assert there.is_set() and rows(target, B) == []
    assert status(str(target))["ahead"] == {}


def test_a_retry_of_writing_reads_what_a_table_lacks(log, target, faults, reading):
    """b has its part already: its worker reads nothing again."""
    wave(log, insert(A, (1, "x" * 30)), insert(B, (1, "x" * 30)))
    read = reading(lambda task: None)
    faults(("t/a",), 1)
    run(log.folder, target, workers=2)
    assert rows(target, A) == rows(target, B) == [(1, "x" * 30)]
    assert [read[start] for start in starts(log)[3:]] == [2, 1]
    assert sorted(by_worker(target, "COUNT_TRANSACTIONS_RETRIES")) == [0, 1]


def test_damage_that_another_worker_met_lands_what_is_before_the_first(log, target, reading):
    """Each worker finds damage in its own transaction: the first one in the log is named."""
    wave(log, *(insert(A, (key, "x" * 30)) for key in range(3)))

    def damaged(task: StageTask) -> None:
        for start in set(task.spans[0].starts.tolist()) & set(starts(log)[4:]):
            raise DecodeError("damage", position=f"1:{start}")

    reading(damaged)
    error = stopped(log.folder, target, workers=3)
    assert (error.message, error.gtid) == ("damage", log.gtid(4))
    assert rows(target, A) == [(0, "x" * 30)]


class Refreshed:
    """A log that can't be looked at, once."""

    def __init__(self, applied: AppliedLog) -> None:
        self._applied, self.left = applied, 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._applied, name)

    def refresh(self) -> Any:
        if self.left:
            self.left = 0
            raise broken()
        return self._applied.refresh()


def test_a_look_at_the_log_is_tried_again(log, target):
    """Of a batch of the stream, whose rows say which transactions it has."""
    log.transaction(insert(A, (1, "x")))
    with applier(log.folder, target) as found:
        first, last = log.spans[0][1], log.spans[-1][2]
        extent = (RelayPosition(1, first).packed, RelayPosition(1, last).packed)
        batch = MagicMock()
        batch.selectExpr.return_value.collect.return_value = [extent]
        opened, applied = found.opened, Refreshed(found.opened.applied)
        RelayStream(
            found.spark, applied, opened.coordinator, "", opened.retries, lambda: False,
            config=Config(),
        )._apply(batch, 0)  # fmt: skip
    assert not applied.left and rows(target, A) == [(1, "x")]


# Retries in vain.


@pytest.mark.parametrize("most", [0, 2])
def test_in_vain_names_worker_transaction_table_and_number(log, target, faults, most):
    wave(log, insert(A, (1, "x" * 30)), insert(B, (1, "x" * 30)))
    faults(("t/a",), most + 1)
    error = stopped(log.folder, target, workers=2, transaction_retries=most)
    (worker,) = error.workers
    said = f"Worker {worker + 1} failed executing transaction '{log.gtid(3)}' at relay log"
    assert error.message.startswith(f"{said} bin.000001, end_log_pos {log.spans[3][2]}; ")
    assert ("2 time(s) in vain, giving up" in error.message) == bool(most)
    assert "Input/output error" in error.message
    assert (error.number, error.gtid, error.table) == (5, log.gtid(3), "t.a")
    assert error.position == f"000001:{starts(log)[3]}"
    # What a table has stays: it is named, no cut shows it, and the next start completes the rest.
    assert "ahead of the last cut: t.b:" in error.message
    found = status(str(target))
    assert found["ahead"] == {"t.b": f"bin.000001:{log.spans[4][2]}"}
    row = found[BY_WORKER][worker]
    assert (row["LAST_ERROR_NUMBER"], row["APPLYING_TRANSACTION"]) == (5, log.gtid(3))
    assert "t.b" in row["LAST_ERROR_MESSAGE"]
    assert sorted(by_worker(target, "LAST_ERROR_NUMBER")) == [0, 5]
    assert found["replication_applier_status_by_coordinator"][0]["LAST_ERROR_NUMBER"] == 5
    assert (rows(target, A), rows(target, B)) == ([], [(1, "x" * 30)])
    assert cuts(target)[-1].gtid_executed.endswith(":1-3")
    run(log.folder, target)
    assert rows(target, A) == rows(target, B) == [(1, "x" * 30)]
    assert status(str(target))["ahead"] == {}


# Those behind.


def test_reading_in_vain_turns_the_others_away(log, target, reading):
    wave(log, *(insert(A, (key, "x" * 30)) for key in range(3)))

    def always(task: StageTask) -> None:
        if task.worker == 1:
            raise broken()

    read = reading(always)
    error = stopped(log.folder, target, workers=3, transaction_retries=2)
    assert isinstance(error, GivenUpError) and error.workers == (1,)
    assert error.message.startswith("Worker 2 failed executing transaction")
    assert sorted(read.values()) == [1, 1, 3]
    assert by_worker(target, "LAST_ERROR_NUMBER") == [3030, 5, 3030]
    assert rows(target, A) == [] and status(str(target))["ahead"] == {}


@pytest.mark.parametrize("own_first", [True, False])
def test_the_one_that_failed_keeps_its_error(log, target, own_first):
    """Workers whose groups were refused have error 3030. The failed worker keeps its own error,
    although it has a share in the later groups as well."""
    said = {True: threading.Event(), False: threading.Event()}

    class Ordered(ApplierStatus):
        def failed(self, *args: Any) -> None:
            assert own_first or said[False].wait(WAIT_S)
            super().failed(*args)
            said[True].set()

        def turned_away(self, workers: Any, error: Any) -> None:
            group_behind = threading.current_thread().name.startswith("land") and len(workers) == 3
            assert not (own_first and group_behind) or said[True].wait(WAIT_S)
            super().turned_away(workers, error)
            if group_behind:
                said[False].set()

    missing = delete(A, (77, "x" * 30))
    wave(log, insert(A, (1, "x" * 30)), missing, insert(A, (2, "x" * 30)))
    wave(log, *(insert(A, (key, "x" * 30)) for key in range(3, 6)))
    parts = replace(HERE, status=Ordered)
    error = stopped(log.folder, target, workers=3, group_max_transactions=3, parts=parts)
    assert isinstance(error, RowError) and error.gtid == log.gtid(4)
    assert sorted(by_worker(target, "LAST_ERROR_NUMBER")) == [1032, 3030, 3030]
    (message,) = (text for text in by_worker(target, "LAST_ERROR_MESSAGE") if "(1032)" in text)
    assert log.gtid(4) in message
    assert rows(target, A) == [(1, "x" * 30)]


def test_workers_with_transactions_behind_in_the_same_group_are_turned_away(log, target):
    wave(log, insert(A, (1, "x" * 30)), delete(A, (77, "x" * 30)), insert(A, (2, "x" * 30)))
    stopped(log.folder, target, workers=3)
    assert sorted(by_worker(target, "LAST_ERROR_NUMBER")) == [0, 1032, 3030]
