"""Retries in a whole run: faults of storage, errors of data, skips.

The faults are those that storage shows: a commit that fails, one that lands while its answer is
lost, a data file that can't be written.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_repl.cli.main import main
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.delta.log.table_log import TableLog
from spark_repl.errors import FencedError, RowError, TargetError
from spark_repl.observe.status.status import status
from tests.spark.lab import assert_applied_once, assert_rows, run, stopped
from tests.support.binlog_writer import Table, insert, update
from tests.support.local_delta import LocalDelta

A, B = Table("a"), Table("b")


@pytest.fixture
def delta(engine: SparkSession | None) -> type[TableLog]:
    """Whose ``commit`` the engine calls."""
    return TableLog if engine else LocalDelta


@pytest.fixture
def faults(
    delta: type[TableLog], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., list[str]]]:
    """``faults(plan)``: the n-th Delta commit meets plan[n]: None, "before" or "after" it."""
    true = delta.commit
    met: list[str] = []
    lock = threading.Lock()

    def install(plan: list[str | None]) -> list[str]:
        def commit(self: TableLog, *args: Any) -> int:
            with lock:
                now = plan.pop(0) if plan else None
                if now:
                    met.append(now)
            if now == "before":
                raise OSError(errno.EIO, "Input/output error")
            version = true(self, *args)
            if now == "after":
                raise TimeoutError("the answer was lost")
            return version

        monkeypatch.setattr(delta, "commit", commit)
        return met

    yield install


PLANS = (["before"], ["after"], ["after"] * 4, [None, "before", "after"])


@pytest.mark.parametrize(
    ("engine", "plan"),
    [
        *(("", plan) for plan in PLANS),
        *(pytest.param("direct", plan, marks=pytest.mark.soak) for plan in PLANS[:-1]),
        ("direct", PLANS[-1]),  # one of them on Spark always
    ],
    indirect=["engine"],
)
def test_storage_faults_are_retried(engine, log, target, faults, plan):
    # Scenarios 37, 38; an unknown commit outcome is resolved by looking.
    log.ddl(B.create)
    for key in range(1, 9):
        log.transaction(insert(A, (key, "x")), insert(B, (key, "y")))
    want = len([fault for fault in plan if fault])
    met = faults(list(plan))
    result = run(engine, log.folder, target, group_max_transactions=3)
    assert len(met) == want
    # What landed although the answer was lost is found by looking, and not tried again.
    assert result.counters.retries == plan.count("before")
    assert_rows(engine, target, A, [(key, "x") for key in range(1, 9)])
    assert_rows(engine, target, B, [(key, "y") for key in range(1, 9)])
    assert_applied_once(target)
    worker = status(str(target))["replication_applier_status_by_worker"][0]
    assert ("Input/output" in str(worker)) == ("before" in plan)


def test_retries_in_vain_stop_and_the_next_run_commits_once(engine, log, target, faults):
    # Scenarios 22, 37: exhaustion stops with MySQL's words; the cause mended, it goes on.
    log.transaction(insert(A, (1, "x")))
    faults(["before"] * 3)
    error = stopped(engine, log.folder, target, transaction_retries=2)
    assert isinstance(error, TargetError)
    assert "worker thread retried transaction 2 time(s) in vain" in str(error)
    assert_rows(engine, target, A, [])
    leftovers = [
        path for path in (target / "t" / "a").glob("**/*.parquet") if "_repl" not in path.parts
    ]
    # What may still land, for all that is known, is left to VACUUM
    # (applier/test_commit_outcomes.py).
    assert len(leftovers) == 3
    run(engine, log.folder, target)
    assert_rows(engine, target, A, [(1, "x")])


def test_without_retries_the_first_fault_of_storage_stops(engine, log, target, faults):
    log.transaction(insert(A, (1, "x")))
    faults(["before"])
    error = stopped(engine, log.folder, target, transaction_retries=0)
    assert error.number == errno.EIO
    assert "Input/output error" in error.message and "in vain" not in error.message


def test_fence_is_not_retried(engine, log, target, delta, monkeypatch):
    log.transaction(insert(A, (1, "x")))
    calls = []

    def commit(*args: Any) -> int:
        calls.append(1)
        Control(Layout(str(target)).control).claim(take_over=True)
        raise FencedError("another applier has committed to this table")

    monkeypatch.setattr(delta, "commit", commit)
    assert isinstance(stopped(engine, log.folder, target), FencedError)
    assert len(calls) == 1


@pytest.mark.parametrize("bound", [1, 2, 100])
def test_committed_set_stays_a_prefix(engine, log, target, bound, caplog):
    # Scenarios 2, 19, 47: T fails, all before it lands, nothing behind it, and T is named.
    log.ddl(B.create)
    log.transaction(insert(A, (1, "x")), insert(B, (1, "x")))
    log.transaction(insert(A, (2, "x")))
    log.transaction(update(A, ((77, "no"), (77, "such"))))
    bad = f"{log.source}:6"
    log.transaction(insert(B, (9, "behind")))
    error = stopped(engine, log.folder, target, group_max_transactions=bound)
    assert isinstance(error, RowError)
    assert error.number == 1032
    assert error.gtid == bad
    assert_rows(engine, target, A, [(1, "x"), (2, "x")])
    assert_rows(engine, target, B, [(1, "x")])
    if bound == 1:
        assert "at least one previous worker encountered an error" in caplog.text
    said = status(str(target))["replication_applier_status_by_coordinator"][0]
    assert said["LAST_ERROR_NUMBER"] == 1032
    assert bad in said["LAST_ERROR_MESSAGE"]
    assert main(["skip", "--gtid", bad, "--target", str(target), "--json"]) == 0
    result = run(engine, log.folder, target, group_max_transactions=bound)
    assert result.counters.skipped == 1
    assert_rows(engine, target, B, [(1, "x"), (9, "behind")])
    assert_applied_once(target)
