"""One budget of retries for all of a transaction's way, wherever its failures fall (WL#6964)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from spark_repl.control.control import Control
from spark_repl.control.cut import Cut
from spark_repl.decode.stage import stage
from spark_repl.decode.staged import StageTask
from spark_repl.errors import GivenUpError
from spark_repl.observe.status import status
from tests.applier.test_retries import BY_WORKER, by_worker, waiting
from tests.support import local_delta
from tests.support.binlog_writer import Table, insert
from tests.support.local_delta import CRASHES, LocalDelta, broken, rows, run, stopped

A, B = Table("a"), Table("b")


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


def test_a_failure_of_the_head_start_counts(log, target, reading):
    run(log.folder, target)
    log.transaction(insert(A, (1, "x")))
    left = [2]

    def before(task: StageTask) -> None:
        if left[0]:
            left[0] -= 1
            raise broken()

    read = reading(before)
    error = stopped(log.folder, target, transaction_retries=1)
    assert isinstance(error, GivenUpError) and left == [0]
    assert [*read.values()] == [2]
    left[0] = 1
    run(log.folder, target, transaction_retries=1)
    assert by_worker(target, "COUNT_TRANSACTIONS_RETRIES")[0] == 1
    assert rows(target, A) == [(1, "x")]


def test_status_while_it_is_tried_again(log, target, monkeypatch):
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
