"""Commit order, retries, positions and restarts in the whole applier, without Spark.

Each test names the test of MySQL's that it corresponds to (scenarios.py), and asserts the same
outcome.
"""

from __future__ import annotations

import errno
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_repl.cli.main import main
from spark_repl.control.records.operator_decisions import decide
from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut
from spark_repl.control.table.layout import Layout
from spark_repl.decode.stage_worker import stage
from spark_repl.errors import RowError, TargetError
from spark_repl.gtid import GtidSet
from spark_repl.observe.reports.applier_status import Counters
from spark_repl.observe.reports.worker_status import WAITING
from spark_repl.observe.status.status import status
from spark_repl.position import RelayPosition
from spark_repl.schedule.until import Until
from tests.support import local_delta
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import LocalDelta, applier, cuts, rows, run, stopped
from tests.support.wait_until import wait_until

A, B = Table("a"), Table("b")


def last_gno(cut: Cut) -> int:
    return int(re.split("[:-]", cut.gtid_executed)[-1])


# Commit order.


@pytest.mark.parametrize("bound", [1, 2, 100])
def test_error_while_the_coordinator_waits(log, target, bound):
    """Scenario 3: a worker's error while the coordinator waits for a free one: a clean stop,
    everything before the transaction applied, nothing behind it, and a restart goes on."""
    log.transaction(insert(A, (1, "x")))
    log.transaction(delete(A, (77, "no such")))
    for key in range(2, 8):
        log.transaction(insert(A, (key, "behind")))
    error = stopped(log.folder, target, group_max_transactions=bound)
    assert (error.number, error.gtid) == (1032, log.gtid(4))
    assert rows(target, A) == [(1, "x")]
    assert last_gno(cuts(target)[-1]) == 4
    run(log.folder, target, exec_mode="idempotent")
    assert len(rows(target, A)) == 7


def test_an_error_that_a_later_change_of_its_row_had_hidden(log, target):
    """The group has no net change of row 5; the changes before the first fault show the error."""
    log.transaction(insert(A, (2, "x"), (5, "x")))
    run(log.folder, target)
    log.transaction(update(A, ((2, "x"), (2, "y"))))
    log.transaction(insert(A, (5, "again")))
    log.transaction(delete(A, (77, "no such")))
    log.transaction(delete(A, (5, "again")))
    error = stopped(log.folder, target)
    assert (error.number, error.gtid) == (1062, log.gtid(5))
    assert rows(target, A) == [(2, "y"), (5, "x")]
    assert last_gno(cuts(target)[-1]) == 5


def test_a_row_that_comes_twice_is_named_by_its_first_insert(log, target):
    """Behind its DELETE the second INSERT would fit: what is before that one is no prefix."""
    log.transaction(insert(A, (2, "x"), (5, "x")))
    run(log.folder, target)
    log.transaction(update(A, ((2, "x"), (2, "y"))))
    for change in (insert(A, (5, "y")), delete(A, (5, "y")), insert(A, (5, "z"))):
        log.transaction(change)
    error = stopped(log.folder, target)
    assert (error.number, error.gtid) == (1062, log.gtid(5))
    assert rows(target, A) == [(2, "y"), (5, "x")]
    assert last_gno(cuts(target)[-1]) == 5


def test_error_and_stop_at_once(log, target):
    """Scenario 5: a worker's error and STOP REPLICA while the coordinator waits: it ends, and the
    error is not hidden by the stop."""
    log.transaction(insert(A, (1, "x")))
    log.transaction(delete(A, (77, "no such")))
    for key in range(2, 8):
        log.transaction(insert(A, (key, "behind")))
    with applier(log.folder, target, group_max_transactions=1) as found:
        write = found.coordinator._pipeline.writer.write

        def stopping(*args: Any, **options: Any) -> Any:
            if rows_written(target):
                found.stop()
            return write(*args, **options)

        found.coordinator._pipeline.writer.write = stopping
        with pytest.raises(RowError):
            found.coordinator.apply(found.index.slice(0, found.index.end))
    assert rows(target, A) == [(1, "x")]


def rows_written(target: Path) -> bool:
    return bool((target / "t" / "a").exists() and rows(target, A))


@pytest.mark.parametrize("order", [True, False])
def test_stop_reports_the_position_of_the_last_cut(log, target, order):
    """Scenario 8: STOP REPLICA reports the last checkpoint, and the tables are at that place."""
    for key in range(1, 9):
        log.transaction(insert(A, (key, "x")), insert(B, (key, "x")))
    apply = {"group_max_transactions": 2, "preserve_commit_order": order}

    def stop(counted: Counters, end: int) -> None:
        if counted.transactions >= 7:
            found.stop()

    with applier(log.folder, target, on_group=stop, **apply) as found:
        found.coordinator.apply(found.index.slice(0, found.index.end))
        position = found.coordinator.mark.position
    last = cuts(target)[-1]
    assert last.position == position
    assert position in [RelayPosition(1, end).packed for _, _, end in log.spans]
    assert len(rows(target, A)) == len(rows(target, B)) == last_gno(last) - 3
    assert status(str(target))["relay_position"] == f"bin.000001:{position & 0xFFFFFFFFFF}"
    run(log.folder, target)
    assert len(rows(target, A)) == 8


@pytest.mark.parametrize(
    "statement",
    [
        "DROP DATABASE other",
        "OPTIMIZE TABLE t.a",
        "REPAIR TABLE t.a",
        "ANALYZE TABLE t.a",
        "CREATE USER 'x'@'%'",
        "GRANT SELECT ON t.* TO 'x'@'%'",
        "REVOKE SELECT ON t.* FROM 'x'@'%'",
        "ALTER USER 'x'@'%' ACCOUNT LOCK",
        "CREATE INDEX i ON t.a (v)",
        "CREATE PROCEDURE t.p() SELECT 1",
        "CREATE VIEW t.w AS SELECT 1",
        "CREATE TABLE t.c (id INT PRIMARY KEY)",
        "FLUSH TABLES",
        "ALTER TABLE t.b ADD c INT",
        "ALTER TABLE t.b RENAME COLUMN v TO w",
        "RENAME TABLE t.b TO t.d",
        "TRUNCATE TABLE t.b",
        "ALTER TABLE t.b PARTITION BY HASH (id) PARTITIONS 2",
        "ALTER TABLE t.b REMOVE PARTITIONING",
    ],
)
def test_statements_commit_in_the_order_of_the_log(log, target, statement):
    """Scenarios 23, 24, 34: DDL and account statements commit in order. After each of them the
    tables have all earlier changes and no later one."""
    log.transaction(insert(A, (1, "before")))
    log.ddl(statement)
    log.transaction(insert(A, (2, "behind")))
    run(log.folder, target)
    at = next(cut for cut in cuts(target) if last_gno(cut) == 5)
    assert rows(target, A, at.tables["t.a"].version) == [(1, "before")]
    assert rows(target, A) == [(1, "before"), (2, "behind")]


def test_a_create_if_not_exists_keeps_the_existing_table(log, target):
    """The table was there before the log, and is another one than the statement describes."""
    other = "CREATE TABLE IF NOT EXISTS t.c (v INT, id INT PRIMARY KEY)"
    log.ddl(other, status=b"\x12\xff\0")
    log.transaction(insert(Table("c"), (1, "x")))
    run(log.folder, target)
    assert rows(target, Table("c")) == [(1, "x")]


@pytest.mark.parametrize("engine", ["MyISAM", "MEMORY"])
def test_a_create_of_an_engine_without_transactions_bears_no_mark(log, target, engine):
    log.ddl(f"CREATE TABLE IF NOT EXISTS t.c (id INT) ENGINE={engine}", status=b"\x12\xff\0")
    run(log.folder, target)
    assert rows(target, Table("c", (("id", "int"),))) == []


def test_empty_and_skipped_transactions_take_their_slots(log, target):
    """Scenarios 25, 26, 120: an empty transaction and one that is left out are committed and
    recorded in order, like any other."""
    log.transaction(insert(A, (1, "x")))
    log.transaction()
    log.transaction(insert(A, (2, "left out")))
    log.transaction(insert(A, (3, "x")))
    decide(Control(Layout(str(target)).control), "skip", {}, gtid_executed=log.gtid(5))
    run(log.folder, target, group_max_transactions=1)
    assert [last_gno(cut) for cut in cuts(target)] == [1, 2, 3, 4, 5, 6, 7]
    assert rows(target, A) == [(1, "x"), (3, "x")]


def test_what_is_left_out_and_never_comes_counts_as_executed(log, target):
    """Errant transactions that the source has purged; after them nothing may come."""
    log.transaction(insert(A, (1, "x")))
    run(log.folder, target)
    errant = "eeeeeeee-eeee-eeee-eeee-eeeeeeeeeeee:1-3"
    decide(Control(Layout(str(target)).control), "skip", {}, gtid_executed=errant)
    run(log.folder, target)
    (before, after) = cuts(target)[-2:]
    assert GtidSet.parse(after.gtid_executed) == GtidSet.parse(before.gtid_executed).union(
        GtidSet.parse(errant)
    )
    assert (after.position, after.tables) == (before.position, before.tables)
    log.transaction(insert(A, (2, "x")))
    run(log.folder, target)
    run(log.folder, target)
    assert GtidSet.parse(errant).issubset(GtidSet.parse(cuts(target)[-1].gtid_executed))
    assert rows(target, A) == [(1, "x"), (2, "x")]


@pytest.mark.parametrize("restarts", [False, True])
def test_what_is_left_out_before_it_comes_is_not_applied(log, target, restarts):
    log.transaction(insert(A, (1, "x")))
    run(log.folder, target)
    decide(Control(Layout(str(target)).control), "skip", {}, gtid_executed=log.gtid(4))
    if restarts:
        run(log.folder, target)
    log.transaction(insert(A, (2, "left out")))
    log.transaction(insert(A, (3, "x")))
    run(log.folder, target)
    run(log.folder, target)
    assert rows(target, A) == [(1, "x"), (3, "x")]


def test_a_transaction_larger_than_the_bounds_is_a_group(log, target):
    """Scenario 7: an event larger than replica_pending_jobs_size_max is applied, alone."""
    log.transaction(insert(A, (1, "x")))
    log.transaction(insert(A, *[(key, "x" * 40) for key in range(10, 400)]))
    log.transaction(insert(A, (2, "x")))
    run(log.folder, target, group_max_bytes=1000)
    assert len(rows(target, A)) == 392
    assert [last_gno(cut) for cut in cuts(target)][-3:] == [4, 5, 6]


def test_until_inside_a_transaction_applies_the_whole_of_it(log, target):
    """Scenario 6: a position inside a group: the whole group is applied, then it stops."""
    log.transaction(insert(A, (1, "x")))
    log.transaction(insert(A, (2, "x")))
    inside = log.spans[3][1] + 30
    with applier(log.folder, target, until=Until.parse(f"relay:bin.000001:{inside}")) as found:
        found.coordinator.apply(found.index.slice(0, found.index.end))
        assert found.coordinator.reached_until
    assert rows(target, A) == [(1, "x")]


def test_plain_binary_logs_are_relay_logs(log, target):
    """Scenario 16: several binary log files, used as they are, one behind the other."""
    for key in range(1, 7):
        log.transaction(insert(A, (key, "x")))
        if key % 2:
            log.rotate()
    run(log.folder, target)
    assert len(rows(target, A)) == 6
    assert cuts(target)[-1].source["file"] == "bin.000004"


def test_status_shows_a_group_that_waits_for_an_earlier_one(log, target, monkeypatch, capsys):
    """Scenarios 18, 33, 169: a group is written, and waits for the group before it, whose commit is
    retried. The status shows the wait exactly as long as it lasts."""
    for key in range(1, 4):
        log.transaction(insert(A, (key, "x")))
    true, seen, tried = LocalDelta.commit, [], []

    def is_waiting() -> bool:
        worker = status(str(target))["replication_applier_status_by_worker"][0]
        seen.append(worker["PROCESSLIST_STATE"])
        return bool(seen[-1] == WAITING)

    def commit(self: Any, *args: Any) -> int:
        tried.append(1)
        if len(tried) in (1, 2):
            wait_until(is_waiting, each_s=0.05)
        if len(tried) == 1:
            main(["status", "--target", str(target)])
            raise OSError(errno.EIO, "Input/output error")
        return true(self, *args)

    monkeypatch.setattr(LocalDelta, "commit", commit)
    run(log.folder, target, group_max_transactions=1)
    assert seen.count(WAITING) == 2  # before the retry, and in it
    assert f"  {WAITING}  " in capsys.readouterr().out
    after = status(str(target))["replication_applier_status_by_worker"][0]
    assert after["PROCESSLIST_STATE"] == ""
    assert after["LAST_APPLIED_TRANSACTION"] == log.gtid(5)
    assert after["LAST_APPLIED_TRANSACTION_RETRIES_COUNT"] == 0


def test_status_of_a_transaction_that_was_tried_again(log, target, faults):
    """Scenario 38: the status also shows the retries of the last transaction."""
    log.transaction(insert(A, (1, "x")))
    faults(("t/a",), 2)
    run(log.folder, target, group_max_transactions=1)
    worker = status(str(target))["replication_applier_status_by_worker"][0]
    assert worker["LAST_APPLIED_TRANSACTION"] == log.gtid(3)
    assert worker["LAST_APPLIED_TRANSACTION_RETRIES_COUNT"] == 2
    name = "LAST_APPLIED_TRANSACTION_LAST_TRANSIENT_ERROR_"
    assert "Input/output error" in worker[name + "MESSAGE"]
    assert worker[name + "TIMESTAMP"]
    assert worker["APPLYING_TRANSACTION_RETRIES_COUNT"] == 0


def by_worker(target: Path, column: str) -> list[Any]:
    return [row[column] for row in status(str(target))["replication_applier_status_by_worker"]]


def test_status_has_a_row_for_each_worker(log, target, faults):
    """Scenarios 38, 164, 165: each worker's row tells of its own transactions, retries and
    errors."""
    run(log.folder, target, workers=3)
    for parent, key in ((3, 1), (3, 2), (3, 3), (6, 4)):
        log.parent = parent
        log.transaction(insert(A, (key, "x" * 30)))
    log.transaction(delete(A, (1, "x" * 30)))
    log.transaction(delete(A, (77, "no such")))
    faults(("t/a",), 1)
    until, name = Until.parse(f"after-gtids:{log.gtid(5)}"), "LAST_APPLIED_TRANSACTION"
    with applier(log.folder, target, workers=3, until=until) as found:  # three of one wave
        found.coordinator.apply(found.index.slice(found.coordinator.mark.position, found.index.end))
    assert sorted(by_worker(target, name)) == [log.gtid(3), log.gtid(4), log.gtid(5)]
    assert by_worker(target, f"{name}_RETRIES_COUNT") == [1, 1, 1]
    assert len({*by_worker(target, "APPLYING_TRANSACTION")}) == 1
    first = by_worker(target, name)[0]
    faults(("t/a",), 1)
    error = stopped(log.folder, target, workers=3, group_max_transactions=1)
    assert error.number == 1032
    assert by_worker(target, name) == [log.gtid(7), "", ""] and first != log.gtid(7)
    assert by_worker(target, "COUNT_TRANSACTIONS_RETRIES") == [1, 0, 0]
    assert [bool(text) for text in by_worker(target, "LAST_TRANSIENT_ERROR_MESSAGE")] == [1, 0, 0]
    assert by_worker(target, "LAST_ERROR_NUMBER") == [1032, 0, 0]
    assert log.gtid(8) in by_worker(target, "LAST_ERROR_MESSAGE")[0]


# Retries.


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("order", [True, False])
def test_several_tables_are_retried_at_once(log, target, faults, workers, order):
    """Scenarios 37, 44: temporary errors are tried again until they pass, several at once and with
    one worker; the counters are performance_schema's."""
    for key in range(1, 4):
        log.transaction(insert(A, (key, "x")), insert(B, (key, "x")))
    tried = faults(("t/a", "t/b"), 2)
    run(log.folder, target, workers=workers, preserve_commit_order=order)
    assert len(tried) >= 3
    assert rows(target, A) == rows(target, B) == [(key, "x") for key in range(1, 4)]
    found = status(str(target))
    assert found["replication_applier_status"][0]["COUNT_TRANSACTIONS_RETRIES"] >= 2
    one = found["replication_applier_status_by_worker"][0]
    assert "Input/output error" in one["LAST_TRANSIENT_ERROR_MESSAGE"]


def test_retries_in_vain_let_no_later_group_commit(log, target, faults):
    """Scenarios 21, 22, 43: a group for which others wait has no retries left. The applier stops
    with MySQL's message, refuses the later groups, and a restart continues."""
    for key in range(1, 5):
        log.transaction(insert(A, (key, "x")))
    faults(("t/a",), 3)
    error = stopped(log.folder, target, group_max_transactions=1, transaction_retries=2)
    assert isinstance(error, TargetError)
    assert "retried transaction 2 time(s) in vain" in error.message
    assert rows(target, A) == []
    run(log.folder, target)
    assert len(rows(target, A)) == 4


def test_xa_group_is_retried(log, target, faults):
    """Scenario 40: a group with parts of XA is tried again as any other."""
    xid = (b"x", b"", 1)
    log.xa_prepare(xid, insert(A, (1, "x")))
    log.xa_end("COMMIT", xid)
    log.transaction(update(A, ((1, "x"), (1, "y"))))
    faults(("t/a",), 2)
    run(log.folder, target, group_max_transactions=1)
    assert rows(target, A) == [(1, "y")]
    assert not [*(target / "_repl" / "xa").glob("*")]


def test_retry_finds_its_file_by_the_index(tmp_path, target, faults):
    """Scenario 41: the log's files were renamed in between; a retry takes names from the index."""
    log = LogWriter(tmp_path / "log", stem="old-name")
    log.ddl("CREATE DATABASE t")
    log.ddl(A.create)
    log.transaction(insert(A, (1, "x")))
    log.rotate()
    moved = log.path.rename(log.folder / "new-name.000002")
    (log.folder / "log.index").write_text("./old-name.000001\n./new-name.000002\n")
    log.stem = "new-name"
    assert log.path == moved
    log.transaction(insert(A, (2, "x")))
    faults(("t/a",), 2)
    run(log.folder, target, group_max_transactions=1)
    assert rows(target, A) == [(1, "x"), (2, "x")]


def test_rows_query_in_a_group_that_is_retried(log, target, faults):
    """Scenario 42: ROWS_QUERY events are read again with their group, and change nothing."""
    log.rows_query = "INSERT INTO t.a VALUES " + "(1, 'x'), " * 40
    log.transaction(insert(A, (1, "x")), insert(A, (2, "x")))
    tried = faults(("t/a",), 1)
    run(log.folder, target)
    assert tried == ["t/a", "t/a"]
    assert rows(target, A) == [(1, "x"), (2, "x")]


def test_a_retry_reads_the_relay_log_again(log, target, faults, monkeypatch):
    """The failed part is re-read from its start to its end position (WL#6964), and only it."""
    for key in range(1, 4):
        log.transaction(insert(A, (key, "x")))
    read: list[tuple[int, int]] = []

    def noted(task: Any) -> Any:
        read.extend(zip(task.spans[0].starts.tolist(), task.spans[0].ends.tolist(), strict=True))
        return stage(task)

    monkeypatch.setattr(local_delta, "HERE", replace(local_delta.HERE, stage=noted))
    faults(("t/a",), 1)
    run(log.folder, target, group_max_transactions=1, workers=1)
    spans = [(start, end) for _, start, end in log.spans[3:]]
    assert read.count(spans[0]) == 2
    assert {*read} == {*spans}
