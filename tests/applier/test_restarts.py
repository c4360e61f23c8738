"""Crash-safe positions in the whole applier, without Spark: a restart repairs what a crash leaves.

Each test names the test of MySQL's that it corresponds to (scenarios.py), and asserts the same
outcome.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from spark_repl.cli.main import main
from spark_repl.delta.log.log_replay import commit_path
from spark_repl.errors import TargetError
from spark_repl.position import RelayPosition
from spark_repl.relay import log as look
from spark_repl.relay.index import build_index
from spark_repl.relay.log import RelayLog, open_log
from tests.support.binlog_writer import LogWriter, Table, delete, insert
from tests.support.local_delta import LocalDelta, applier, cuts, rows, run, stopped

A, B = Table("a"), Table("b")


def rows_written(target: Path) -> bool:
    return bool((target / "t" / "a").exists() and rows(target, A))


def hit(wanted: str, count: int) -> Callable[[str], bool]:
    """From the count-th time on that ``wanted`` is reached."""
    hits = itertools.count(1)
    return lambda name: name == wanted and next(hits) >= count


@pytest.mark.parametrize("step", ["before_put", "after_put", "before_cut", "after_cut"])
@pytest.mark.parametrize("several", [False, True])
def test_a_crash_before_or_after_the_commit_applies_once(log, target, step, several, killed):
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


def renewed(folder: Path, *rows: tuple[int, str]) -> LogWriter:
    """The log that creates t.a, and has a transaction for each row, at other places."""
    made = LogWriter(folder, created=1_800_000_000)
    for statement in ("CREATE DATABASE t", A.create, B.create):
        made.ddl(f"/* again */ {statement}")
    for row in rows:
        made.transaction(insert(A, row))
    return made


def test_another_log_begins_above_tables_that_are_ahead_of_the_cut(log, target, killed, tmp_path):
    """Also by files: otherwise the applier takes later transactions for those that the tables
    have."""
    for _ in range(3):
        log.rotate()
    log.transaction(insert(A, (1, "x")))
    killed(log, target, lambda at: at == "after_put")
    assert rows(target, A) == [(1, "x")]
    again = renewed(tmp_path / "again", (1, "x"), (2, "x"))
    assert run(again.folder, target)
    assert rows(target, A) == [(1, "x"), (2, "x")]


def test_another_log_begins_above_the_cut_where_no_table_is(target, tmp_path):
    log = LogWriter(tmp_path / "log")
    for number in range(3):
        log.ddl(f"CREATE DATABASE d{number}")
        log.rotate()
    assert run(log.folder, target)
    last = cuts(target)[-1].position
    again = LogWriter(tmp_path / "again", created=1_800_000_000)
    for number in range(4):
        again.ddl(f"CREATE DATABASE d{number}")
    assert run(again.folder, target)
    assert cuts(target)[-1].position > last
    assert cuts(target)[-1].gtid_executed.endswith(":1-4")


def test_newest_commit_is_empty_behind_a_power_failure(log, target, killed):
    """It is removed, as no cut shows it, and what it held is applied again, once."""
    log.transaction(insert(A, (1, "x")))
    run(log.folder, target)
    log.transaction(insert(A, (2, "x")))
    killed(log, target, lambda at: at == "before_cut")
    folder, shown = str(target / "t" / "a"), cuts(target)[-1].tables["t.a"].version
    newest = LocalDelta().version(folder)
    lost = [Path(commit_path(folder, version)) for version in range(shown + 1, newest + 1)]
    for path in lost:
        path.write_bytes(b"")
    assert lost
    with pytest.raises(TargetError, match="may be writing"):
        run(log.folder, target)
    for path in lost:
        os.utime(path, (0, 0))
    run(log.folder, target)
    assert rows(target, A) == [(1, "x"), (2, "x")]
    assert lost[0].stat().st_size, "the same version, written again"
    assert not [path for path in lost[1:] if path.exists() and not path.stat().st_size]


@pytest.mark.parametrize("left", [b"", bytes(9000)])
def test_checkpoints_are_lost_behind_a_power_failure(log, target, left):
    """What names them was on the disk, their bytes were not: delta-rs opens neither table."""
    log.transaction(insert(A, (1, "x")))
    run(log.folder, target)
    for table in (target / "t/a", target / "_repl/control"):
        DeltaTable(str(table)).create_checkpoint()
        (lost,) = (table / "_delta_log").glob("*.checkpoint.parquet")
        lost.write_bytes(left)
        with pytest.raises(DeltaError):
            DeltaTable(str(table))
    log.transaction(insert(A, (2, "x")))
    run(log.folder, target)
    assert rows(target, A) == [(1, "x"), (2, "x")]


@pytest.mark.parametrize("step", ["before_statement", "after_statement", "before_cut", "after_cut"])
def test_mysqls_outcomes_of_a_crash_around_a_statement(log, target, step, killed):
    """Scenario 45, DDL: the table is made once, whatever the crash left behind."""
    log.ddl("CREATE TABLE t.c (id INT PRIMARY KEY)")
    log.transaction(insert(A, (1, "x")))
    cut = step.endswith("_cut")  # those of the last three statements are published together
    killed(log, target, hit(step, 2 if cut else 4))
    assert (target / "t" / "c").exists() == (step != "before_statement")
    run(log.folder, target)
    assert LocalDelta().version(str(target / "t" / "c")) == 0
    assert rows(target, A) == [(1, "x")]


@pytest.mark.parametrize("order", [True, False])
@pytest.mark.parametrize("again", [True, False])
def test_another_log_behind_a_crash_with_gaps(log, target, tmp_path, order, again, killed):
    """Scenarios 49, 50, 51: the relay log is lost while tables are at different places. With GTIDs
    a new log that has the missing transactions fills the gaps, and no transaction is applied twice.
    """
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
    assert cuts(target)[-1].gtid_executed.endswith("-7")


def test_a_statement_behind_what_a_table_is_ahead_of(log, target, killed):
    """From there on it is ahead no more: its rows follow the foreign key that comes with it."""
    log.ddl("ALTER TABLE t.b ALTER COLUMN v SET DEFAULT 'd'")
    log.transaction(insert(A, (1, "x"), (2, "x")), insert(B, (1, "x"), (2, "x")))
    killed(log, target, lambda at: at == "before_cut" and rows_written(target))
    log.ddl("ALTER TABLE t.b ADD FOREIGN KEY (id) REFERENCES t.a (id) ON DELETE CASCADE")
    log.transaction(delete(A, (1, "x")))
    run(log.folder, target)
    assert rows(target, A) == rows(target, B) == [(2, "x")]


def test_file_is_purged_while_the_log_is_looked_at(log, target, monkeypatch):
    log.transaction(insert(A, (1, "x")))
    log.rotate()
    with applier(log.folder, target) as found:
        true = look.open_log

        def purged_behind(path: str) -> RelayLog:
            opened = true(path)
            (log.folder / "bin.000001").unlink(missing_ok=True)
            return opened

        found.coordinator.apply(found.index.slice(0, found.index.end))
        monkeypatch.setattr(look, "open_log", purged_behind)
        log.transaction(insert(A, (2, "x")))
        index = found.opened.applied.refresh()
        found.coordinator.apply(index.slice(found.coordinator.mark.position, index.end))
    assert rows(target, A) == [(1, "x"), (2, "x")]


@pytest.mark.parametrize("again", [False, True])
def test_table_that_was_dropped(log, target, tmp_path, again):
    """If another writer dropped a table, or dropped and created it, the applier stops: the rows are
    gone."""
    log.transaction(insert(A, (1, "x")))
    run(log.folder, target)
    shutil.rmtree(target / "t" / "a")
    if again:
        run(log.folder, tmp_path / "other")
        shutil.copytree(tmp_path / "other" / "t" / "a", target / "t" / "a")
    log.transaction(insert(A, (2, "x")))
    error = stopped(log.folder, target)
    assert isinstance(error, TargetError)
    assert error.table == "t.a"
    assert ("replaced by another one" if again else "the table is gone") in error.message
    assert "spark-repl snapshot --config F --table t.a" in str(error.hint)


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


def test_a_transaction_without_end_stops_before_the_next(log, target):
    """Scenarios 9, 11, 57: a transaction without its end, followed by another one: the boundaries
    are broken, it is said where, and nothing from there on is applied."""
    log.transaction(insert(A, (1, "x")))
    log.transaction(insert(A, (2, "partial")), commit=False)
    log.transaction(insert(A, (3, "x")))
    error = stopped(log.folder, target)
    assert "boundaries are broken" in error.message
    assert error.file is not None and error.position is not None
    assert rows(target, A) == [(1, "x")]


def test_damage_in_a_new_log_is_not_taken_for_another_server(log, target, tmp_path):
    log.transaction(insert(A, (1, "x")))
    run(log.folder, target)
    again = LogWriter(tmp_path / "again", created=1)
    for statement in ("CREATE DATABASE t", A.create, B.create):
        again.ddl(statement)
    again.transaction(insert(A, (1, "x")))
    _, at, _ = again.spans[-1]
    data = bytearray(again.path.read_bytes())
    data[at + 4] = 99
    again.path.write_bytes(data)
    assert "event type 99 is unknown" in stopped(again.folder, target).message


@pytest.mark.parametrize("how", ["skip", "xa commit"])
def test_no_key_twice_behind_a_decision_by_hand(log, target, how):
    """A transaction that the user skipped, or a branch committed by hand, leaves rows that the
    source doesn't have. The source's INSERT of their key is a duplicate (1062), not a second row.
    """
    log.transaction(insert(A, (1, "x")))
    run(log.folder, target)
    if how == "skip":
        log.transaction(delete(A, (1, "x")))
        assert main(["skip", "--target", str(target), "--gtid", log.gtid(4)]) == 0
    else:
        log.xa_prepare((b"x", b"", 1), insert(A, (2, "orphan")))
        run(log.folder, target)
        assert main(["xa", "commit", "--target", str(target), "--xid", b"x".hex()]) == 0
    run(log.folder, target)
    before = rows(target, A)
    log.transaction(insert(A, (3, "y")))
    log.ddl("CREATE TABLE t.c (id INT PRIMARY KEY, v VARCHAR(40))")
    log.transaction(insert(A, (1 if how == "skip" else 2, "again")))
    error = stopped(log.folder, target, group_max_transactions=1)
    assert (error.number, error.gtid) == (1062, log.gtid(7))
    assert rows(target, A) == [*before, (3, "y")]
