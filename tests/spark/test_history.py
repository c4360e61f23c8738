"""Where the log begins and ends, damage, checkpoints, and others who write to the target."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import spark_repl
from spark_repl.apply.stream.stream_checkpoint import resume_offset
from spark_repl.crash_points import listening
from spark_repl.errors import FencedError, LogError, TargetError
from spark_repl.position import RelayPosition
from tests.spark.lab import (
    assert_applied_once,
    assert_rows,
    cuts,
    read,
    rows,
    run,
    stopped,
    versions,
)
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update

A, B = Table("a"), Table("b")
BAG = Table("bag", key=())
TEXT = Table("text", (("k", "varchar(80)"), ("v", "varchar(20)")))


# The log's beginning, end and damage.


def test_a_flipped_byte_stops_after_the_good_transactions(spark, log, target):
    for i in range(5):
        log.transaction(insert(A, (i, "abc")))
    file, start, end = log.spans[4]
    path = log.folder / file
    good = path.read_bytes()
    bad = bytearray(good)
    bad[good.index(b"abc", start, end)] ^= 1
    path.write_bytes(bad)
    error = stopped(spark, log.folder, target, stream=True)
    assert isinstance(error, LogError)
    assert error.file == str(path)
    assert start <= RelayPosition.parse(error.position).offset < end
    assert_rows(spark, target, A, [(0, "abc"), (1, "abc")])
    path.write_bytes(good)
    run(spark, log.folder, target)
    assert_rows(spark, target, A, [(i, "abc") for i in range(5)])
    assert_applied_once(target)


# The checkpoint.


def _two_runs(spark: SparkSession, log: LogWriter, target: Path, old: Path) -> None:
    """Two runs; ``old`` is the target as it was between them."""
    log.ddl(B.create)
    log.transaction(insert(A, (1, "a")), insert(B, (1, "a")))
    run(spark, log.folder, target, stream=True)
    shutil.copytree(target, old)
    log.transaction(insert(A, (2, "a")))
    log.transaction(insert(B, (2, "a")), update(A, ((1, "a"), (1, "b"))))
    run(spark, log.folder, target, stream=True)


def _whole(spark: SparkSession, target: Path) -> None:
    assert_rows(spark, target, A, [(1, "b"), (2, "a")])
    assert_rows(spark, target, B, [(1, "a"), (2, "a")])
    assert_applied_once(target)


@pytest.mark.parametrize(
    "change", ["deleted", pytest.param("rolled back", marks=pytest.mark.soak), "ahead"]
)
def test_checkpoint_is_only_a_hint(spark, log, target, tmp_path, change):
    # Scenario 54: stale positions beside the data are corrected by the data's own.
    old = tmp_path / "old"
    _two_runs(spark, log, target, old)
    before, checkpoint = versions(target), target / "_repl" / "checkpoint"
    at = target
    if change == "ahead":  # tables of the older run under the checkpoint of the newer one
        at = old
        shutil.rmtree(old / "_repl" / "checkpoint")
        shutil.copytree(checkpoint, old / "_repl" / "checkpoint")
        (newest,) = (old / "_repl" / "checkpoint").iterdir()
        ahead = resume_offset(str(newest))
        assert ahead is not None and ahead > cuts(old)[-1].position
    else:
        shutil.rmtree(checkpoint)
        if change == "rolled back":
            shutil.copytree(old / "_repl" / "checkpoint", checkpoint)
    result = run(spark, log.folder, at, stream=True)
    assert result.counters.at_start == (2 if change == "ahead" else 0)
    _whole(spark, at)
    if change != "ahead":  # whose groups are others
        assert versions(at) == before
    log.transaction(insert(A, (3, "a")))
    assert run(spark, log.folder, at, stream=True).counters.at_start == 0
    assert (3, "a") in rows(spark, at, A)


@pytest.mark.parametrize("left", ["unfinished", "torn"])
def test_a_checkpoint_of_a_killed_process_is_no_obstacle(spark, log, target, left):
    """The process ended while Spark wrote a batch's place. Spark refuses such a checkpoint."""
    log.transaction(insert(A, (1, "a")))
    run(spark, log.folder, target, stream=True)
    (checkpoint,) = (target / "_repl" / "checkpoint").iterdir()
    if left == "unfinished":
        for name in ("offsets", "commits"):
            for file in (checkpoint / name).iterdir():
                file.unlink()
        (checkpoint / "offsets" / ".0.72cb1d78-854e-4b0d.tmp").write_text("v1")
    else:
        newest = max((checkpoint / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
        newest.write_text("")
    log.transaction(insert(A, (2, "a")))
    run(spark, log.folder, target, stream=True)
    assert_rows(spark, target, A, [(1, "a"), (2, "a")])


# Others.


def test_one_overtaken_in_mid_commit_is_fenced(spark, log, target):
    """As a process stopped (SIGSTOP) between its plan and its commit: crash/test_fencing.py."""
    log.transaction(insert(A, (1, "a")))
    run(spark, log.folder, target)
    log.transaction(update(A, ((1, "a"), (1, "b"))))
    config = spark_repl.Config.from_mapping(
        {"relay": {"path": str(log.folder)}, "target": {"path": str(target)}}
    )
    published = list[Any]()

    def overtake(point: str) -> None:
        if point == "before_commit" and not published:
            published.append(None)
            with spark_repl.Replica(spark, config, take_over=True) as second:
                second.apply()
            published[:] = cuts(target)

    with listening(overtake), spark_repl.Replica(spark, config) as first:
        coordinator = first.coordinator
        with pytest.raises(FencedError, match=f"pid {os.getpid()} on host"):
            coordinator.apply(first.index.slice(coordinator.mark.position, first.index.end))
    assert_rows(spark, target, A, [(1, "b")])
    assert_applied_once(target)
    assert cuts(target) == published


@pytest.mark.soak  # beside a run: test_foreign_commits.py
def test_a_foreign_update_stops_the_applier(spark, log, target):
    log.transaction(insert(A, (1, "a"), (2, "a")))
    run(spark, log.folder, target)
    spark.sql(f"UPDATE delta.`{target}/t/a` SET v = 'mine' WHERE id = 1")
    log.transaction(insert(A, (3, "a")))
    error = stopped(spark, log.folder, target)
    assert isinstance(error, TargetError)
    assert error.table == "t.a"
    assert "UPDATE" in error.message
    assert read(spark, target, "t.a").count() == 2


@pytest.mark.soak  # beside a run: test_foreign_commits.py
def test_foreign_optimize_is_fine(spark, log, target):
    for i in range(4):
        log.transaction(insert(A, (i, "a")))
    run(spark, log.folder, target, group_max_transactions=1)
    spark.sql(f"OPTIMIZE delta.`{target}/t/a`")
    log.transaction(update(A, ((2, "a"), (2, "b"))), delete(A, (0, "a")))
    run(spark, log.folder, target)
    assert_rows(spark, target, A, [(1, "a"), (2, "b"), (3, "a")])
