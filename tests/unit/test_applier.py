"""Commit order, retries, positions and restarts in the whole applier, without Spark.

Each test says which of MySQL's own it stands for (tests/scenarios.py), and asserts what that does.
"""

from __future__ import annotations

import errno
import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_repl import stager
from spark_repl.apply.stage import stage
from spark_repl.errors import RowError, SparkReplError, TargetError
from spark_repl.position import RelayPosition
from spark_repl.relay.index import build_index
from spark_repl.relay.log import open_log
from spark_repl.retry import Retries
from spark_repl.sink.control import Control, Cut
from spark_repl.sink.layout import Layout
from spark_repl.status import status
from spark_repl.stops import Until
from tests.binlog_writer import LogWriter, Table, delete, insert, update
from tests.local_delta import CRASHES, Crash, LocalDelta, applier, rows, run

A, B = Table("a"), Table("b")


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    """A log that creates the tables t.a and t.b: three transactions."""
    made = LogWriter(tmp_path / "log")
    for statement in ("CREATE DATABASE t", A.create, B.create):
        made.ddl(statement)
    return made


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Retries, "_pause", lambda self, seconds: None)


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[str]]]:
    """``faults(("t/a",), 2)``: the next two commits to each of the tables find storage broken;
    returns which commits were tried."""
    true = LocalDelta.commit

    def install(tables: tuple[str, ...], times: int) -> list[str]:
        tried: list[str] = []

        def commit(self: LocalDelta, planned: Any, *args: Any) -> int:
            table = planned.folder[-3:]
            tried.append(table)
            if table in tables and tried.count(table) <= times:
                raise OSError(errno.EIO, "Input/output error")
            return true(self, planned, *args)

        monkeypatch.setattr(LocalDelta, "commit", commit)
        return tried

    yield install


def cuts(target: Path) -> list[Cut]:
    return Control(Layout(str(target)).control).cuts()


def last_gno(cut: Cut) -> int:
    return int(re.split("[:-]", cut.gtid_executed)[-1])


def stopped(log: LogWriter, target: Path, **apply: Any) -> SparkReplError:
    with pytest.raises(SparkReplError) as found:
        run(log.folder, target, **apply)
    return found.value


# Commit order.


@pytest.mark.parametrize("bound", [1, 2, 100])
def test_error_while_the_coordinator_waits(log, target, bound):
    """Scenario 3: a worker's error while the coordinator waits for a free one: a clean stop,
    everything before the transaction applied, nothing behind it, and a restart goes on."""
    log.transaction(insert(A, (1, "x")))
    log.transaction(delete(A, (77, "no such")))
    for key in range(2, 8):
        log.transaction(insert(A, (key, "behind")))
    error = stopped(log, target, group_max_transactions=bound)
    assert (error.number, error.gtid) == (1032, log.gtid(4))
    assert rows(target, A) == [(1, "x")]
    assert last_gno(cuts(target)[-1]) == 4
    run(log.folder, target, exec_mode="idempotent")
    assert len(rows(target, A)) == 7


def test_error_and_stop_at_once(log, target):
    """Scenario 5: a worker's error and STOP REPLICA while the coordinator waits: it ends, and the
    error is not hidden by the stop."""
    log.transaction(insert(A, (1, "x")))
    log.transaction(delete(A, (77, "no such")))
    for key in range(2, 8):
        log.transaction(insert(A, (key, "behind")))
    with applier(log.folder, target, group_max_transactions=1) as found:
        write = found.coordinator._writer.write

        def stopping(*args: Any, **options: Any) -> Any:
            if rows_written(target):
                found.stop()
            return write(*args, **options)

        found.coordinator._writer.write = stopping
        with pytest.raises(RowError):
            found.coordinator.apply(found.index.slice(0, found.index.end))
    assert rows(target, A) == [(1, "x")]


def rows_written(target: Path) -> bool:
    return bool((target / "t" / "a").exists() and rows(target, A))


@pytest.mark.parametrize("order", [True, False])
def test_stop_reports_the_position_of_the_last_cut(log, target, order):
    """Scenario 8: what is reported at STOP REPLICA is the last checkpoint, and the tables are
    there."""
    for key in range(1, 9):
        log.transaction(insert(A, (key, "x")), insert(B, (key, "x")))
    apply = {"group_max_transactions": 2, "preserve_commit_order": order}
    with applier(log.folder, target, **apply) as found:
        found.coordinator.on_group = lambda counted, end: (
            found.stop() if counted.transactions >= 7 else None
        )
        found.coordinator.apply(found.index.slice(0, found.index.end))
        position = found.coordinator.position
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
    ],
)
def test_statements_stand_in_their_place(log, target, statement):
    """Scenarios 23, 24, 34: DDL and account statements commit in order: behind each the tables
    hold what comes before it, and not what comes after."""
    log.transaction(insert(A, (1, "before")))
    log.ddl(statement)
    log.transaction(insert(A, (2, "behind")))
    run(log.folder, target)
    at = next(cut for cut in cuts(target) if last_gno(cut) == 5)
    assert rows(target, A, at.tables["t.a"].version) == [(1, "before")]
    assert rows(target, A) == [(1, "before"), (2, "behind")]


def test_empty_and_skipped_transactions_take_their_slots(log, target):
    """Scenarios 25, 26: an empty transaction and one that is left out are committed and recorded
    in order, like any other."""
    log.transaction(insert(A, (1, "x")))
    log.transaction()
    log.transaction(insert(A, (2, "left out")))
    log.transaction(insert(A, (3, "x")))
    Control(Layout(str(target)).control).decide("skip", {}, gtid_executed=log.gtid(5))
    run(log.folder, target, group_max_transactions=1)
    assert [last_gno(cut) for cut in cuts(target)] == [1, 2, 3, 4, 5, 6, 7]
    assert rows(target, A) == [(1, "x"), (3, "x")]


def test_transaction_larger_than_the_bounds(log, target):
    """Scenario 7: an event larger than replica_pending_jobs_size_max is applied, alone."""
    log.transaction(insert(A, (1, "x")))
    log.transaction(insert(A, *[(key, "x" * 40) for key in range(10, 400)]))
    log.transaction(insert(A, (2, "x")))
    run(log.folder, target, group_max_bytes=1000)
    assert len(rows(target, A)) == 392
    assert [last_gno(cut) for cut in cuts(target)][-3:] == [4, 5, 6]


def test_until_inside_a_transaction(log, target):
    """Scenario 6: a position inside a group: the whole group is applied, then it stops."""
    log.transaction(insert(A, (1, "x")))
    log.transaction(insert(A, (2, "x")))
    inside = log.spans[3][1] + 30
    with applier(log.folder, target) as found:
        found.coordinator.until = Until.parse(f"relay:bin.000001:{inside}")
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


# Retries.


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("order", [True, False])
def test_several_tables_retry_at_once(log, target, faults, workers, order):
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
    name = "APPLYING_TRANSACTION_LAST_TRANSIENT_ERROR_MESSAGE"
    assert "Input/output error" in one[name]


def test_retries_in_vain_release_nobody(log, target, faults):
    """Scenarios 21, 22, 43: retries exhausted in the one that others wait for: it stops with
    MySQL's words, those behind it are turned away, and a restart goes on."""
    for key in range(1, 5):
        log.transaction(insert(A, (key, "x")))
    faults(("t/a",), 3)
    error = stopped(log, target, group_max_transactions=1, transaction_retries=2)
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
    faults(("t/a",), 1)
    run(log.folder, target)
    assert rows(target, A) == [(1, "x"), (2, "x")]


def test_a_retry_reads_the_relay_log_again(log, target, faults, monkeypatch):
    """The failed part is re-read from its start to its end position (WL#6964), and only it."""
    for key in range(1, 4):
        log.transaction(insert(A, (key, "x")))
    read: list[tuple[int, int]] = []

    def noted(task: Any) -> Any:
        read.extend(zip(task.spans[0].starts.tolist(), task.spans[0].ends.tolist(), strict=True))
        return stage(task)

    monkeypatch.setattr(stager, "stage", noted)
    faults(("t/a",), 1)
    run(log.folder, target, group_max_transactions=1, workers=1)
    spans = [(start, end) for _, start, end in log.spans[3:]]
    assert read.count(spans[0]) == 2
    assert {*read} == {*spans}


# Crash-safe positions.


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``killed(log, target, here)``: a run that is cut off where ``here(name)`` is true."""

    def cut_off(log: LogWriter, target: Path, here: Callable[[str], object], **apply: Any) -> None:
        def reach(self: Any, name: str) -> None:
            if here(name):
                raise Crash(name)

        with monkeypatch.context() as patched:
            patched.setattr(type(CRASHES), "__call__", reach)
            assert not run(log.folder, target, **apply)

    return cut_off


def hit(wanted: str, count: int) -> Callable[[str], bool]:
    """From the count-th time on that ``wanted`` is reached."""
    hits = itertools.count(1)
    return lambda name: name == wanted and next(hits) >= count


@pytest.mark.parametrize("step", ["before_put", "after_put", "before_cut", "after_cut"])
@pytest.mark.parametrize("several", [False, True])
def test_mysqls_outcomes_of_a_crash(log, target, step, several, killed):
    """Scenario 45: crash before the commit: the transaction is applied again, once (O1); behind
    it: it is not applied again (O2)."""
    more = (insert(A, (2, "x")), delete(A, (2, "x"))) if several else ()
    log.transaction(insert(A, (1, "x")), *more)
    killed(log, target, lambda at: at == step and (at == "before_put" or rows_written(target)))
    landed = rows_written(target)
    assert landed == (step != "before_put")
    versions = LocalDelta().version(str(target / "t" / "a"))
    run(log.folder, target)
    assert rows(target, A) == [(1, "x")]
    assert LocalDelta().version(str(target / "t" / "a")) - versions == (not landed)


@pytest.mark.parametrize("step", ["before_statement", "after_statement", "before_cut", "after_cut"])
def test_mysqls_outcomes_of_a_crash_around_a_statement(log, target, step, killed):
    """Scenario 45, DDL: the table is made once, whatever the crash left behind."""
    log.ddl("CREATE TABLE t.c (id INT PRIMARY KEY)")
    log.transaction(insert(A, (1, "x")))
    killed(log, target, hit(step, 4))
    assert (target / "t" / "c").exists() == (step != "before_statement")
    run(log.folder, target)
    assert LocalDelta().version(str(target / "t" / "c")) == 0
    assert rows(target, A) == [(1, "x")]


@pytest.mark.parametrize("order", [True, False])
@pytest.mark.parametrize("again", [True, False])
def test_another_log_behind_a_crash_with_gaps(log, target, tmp_path, order, again, killed):
    """Scenarios 49, 50, 51: the relay log is lost when tables are apart: with GTIDs a new one that
    holds what is missing fills the gaps, and nothing is applied twice."""
    other = LogWriter(tmp_path / "other", server_id=2, created=1_700_009_999)
    for statement in ("CREATE DATABASE t", A.create, B.create):
        other.ddl(statement)
    for made in (log, other):
        for key in range(1, 5):
            made.transaction(insert(A, (key, "x")), insert(B, (key, "x")))
    apply = {"group_max_transactions": 1, "preserve_commit_order": order}
    killed(log, target, hit("after_put", 3), **apply)
    run(other.folder, target, group_max_transactions=2, preserve_commit_order=again)
    assert rows(target, A) == rows(target, B) == [(key, "x") for key in range(1, 5)]
    assert last_gno(cuts(target)[-1]) == 7


@pytest.mark.parametrize("kind", ["rows", "statement", "prepare", "end"])
def test_every_cut_tail_ends_at_a_boundary(log, tmp_path, kind):
    """Scenarios 10, 56: the tail of a cut log ends at the last whole transaction, whatever it is
    that was cut."""
    xid = (b"x", b"", 1)
    if kind == "end":
        log.xa_prepare(xid, insert(A, (1, "x")))
    whole = len(build_index(open_log(str(log.folder)), str(tmp_path / "i")).records)
    if kind == "rows":
        log.transaction(insert(A, (1, "x")))
    elif kind == "statement":
        log.ddl("CREATE TABLE t.c (id INT PRIMARY KEY)")
    elif kind == "prepare":
        log.xa_prepare(xid, insert(A, (1, "x")))
    else:
        log.xa_end("COMMIT", xid)
    data, (_, start, end) = log.path.read_bytes(), log.spans[-1]
    for cut in range(start, end):
        log.path.write_bytes(data[:cut])
        index = build_index(open_log(str(log.folder)), str(tmp_path / f"i{cut}"), complete=False)
        assert len(index.records) == whole
        assert index.end == RelayPosition(1, start).packed


def test_partial_transaction_then_another(log, target):
    """Scenarios 9, 11, 57: a transaction without its end, followed by another one: the boundaries
    are broken, it is said where, and nothing of it is applied."""
    log.transaction(insert(A, (1, "x")))
    log.transaction(insert(A, (2, "partial")), commit=False)
    log.transaction(insert(A, (3, "x")))
    error = stopped(log, target)
    assert "boundaries are broken" in error.message
    assert error.file is not None and error.position is not None
