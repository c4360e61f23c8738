"""Commit order and retries in a whole run: faults of storage, errors of data, stops, skips.

The faults are those that storage shows: a commit that fails, one that lands while its answer is
lost, a data file that can't be written.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

from spark_repl import Config, Replica
from spark_repl.apply.stream.stream import RelayStream
from spark_repl.schedule.until import Until
from tests.spark.lab import PARTS, assert_applied_once, assert_rows, cuts, read, run, versions
from tests.support.binlog_writer import Table, insert

A, B = Table("a"), Table("b")


def test_until_ends_a_run_before_or_after_gtids(spark, log, target):
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
        late = threading.Timer(300, replica.stop)
        late.start()
        try:
            assert replica.apply(follow=True).counters.transactions == 0
        finally:
            late.cancel()
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
    with Replica(spark, config, parts=PARTS) as replica:
        records = replica.index.slice(0, replica.index.end)
        rows = [(int(one["position"]), int(one["end"])) for one in records]
        frame = spark.createDataFrame(rows, "position long, end long")
        opened = replica.opened
        stream = RelayStream(
            spark, opened.applied, opened.coordinator, opened.checkpoint, opened.retries,
            lambda: False, config=config,
        )  # fmt: skip
        stream._batch(frame.mapInArrow(whole, frame.schema), 0)
        assert replica.counters.retries == 1
    assert_rows(spark, target, A, [(1, "x")])
