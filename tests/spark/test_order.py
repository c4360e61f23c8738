"""Commit order and retries in a whole run: faults of storage, errors of data, stops, skips.

The faults are those that storage shows: a commit that fails, one that lands while its answer is
lost, a data file that can't be written.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from spark_repl import Config, Replica
from spark_repl.apply.stream import RelayStream
from spark_repl.cli.main import main
from spark_repl.control.control import Control
from spark_repl.control.layout import Layout
from spark_repl.delta.delta_log import DeltaLog
from spark_repl.errors import FencedError, RowError, TargetError
from spark_repl.observe.status import status
from spark_repl.runtime.retry import Retries
from spark_repl.schedule.stops import Until
from tests.spark.lab import assert_applied_once, assert_rows, cuts, read, run, stopped, versions
from tests.support.binlog_writer import Table, insert, update

A, B = Table("a"), Table("b")


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Retries, "_pause", lambda self, seconds: None)


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[str]]]:
    """``faults(plan)``: the n-th Delta commit meets plan[n]: None, "before" or "after" it."""
    true = DeltaLog.commit
    met: list[str] = []
    lock = threading.Lock()

    def install(plan: list[str | None]) -> list[str]:
        def commit(self: DeltaLog, *args: Any) -> int:
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

        monkeypatch.setattr(DeltaLog, "commit", commit)
        return met

    yield install


@pytest.mark.parametrize("plan", [["before"], ["after"], [None, "before", "after"], ["after"] * 4])
def test_storage_faults_are_retried(spark, log, target, faults, plan):
    # Scenarios 37, 38; an unknown commit outcome is resolved by looking.
    log.ddl(B.create)
    for key in range(1, 9):
        log.transaction(insert(A, (key, "x")), insert(B, (key, "y")))
    want = len([fault for fault in plan if fault])
    met = faults(list(plan))
    result = run(spark, log.folder, target, group_max_transactions=3)
    assert len(met) == want
    # What landed although the answer was lost is found by looking, and not tried again.
    assert result.counters.retries == plan.count("before")
    assert_rows(spark, target, A, [(key, "x") for key in range(1, 9)])
    assert_rows(spark, target, B, [(key, "y") for key in range(1, 9)])
    assert_applied_once(target)
    worker = status(str(target))["replication_applier_status_by_worker"][0]
    assert ("Input/output" in str(worker)) == ("before" in plan)


def test_retries_in_vain(spark, log, target, faults):
    # Scenarios 22, 37: exhaustion stops with MySQL's words; the cause mended, it goes on.
    log.transaction(insert(A, (1, "x")))
    faults(["before"] * 3)
    error = stopped(spark, log.folder, target, transaction_retries=2)
    assert isinstance(error, TargetError)
    assert "worker thread retried transaction 2 time(s) in vain" in str(error)
    assert_rows(spark, target, A, [])
    leftovers = [
        path for path in (target / "t" / "a").glob("**/*.parquet") if "_repl" not in path.parts
    ]
    # What may still land, for all that is known, is left to VACUUM (applier/test_outcomes.py).
    assert len(leftovers) == 3
    run(spark, log.folder, target)
    assert_rows(spark, target, A, [(1, "x")])


def test_no_retries(spark, log, target, faults):
    log.transaction(insert(A, (1, "x")))
    faults(["before"])
    assert "retried transaction 0 time(s)" in str(
        stopped(spark, log.folder, target, transaction_retries=0)
    )


def test_fence_is_not_retried(spark, log, target, monkeypatch):
    log.transaction(insert(A, (1, "x")))
    calls = []

    def commit(*args: Any) -> int:
        calls.append(1)
        Control(Layout(str(target)).control).claim(take_over=True)
        raise FencedError("another applier has committed to this table")

    monkeypatch.setattr(DeltaLog, "commit", commit)
    assert isinstance(stopped(spark, log.folder, target), FencedError)
    assert len(calls) == 1


@pytest.mark.parametrize("bound", [1, 2, 100])
def test_committed_set_stays_a_prefix(spark, log, target, bound, caplog):
    # Scenarios 2, 19, 47: T fails, all before it lands, nothing behind it, and T is named.
    log.ddl(B.create)
    log.transaction(insert(A, (1, "x")), insert(B, (1, "x")))
    log.transaction(insert(A, (2, "x")))
    log.transaction(update(A, ((77, "no"), (77, "such"))))
    bad = f"{log.source}:6"
    log.transaction(insert(B, (9, "behind")))
    error = stopped(spark, log.folder, target, group_max_transactions=bound)
    assert isinstance(error, RowError)
    assert error.number == 1032
    assert error.gtid == bad
    assert_rows(spark, target, A, [(1, "x"), (2, "x")])
    assert_rows(spark, target, B, [(1, "x")])
    if bound == 1:
        assert "at least one previous worker encountered an error" in caplog.text
    said = status(str(target))["replication_applier_status_by_coordinator"][0]
    assert said["LAST_ERROR_NUMBER"] == 1032
    assert bad in said["LAST_ERROR_MESSAGE"]
    assert main(["skip", "--gtid", bad, "--target", str(target), "--json"]) == 0
    result = run(spark, log.folder, target, group_max_transactions=bound)
    assert result.counters.skipped == 1
    assert_rows(spark, target, B, [(1, "x"), (9, "behind")])
    assert_applied_once(target)


def test_until(spark, log, target):
    # Scenario 12.
    for key in range(1, 7):
        log.transaction(insert(A, (key, "x")))
    config = Config.from_mapping(
        {"relay": {"path": str(log.folder)}, "target": {"path": str(target)}}
    )
    for until, rows in ((f"before-gtids:{log.source}:4", 1), (f"after-gtids:{log.source}:6", 4)):
        with Replica(spark, config, until=Until.parse(until)) as replica:
            result = replica.apply()
        assert read(spark, target, "t.a").count() == rows
        assert result.gtid_executed.endswith(f"1-{rows + 2}")
    run(spark, log.folder, target)
    assert read(spark, target, "t.a").count() == 6
    assert_applied_once(target)


def test_until_ends_a_follower_on_an_idle_source(spark, log, target):
    # Scenario 12: it is met at the start, or while nothing but a ROTATE comes.
    log.transaction(insert(A, (1, "x")))
    run(spark, log.folder, target)
    config = Config.from_mapping(
        {"relay": {"path": str(log.folder)}, "target": {"path": str(target)}}
    )
    at = f"{log.path.name}:{log.path.stat().st_size}"
    behind = f"{log.path.name}:{log.path.stat().st_size + 1}"
    for until in (f"after-gtids:{log.gtid(2)}", f"before-gtids:{log.gtid(2)}", f"source:{at}"):
        with Replica(spark, config, until=Until.parse(until)) as replica:
            assert replica.apply(follow=True).counters.transactions == 0
    with Replica(spark, config, until=Until.parse(f"relay:{behind}")) as replica:
        threading.Timer(3, log.rotate).start()
        threading.Timer(40, replica.stop).start()
        assert replica.apply(follow=True).counters.transactions == 0
        assert replica.coordinator.reached_until


def test_stop_before_damage_is_no_error(spark, log, target):
    for key in (1, 2, 3):
        log.transaction(insert(A, (key, "x")))
    file, at, _ = log.spans[-1]
    whole = (log.folder / file).read_bytes()
    (log.folder / file).write_bytes(whole[: at + 4] + bytes([99]) + whole[at + 5 :])
    config = Config.from_mapping(
        {"relay": {"path": str(log.folder)}, "target": {"path": str(target)}}
    )
    with Replica(spark, config, until=Until.parse(f"after-gtids:{log.gtid(2)}")) as replica:
        assert replica.apply().counters.transactions == 3
    delayed = config.override({"apply.delay_s": 100_000_000})
    with Replica(spark, delayed) as replica:
        threading.Timer(3, replica.stop).start()
        assert replica.apply(follow=True).counters.transactions == 0
    assert_rows(spark, target, A, [(1, "x")])


def test_stop_waits_for_the_delay_no_longer(spark, log, target):
    # Scenario 63: SOURCE_DELAY; a stop comes through.
    log.transaction(insert(A, (1, "x")))
    apply = {"delay_s": 100_000_000}
    config = Config.from_mapping(
        {"relay": {"path": str(log.folder)}, "target": {"path": str(target)}, "apply": apply}
    )
    with Replica(spark, config) as replica:
        threading.Timer(3, replica.stop).start()
        result = replica.apply()
    assert result.counters.transactions == 0
    assert not versions(target)
    assert cuts(target) == []


def test_a_batch_is_asked_for_anew_when_a_worker_dies(spark, log, target, tmp_path):
    """Spark remembers that a frame's stage has failed: the same frame fails for ever."""
    log.transaction(insert(A, (1, "x")))
    met = tmp_path / "met"

    def whole(batches: Any) -> Any:
        if not met.exists():
            met.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield from batches

    config = Config.from_mapping(
        {"relay": {"path": str(log.folder)}, "target": {"path": str(target)}}
    )
    with Replica(spark, config) as replica:
        records = replica.index.slice(0, replica.index.end)
        rows = [(int(one["position"]), int(one["end"])) for one in records]
        frame = spark.createDataFrame(rows, "position long, end long")
        opened = replica.opened
        stream = RelayStream(
            spark, opened.applied, opened.coordinator, opened.checkpoint, opened.retries,
            lambda: False, group_bytes=1 << 20,
        )  # fmt: skip
        stream._batch(frame.mapInArrow(whole, frame.schema), 0)
        assert replica.counters.retries == 1
    assert_rows(spark, target, A, [(1, "x")])
