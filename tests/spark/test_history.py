"""Where the log begins and ends, damage, checkpoints, and others who write to the target."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import spark_repl
from spark_repl.apply.checkpoint import resume_offset
from spark_repl.errors import FencedError, HistoryError, LogError, TargetError
from spark_repl.position import RelayPosition
from spark_repl.write.group_writer import GroupWriter
from tests.spark import lab
from tests.spark.lab import (
    assert_applied_once,
    assert_rows,
    commits,
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


def test_log_that_begins_in_mid_history(spark, log, target):
    # Scenario 53: without an applier position the log's beginning counts.
    log.transaction(insert(A, (1, "before"), (2, "before")))
    log.rotate()
    log.transaction(insert(A, (3, "a")))
    (log.folder / "bin.000001").unlink()
    result = run(spark, log.folder, target)
    assert result.gtid_executed == f"{log.source}:1-4"
    assert_rows(spark, target, A, [(3, "a")])
    log.transaction(update(A, ((1, "before"), (1, "after"))))
    error = stopped(spark, log.folder, target)
    assert error.number == 1032
    assert "incomplete" in error.message


def test_gap_between_target_and_log(spark, log, target):
    log.transaction(insert(A, (1, "a")))
    run(spark, log.folder, target)
    log.transaction(insert(A, (2, "a")))
    log.rotate()
    log.rotate()
    log.transaction(insert(A, (3, "a")))
    for name in ("bin.000001", "bin.000002"):
        (log.folder / name).unlink()
    error = stopped(spark, log.folder, target)
    assert isinstance(error, HistoryError)
    assert f"{log.source}:4" in str(error)
    assert_rows(spark, target, A, [(1, "a")])


def test_flipped_byte(spark, log, target):
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


def test_cut_tail(spark, log, target):
    log.transaction(insert(A, (1, "a")))
    log.transaction(insert(A, (2, "a")))
    path, whole = log.path, log.path.read_bytes()
    path.write_bytes(whole[:-20])
    result = run(spark, log.folder, target)
    assert path.name in (result.tail or "")
    assert str(log.spans[-1][1]) in result.tail
    assert_rows(spark, target, A, [(1, "a")])
    path.write_bytes(whole)
    assert run(spark, log.folder, target).tail is None
    assert_rows(spark, target, A, [(1, "a"), (2, "a")])


def test_missing_and_foreign_files(spark, log, target, tmp_path):
    log.rotate()
    log.rotate()
    (log.folder / "bin.000002").unlink()
    error = stopped(spark, log.folder, target)
    assert isinstance(error, LogError)
    assert "bin.000002" in str(error)
    (tmp_path / "empty").mkdir()
    assert isinstance(stopped(spark, tmp_path / "empty", target), LogError)
    (tmp_path / "text.000001").write_text("no binlog at all")
    assert "text.000001" in str(stopped(spark, tmp_path / "text.000001", target))


def test_another_servers_log(spark, log, target, tmp_path):
    log.transaction(insert(A, (1, "a")))
    run(spark, log.folder, target)
    other = LogWriter(
        tmp_path / "other", source="99999999-2222-3333-4444-555555555555", server_id=9
    )
    other.ddl(A.create)
    other.transaction(insert(A, (2, "wrong")))
    error = stopped(spark, other.folder, target)
    assert isinstance(error, HistoryError)
    assert_rows(spark, target, A, [(1, "a")])
    log.transaction(insert(A, (3, "a")))
    run(spark, log.folder, target)
    assert_rows(spark, target, A, [(1, "a"), (3, "a")])


def test_new_log_of_the_same_server_goes_on_by_gtid(spark, log, target, tmp_path):
    """As after RESET or on another replica: file 1 again, which holds some of the old ones."""
    log.transaction(insert(A, (1, "a")))
    log.transaction(insert(A, (2, "a")))
    first = run(spark, log.folder, target)
    again = LogWriter(tmp_path / "again", gno=4, server_id=2, created=1_700_009_999)
    again.transaction(insert(A, (2, "a")))
    again.transaction(insert(A, (3, "a")), update(A, ((1, "a"), (1, "b"))))
    result = run(spark, again.folder, target)
    assert_rows(spark, target, A, [(1, "b"), (2, "a"), (3, "a")])
    assert result.gtid_executed == f"{log.source}:1-5"
    assert result.position.packed > first.position.packed
    before = versions(target)
    run(spark, again.folder, target)
    assert versions(target) == before
    again.transaction(insert(A, (4, "a")))
    run(spark, again.folder, target)
    assert_rows(spark, target, A, [(1, "b"), (2, "a"), (3, "a"), (4, "a")])
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


@pytest.mark.parametrize("change", ["deleted", "rolled back", "ahead"])
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
    assert versions(at) == before
    log.transaction(insert(A, (3, "a")))
    assert run(spark, log.folder, at, stream=True).counters.at_start == 0
    assert (3, "a") in rows(spark, at, A)


def test_txn_is_the_transactions_end(spark, log, target):
    log.transaction(insert(A, (1, "a")))
    run(spark, log.folder, target)
    file, _, end = log.spans[-1]
    assert commits(target, "t.a")[-1] == RelayPosition(1, end).packed
    cut = cuts(target)[-1]
    assert (cut.position, cut.source["file"], cut.source["position"]) == (
        RelayPosition(1, end).packed,
        file,
        end,
    )


# Others.


def test_second_applier_is_fenced(spark, log, target):
    log.transaction(insert(A, (1, "a")))
    config = spark_repl.Config.from_mapping(
        {"relay": {"path": str(log.folder)}, "target": {"path": str(target)}}
    )
    with spark_repl.Replica(spark, config) as first:
        error = stopped(spark, log.folder, target)
        assert isinstance(error, FencedError)
        assert f"pid {os.getpid()}" in error.message
        first.apply()
    run(spark, log.folder, target)
    # One that slept while another one took over can't publish anything.
    with spark_repl.Replica(spark, config) as slept:
        log.transaction(insert(A, (2, "a")))
        with spark_repl.Replica(spark, config, take_over=True) as second:
            second.apply()
        with pytest.raises(FencedError):
            slept.apply()
    assert_rows(spark, target, A, [(1, "a"), (2, "a")])


@pytest.mark.usefixtures("each_writer")
def test_one_overtaken_in_mid_commit_is_fenced(spark, log, target, monkeypatch):
    """As a process stopped (SIGSTOP) between its plan and its commit: crash/test_fencing.py."""
    log.transaction(insert(A, (1, "a")))
    run(spark, log.folder, target)
    log.transaction(update(A, ((1, "a"), (1, "b"))))
    config = spark_repl.Config.from_mapping(
        {"relay": {"path": str(log.folder)}, "target": {"path": str(target)},
         "apply": {"writer": lab.WRITER}}
    )  # fmt: skip
    true, published = GroupWriter._commit, []

    def commit(*args: Any) -> None:
        if not published:
            published.append(None)
            with spark_repl.Replica(spark, config, take_over=True) as second:
                second.apply()
            published[:] = cuts(target)
        true(*args)

    monkeypatch.setattr(GroupWriter, "_commit", commit)
    with spark_repl.Replica(spark, config) as first:
        coordinator = first.coordinator
        with pytest.raises(FencedError, match=f"pid {os.getpid()} on host"):
            coordinator.apply(first.index.slice(coordinator.position, first.index.end))
    assert_rows(spark, target, A, [(1, "b")])
    assert_applied_once(target)
    assert cuts(target) == published


def test_foreign_update_stops(spark, log, target):
    log.transaction(insert(A, (1, "a"), (2, "a")))
    run(spark, log.folder, target)
    spark.sql(f"UPDATE delta.`{target}/t/a` SET v = 'mine' WHERE id = 1")
    log.transaction(insert(A, (3, "a")))
    error = stopped(spark, log.folder, target)
    assert isinstance(error, TargetError)
    assert error.table == "t.a"
    assert "UPDATE" in error.message
    assert read(spark, target, "t.a").count() == 2


def test_foreign_optimize_is_fine(spark, log, target):
    for i in range(4):
        log.transaction(insert(A, (i, "a")))
    run(spark, log.folder, target, group_max_transactions=1)
    spark.sql(f"OPTIMIZE delta.`{target}/t/a`")
    log.transaction(update(A, ((2, "a"), (2, "b"))), delete(A, (0, "a")))
    run(spark, log.folder, target)
    assert_rows(spark, target, A, [(1, "a"), (2, "b"), (3, "a")])
