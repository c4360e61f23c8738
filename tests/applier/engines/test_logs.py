"""Where the log begins and ends, what is missing in it, and a second applier."""

from __future__ import annotations

import os

import pytest

import spark_repl
from spark_repl.config import Config
from spark_repl.errors import FencedError, HistoryError, LogError
from spark_repl.position import RelayPosition
from tests.spark.lab import (
    assert_applied_once,
    assert_rows,
    commits,
    cuts,
    replica_of,
    run,
    stopped,
    versions,
)
from tests.support.binlog_writer import LogWriter, Table, insert, update
from tests.support.local_delta import apply_without_stream

A, B = Table("a"), Table("b")
BAG = Table("bag", key=())
TEXT = Table("text", (("k", "varchar(80)"), ("v", "varchar(20)")))


# The log's beginning, end and damage.


def test_log_that_begins_in_mid_history(engine, log, target):
    """Scenario 53: an empty target refuses it, unless the user accepts that rows are missing."""
    log.transaction(insert(A, (1, "before"), (2, "before")))
    log.rotate()
    log.transaction(insert(A, (3, "a")))
    (log.folder / "bin.000001").unlink()
    error = stopped(engine, log.folder, target)
    assert isinstance(error, HistoryError) and f"it lacks {log.source}:1-3" in str(error)
    assert "--from-here" in str(error.hint)
    assert not cuts(target) and not (target / "t").exists()
    config = Config.from_mapping(
        {"relay": {"path": str(log.folder)}, "target": {"path": str(target)}}
    )
    with replica_of(engine, config).begin_here() as replica:
        assert apply_without_stream(replica).gtid_executed == f"{log.source}:1-4"
    assert_rows(engine, target, A, [(3, "a")])
    log.transaction(update(A, ((1, "before"), (1, "after"))))
    error = stopped(engine, log.folder, target)  # a target that has a cut goes on without asking
    assert error.number == 1032
    assert "incomplete" in error.message


def test_a_gap_between_target_and_log_stops(engine, log, target):
    log.transaction(insert(A, (1, "a")))
    run(engine, log.folder, target)
    log.transaction(insert(A, (2, "a")))
    log.rotate()
    log.rotate()
    log.transaction(insert(A, (3, "a")))
    for name in ("bin.000001", "bin.000002"):
        (log.folder / name).unlink()
    error = stopped(engine, log.folder, target)
    assert isinstance(error, HistoryError)
    assert f"{log.source}:4" in str(error)
    assert_rows(engine, target, A, [(1, "a")])


def test_a_log_cut_in_a_transaction_is_applied_up_to_it(engine, log, target):
    log.transaction(insert(A, (1, "a")))
    log.transaction(insert(A, (2, "a")))
    path, whole = log.path, log.path.read_bytes()
    path.write_bytes(whole[:-20])
    result = run(engine, log.folder, target)
    assert path.name in (result.tail or "")
    assert str(log.spans[-1][1]) in result.tail
    assert_rows(engine, target, A, [(1, "a")])
    path.write_bytes(whole)
    assert run(engine, log.folder, target).tail is None
    assert_rows(engine, target, A, [(1, "a"), (2, "a")])


def test_missing_and_foreign_log_files_are_named(engine, log, target, tmp_path):
    log.rotate()
    log.rotate()
    (log.folder / "bin.000002").unlink()
    error = stopped(engine, log.folder, target)
    assert isinstance(error, LogError)
    assert "bin.000002" in str(error)
    (tmp_path / "empty").mkdir()
    assert isinstance(stopped(engine, tmp_path / "empty", target), LogError)
    (tmp_path / "text.000001").write_text("no binlog at all")
    assert "text.000001" in str(stopped(engine, tmp_path / "text.000001", target))


def test_another_servers_log_is_refused_and_the_own_goes_on(engine, log, target, tmp_path):
    log.transaction(insert(A, (1, "a")))
    run(engine, log.folder, target)
    other = LogWriter(
        tmp_path / "other", source="99999999-2222-3333-4444-555555555555", server_id=9
    )
    other.ddl(A.create)
    other.transaction(insert(A, (2, "wrong")))
    error = stopped(engine, other.folder, target)
    assert isinstance(error, HistoryError)
    assert_rows(engine, target, A, [(1, "a")])
    log.transaction(insert(A, (3, "a")))
    run(engine, log.folder, target)
    assert_rows(engine, target, A, [(1, "a"), (3, "a")])


def test_new_log_of_the_same_server_goes_on_by_gtid(engine, log, target, tmp_path):
    """As after RESET or on another replica: file 1 again, which holds some of the old ones."""
    log.transaction(insert(A, (1, "a")))
    log.transaction(insert(A, (2, "a")))
    first = run(engine, log.folder, target)
    again = LogWriter(tmp_path / "again", gno=4, server_id=2, created=1_700_009_999)
    again.transaction(insert(A, (2, "a")))
    again.transaction(insert(A, (3, "a")), update(A, ((1, "a"), (1, "b"))))
    result = run(engine, again.folder, target)
    assert_rows(engine, target, A, [(1, "b"), (2, "a"), (3, "a")])
    assert result.gtid_executed == f"{log.source}:1-5"
    assert result.position.packed > first.position.packed
    before = versions(target)
    run(engine, again.folder, target)
    assert versions(target) == before
    again.transaction(insert(A, (4, "a")))
    run(engine, again.folder, target)
    assert_rows(engine, target, A, [(1, "b"), (2, "a"), (3, "a"), (4, "a")])
    assert_applied_once(target)


# The checkpoint.


def test_txn_is_the_transactions_end(engine, log, target):
    log.transaction(insert(A, (1, "a")))
    run(engine, log.folder, target)
    file, _, end = log.spans[-1]
    assert commits(target, "t.a")[-1] == RelayPosition(1, end).packed
    cut = cuts(target)[-1]
    assert (cut.position, cut.source["file"], cut.source["position"]) == (
        RelayPosition(1, end).packed,
        file,
        end,
    )


# Others.


def test_second_applier_is_fenced(engine, log, target):
    log.transaction(insert(A, (1, "a")))
    config = spark_repl.Config.from_mapping(
        {"relay": {"path": str(log.folder)}, "target": {"path": str(target)}}
    )
    with replica_of(engine, config) as first:
        error = stopped(engine, log.folder, target)
        assert isinstance(error, FencedError)
        assert f"pid {os.getpid()}" in error.message
        apply_without_stream(first)
    run(engine, log.folder, target)
    # One that slept while another one took over can't publish anything.
    log.transaction(insert(A, (2, "a")))
    with replica_of(engine, config) as slept:
        with replica_of(engine, config, take_over=True) as second:
            apply_without_stream(second)
        with pytest.raises(FencedError):
            apply_without_stream(slept)
    assert_rows(engine, target, A, [(1, "a"), (2, "a")])
