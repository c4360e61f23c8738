"""One budget of retries for all of a transaction's way, wherever its failures fall (WL#6964)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from spark_repl.apply.group import cut_publisher, xa_parts
from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut
from spark_repl.decode.stage_task import StageTask
from spark_repl.decode.stage_worker import stage
from spark_repl.errors import GivenUpError
from spark_repl.observe.status.status import status
from spark_repl.position import RelayPosition
from tests.applier.test_retries import BY_WORKER, by_worker, waiting
from tests.support import local_delta
from tests.support.binlog_writer import Table, delete, insert
from tests.support.local_delta import (
    CRASHES,
    LocalDelta,
    applier,
    apply_without_stream,
    broken,
    cuts,
    rows,
    run,
    stopped,
)

A, B = Table("a"), Table("b")
C = Table("a", (*A.columns, ("x", "int"), ("y", "int")))


class Faults:
    """Temporary errors at the first calls of the steps that are named: as often as they are."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, steps: Sequence[str]) -> None:
        self.left = Counter(steps)
        meet = self.meet

        class Delta(LocalDelta):
            def commit(self, planned: Any, *args: Any) -> int:
                if "t/a" in planned.folder:
                    meet("commit")
                return super().commit(planned, *args)

        class Cuts(Control):
            def publish(self, cut: Cut, *, later: bool = False) -> None:
                if not later:
                    meet("cut")
                super().publish(cut, later=later)

            def write_pending(self) -> None:
                meet("held back")
                super().write_pending()

        parts = replace(local_delta.HERE, stage=self._stage, delta_log=Delta, control=Cuts)
        monkeypatch.setattr(local_delta, "HERE", parts)
        monkeypatch.setattr(CRASHES, "told", lambda point: point != "xa_keeping" or meet("xa"))

    def meet(self, step: str) -> None:
        if self.left[step]:
            self.left[step] -= 1
            raise broken()

    def _stage(self, task: StageTask) -> Any:
        self.meet("stage")
        return stage(task)


WAYS = [
    ("stage", "stage", "stage"),
    ("stage", "commit", "cut"),
    ("commit", "commit", "cut"),
    ("xa", "commit", "cut"),
    ("xa", "stage", "stage"),
    ("cut", "cut", "cut"),
]


@pytest.mark.parametrize(
    ("steps", "order"),
    [*((steps, True) for steps in WAYS), (("commit", "commit", "cut"), False)],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else str(value),
)
@pytest.mark.parametrize("most", [2, 3])
def test_one_budget_for_all_of_the_way(log, target, monkeypatch, steps, order, most):
    """The third failure stops with two retries, wherever they fall; with three all are counted for
    the worker, the transaction and the channel."""
    run(log.folder, target)
    log.transaction(insert(A, (1, "x")))
    if "xa" in steps:
        log.xa_prepare((b"x", b"", 1), insert(B, (1, "x")))
    found = Faults(monkeypatch, steps)
    if most == 3:
        run(log.folder, target, transaction_retries=3, preserve_commit_order=order)
        assert rows(target, A) == [(1, "x")]
    else:
        error = stopped(log.folder, target, transaction_retries=2, preserve_commit_order=order)
        assert isinstance(error, GivenUpError)
        assert "retried transaction 2 time(s) in vain" in error.message
    assert not found.left.total()
    assert by_worker(target, "COUNT_TRANSACTIONS_RETRIES")[0] == most
    column = "LAST_APPLIED_TRANSACTION" if most == 3 else "APPLYING_TRANSACTION"
    assert by_worker(target, f"{column}_RETRIES_COUNT")[0] == most
    assert by_worker(target, f"{column}_LAST_TRANSIENT_ERROR_NUMBER")[0] == 5
    applier = status(str(target))["replication_applier_status"][0]
    assert applier["COUNT_TRANSACTIONS_RETRIES"] == most
    run(log.folder, target)
    assert rows(target, A) == [(1, "x")]


STATEMENTS = [
    ("commit", "commit", "held back"),
    ("commit", "held back", "held back"),
    ("held back", "held back", "held back"),
]


@pytest.mark.parametrize("most", [2, 3])
@pytest.mark.parametrize("steps", STATEMENTS, ids="-".join)
def test_a_statements_cut_that_is_held_back_has_no_budget_of_its_own(
    log, target, monkeypatch, steps, most
):
    """It is published where the next transaction is not due yet: behind the statement's end."""
    run(log.folder, target)
    monkeypatch.setattr(cut_publisher, "_HELD_BACK_S", 60.0)
    log.ddl("CREATE TABLE t.z (id INT PRIMARY KEY)")  # whose cut comes at once
    log.ddl("ALTER TABLE t.a ADD x INT")
    log.gno += 200_000_000  # seconds, too
    log.ddl("ALTER TABLE t.a ADD y INT")
    faults = Faults(monkeypatch, steps)
    with applier(log.folder, target, delay_s=1, transaction_retries=most) as found:
        told, shown = CRASHES.told, Counter[str]()

        def tell(point: str) -> None:
            shown[point] += 1
            if shown["after_cut"] == 2:
                found.stop()
            told(point)

        monkeypatch.setattr(CRASHES, "told", tell)
        if most == 3:
            apply_without_stream(found)
        else:
            with pytest.raises(GivenUpError, match=r"transaction 2 time\(s\) in vain") as raised:
                apply_without_stream(found)
    assert not faults.left.total()
    assert by_worker(target, "COUNT_TRANSACTIONS_RETRIES")[0] == most
    if most == 3:
        name = "LAST_APPLIED_TRANSACTION"
        assert by_worker(target, name)[0] == log.gtid(4)
        assert by_worker(target, f"{name}_RETRIES_COUNT")[0] == most
        assert by_worker(target, f"{name}_LAST_TRANSIENT_ERROR_NUMBER")[0] == 5
        assert [cut.position for cut in cuts(target)[-2:]] == [
            RelayPosition(1, end).packed for _, _, end in log.spans[3:5]
        ]
    else:
        error = raised.value
        said = f"Worker 1 failed executing transaction '{log.gtid(4)}' at relay log"
        assert error.message.startswith(f"{said} bin.000001, end_log_pos {log.spans[4][2]}; ")
        assert (error.gtid, error.position) == (log.gtid(4), f"000001:{log.spans[4][1]}")
        assert by_worker(target, "LAST_ERROR_NUMBER")[0] == 5
        assert "ahead of the last cut: t.a:" in error.message
    run(log.folder, target)
    assert status(str(target))["ahead"] == {}
    log.transaction(insert(C, (1, "x", 2, 3)))
    run(log.folder, target)
    assert rows(target, C) == [(1, "x", 2, 3)]


@pytest.mark.parametrize("commit_order", [True, False])
def test_a_branch_that_can_not_be_kept_fails_its_own_worker(log, target, monkeypatch, commit_order):
    """Worker, GTID and position of the error are those of the XA PREPARE, also if other workers
    have later transactions."""
    log.transaction(insert(A, (1, "x" * 30)))
    log.xa_prepare((b"x", b"", 1), insert(A, (2, "x" * 30)))
    for key in range(3, 6):
        log.transaction(insert(A, (key, "x" * 30)))
    faults = Faults(monkeypatch, ["xa"] * 3)
    how = {"workers": 3, "preserve_commit_order": commit_order}
    error = stopped(log.folder, target, transaction_retries=2, **how)
    assert isinstance(error, GivenUpError) and not faults.left.total()
    (worker,) = error.workers
    said = f"Worker {worker + 1} failed executing transaction '{log.gtid(4)}' at relay log"
    assert error.message.startswith(f"{said} bin.000001, end_log_pos {log.spans[4][2]}; ")
    assert (error.gtid, error.position) == (log.gtid(4), f"000001:{log.spans[4][1]}")
    own = [2 * (number == worker) for number in range(3)]
    assert by_worker(target, "COUNT_TRANSACTIONS_RETRIES") == own
    numbers = by_worker(target, "LAST_ERROR_NUMBER")
    assert numbers[worker] == 5 and numbers.count(3030) == 2
    run(log.folder, target, **how)
    assert len(rows(target, A)) == 4 and len(cuts(target)[-1].prepared) == 1


def test_the_next_group_has_a_budget_of_its_own(log, target, monkeypatch):
    for key in range(3):
        log.transaction(insert(A, (key, "x")))
    true, tried = LocalDelta.commit, Counter[int]()

    def commit(self: Any, planned: Any, actions: Any, stamp: Any) -> int:
        tried[stamp.position] += 1
        if planned.folder.endswith("t/a") and tried[stamp.position] == 1:
            raise broken()
        return true(self, planned, actions, stamp)

    monkeypatch.setattr(LocalDelta, "commit", commit)
    run(log.folder, target, group_max_transactions=1, transaction_retries=1)
    assert len(rows(target, A)) == 3
    assert by_worker(target, "COUNT_TRANSACTIONS_RETRIES")[0] == 3


def test_status_shows_the_retries_of_the_current_transaction(log, target, monkeypatch):
    """Scenario 38: the columns of the transaction that is being applied."""
    log.transaction(insert(A, (1, "x")))
    found = Faults(monkeypatch, ["commit", "commit"])
    seen = []

    def look() -> None:
        row = status(str(target))[BY_WORKER][0]
        name = "APPLYING_TRANSACTION"
        seen.append((row[name], row[f"{name}_RETRIES_COUNT"]))
        assert row[f"{name}_LAST_TRANSIENT_ERROR_NUMBER"] == 5
        assert "Input/output error" in row["LAST_TRANSIENT_ERROR_MESSAGE"]

    waiting(monkeypatch, look)
    run(log.folder, target)
    assert seen == [(log.gtid(3), 1), (log.gtid(3), 2)] and not found.left.total()


@pytest.mark.parametrize("most", [2, 3])
def test_a_statement_of_xa_that_can_not_be_read_is_the_coordinators_failure(
    log, target, monkeypatch, most
):
    """The coordinator reads it before a worker gets it. Everything before it is committed, and
    nothing after it."""
    log.transaction(insert(A, (1, "x")))
    log.xa_prepare((b"x", b"", 1), insert(A, (2, "x")))
    log.transaction(insert(A, (3, "x")))
    left, true = [3], xa_parts.read_statement

    def read(*args: Any, **how: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise broken()
        return true(*args, **how)

    monkeypatch.setattr(xa_parts, "read_statement", read)
    if most == 2:
        error = stopped(log.folder, target, transaction_retries=2)
        assert isinstance(error, GivenUpError) and not left[0]
        said = f"Coordinator failed reading transaction '{log.gtid(4)}' at relay log"
        assert error.message.startswith(f"{said} bin.000001, end_log_pos {log.spans[4][2]}; ")
        assert "2 time(s) in vain" in error.message and error.number == 5
        assert (error.gtid, error.position) == (log.gtid(4), f"000001:{log.spans[4][1]}")
        assert rows(target, A) == [(1, "x")]
        (coordinator,) = status(str(target))["replication_applier_status_by_coordinator"]
        assert (
            coordinator["LAST_ERROR_NUMBER"] == 5
            and log.gtid(4) in coordinator["LAST_ERROR_MESSAGE"]
        )
        assert by_worker(target, "LAST_ERROR_NUMBER")[0] == 0
    run(log.folder, target, transaction_retries=3)
    assert not left[0] and len(rows(target, A)) == 2 and len(cuts(target)[-1].prepared) == 1
    applier = status(str(target))["replication_applier_status"][0]
    assert applier["COUNT_TRANSACTIONS_RETRIES"] == (most if most == 3 else 0)


def test_of_several_transactions_of_a_worker_the_last_is_named(log, target, monkeypatch):
    """As in ``status``: it is unknown which of them made the commit fail."""
    for key in range(3):
        log.transaction(insert(A, (key, "x")))
    Faults(monkeypatch, ["commit"] * 9)
    error = stopped(log.folder, target, workers=1, transaction_retries=1)
    assert isinstance(error, GivenUpError) and error.gtid == log.gtid(5)
    assert f"executing transaction '{log.gtid(5)}'" in error.message
    assert by_worker(target, "APPLYING_TRANSACTION") == [log.gtid(5)]


def test_what_a_table_in_quarantine_lacks_is_kept_out_of_the_same_budget(log, target, monkeypatch):
    log.transaction(delete(A, (77, "no such")), insert(B, (1, "x")))
    run(log.folder, target, on_error="quarantine")
    log.transaction(insert(A, (2, "x")), insert(B, (2, "x")))
    left = [broken()]

    def told(point: str) -> None:
        if point == "quarantine_kept" and left:
            raise left.pop()

    monkeypatch.setattr(CRASHES, "told", told)
    run(log.folder, target, on_error="quarantine", workers=1)
    assert not left and rows(target, B) == [(1, "x"), (2, "x")]
    assert by_worker(target, "COUNT_TRANSACTIONS_RETRIES") == [1]
