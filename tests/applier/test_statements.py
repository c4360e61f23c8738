"""Statements that make, drop, rename and empty tables, in their place in the order: whatever a
crash leaves, the end and every cut are states of the source."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_repl.control.records.copies import Copy, record_copy
from spark_repl.errors import StatementError
from spark_repl.gtid import GtidSet
from tests.support.binlog_writer import Change, LogWriter, Table, delete, insert, update
from tests.support.cut_off import STRIDE
from tests.support.local_delta import (
    applier,
    apply_without_stream,
    at_cut,
    cuts,
    last_shown,
    run,
    stopped,
)

A, B = Table("a"), Table("b")
State = dict[str, list[tuple[int, str]]]


class Source:
    """A server that does what it logs; ``states``: its tables behind each transaction. ``again``:
    the same transactions at other places, as a relay log has them that was fetched again."""

    def __init__(self, log: LogWriter, again: LogWriter) -> None:
        self.log, self.again, self.tables = log, again, dict[str, dict[int, str]]()
        self.states: list[State] = []
        self.ddl("CREATE DATABASE t")

    def ddl(self, statement: str) -> None:
        self.log.ddl(statement)
        self.again.ddl(f"/* again */ {statement}")
        self._look()

    def transaction(self, change: Change) -> None:
        self.log.transaction(change)
        self.again.transaction(change)
        self._look()

    def _look(self) -> None:
        state = {f"t.{n}": sorted(rows.items()) for n, rows in self.tables.items()}
        self.states.append(state)

    def create(self, name: str) -> None:
        self.tables[name] = {}
        self.ddl(Table(name).create)

    def like(self, name: str, model: str) -> None:
        self.tables[name] = {}
        self.ddl(f"CREATE TABLE t.{name} LIKE t.{model}")

    def drop(self, *names: str) -> None:
        for name in names:
            del self.tables[name]
        self.ddl(f"DROP TABLE {', '.join(f't.{n}' for n in names)} /* generated */")

    def truncate(self, name: str) -> None:
        self.tables[name] = {}
        self.ddl(f"TRUNCATE t.{name}")

    def rename(self, *pairs: tuple[str, str]) -> None:
        for before, after in pairs:
            self.tables[after] = self.tables.pop(before)
        renames = ", ".join(f"t.{a} TO t.{b}" for a, b in pairs)
        self.ddl(f"RENAME TABLE {renames}")

    def put(self, name: str, key: int, value: str) -> None:
        table, rows = Table(name), self.tables[name]
        if key in rows:
            change = update(table, ((key, rows[key]), (key, value)))
        else:
            change = insert(table, (key, value))
        rows[key] = value
        self.transaction(change)

    def take(self, name: str, key: int) -> None:
        change = delete(Table(name), (key, self.tables[name].pop(key)))
        self.transaction(change)


def assert_states(source: Source, target: Path) -> None:
    """Every cut is a state of the source, and the last one the last."""
    shown = cuts(target)
    for cut in shown:
        number = int(cut.gtid_executed.rsplit(":")[-1].rsplit("-")[-1])
        assert at_cut(target, cut) == source.states[number - 1], cut.gtid_executed
    assert at_cut(target, shown[-1]) == source.states[-1]


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(LogWriter(tmp_path / "log"), LogWriter(tmp_path / "again", created=1_800_000_000))


def swaps(source: Source) -> None:
    """What a table's name means changes with every other statement."""
    source.create("a")
    source.create("b")
    source.put("a", 1, "of a")
    source.put("b", 1, "of b")
    source.rename(("a", "x"), ("b", "a"), ("x", "b"))
    source.put("a", 1, "of b, called a")
    source.put("b", 2, "of a, called b")
    source.rename(("a", "c"))
    source.like("a", "c")
    source.put("a", 1, "of the new a")
    source.drop("b", "a")
    source.create("b")
    source.put("b", 1, "of the new b")
    source.truncate("c")
    source.put("c", 5, "behind the truncation")


@pytest.mark.parametrize("bound", [1, 100])
@pytest.mark.parametrize("order", [True, False], ids=["in order", "apart"])
def test_names_mean_what_they_mean_at_their_place(source, tmp_path, bound, order):
    swaps(source)
    target = tmp_path / "lake"
    assert run(source.log.folder, target, group_max_transactions=bound, preserve_commit_order=order)
    assert_states(source, target)
    assert (target / "t" / "a@2").is_dir(), "a folder is never used twice"


@pytest.mark.parametrize(
    "lost", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["the same log", "another log"]
)
def test_a_crash_at_any_step_applies_each_statement_once(source, tmp_path, lost):
    """After the crash the log continues, or is lost and fetched again. Only GTIDs show what was
    applied."""
    swaps(source)
    for step in range(1, 1000, STRIDE):
        target = tmp_path / f"lake{step}"
        if run(source.log.folder, target, crash=step):
            break
        then = source.again.folder if lost else source.log.folder
        run(then, target, crash=step % 7 + 1, group_max_transactions=2)
        assert run(then, target)
        assert_states(source, target)
    assert step > 40


@pytest.mark.parametrize(
    "query", ["SELECT 1 AS id", "AS SELECT 1 AS id", "(id INT) SELECT 1 AS id"]
)
def test_a_table_that_is_made_from_a_query_has_rows_that_no_log_holds(tmp_path, query):
    """As binlog_format=STATEMENT writes it."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    log.ddl(f"CREATE TABLE t.made {query}")
    error = stopped(log.folder, target)
    assert "binlog_format is not ROW" in error.message
    assert (error.gtid, error.table) == (log.gtid(1), "t.made")


def test_a_path_that_a_copy_was_given_meanwhile_is_not_given_again(tmp_path):
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    for _ in range(3):
        log.ddl(A.create)
        log.ddl("DROP TABLE t.a")
    log.ddl(A.create)
    with applier(log.folder, target) as replica:
        copy = Copy(GtidSet(), {"t.a": ()}, {"t.a": "t/a@3"}, error="given up")
        record_copy(replica.tracking.control, copy)
        apply_without_stream(replica)
        assert replica.tracking.tables["t.a"].path == "t/a@5"


def test_the_servers_own_schemas_are_left_out(tmp_path):
    """Their tables were not made by this log, nor are they copied."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    stats = Table("innodb_index_stats", database="mysql")
    log.ddl(A.create)
    log.ddl(Table("own", database="mysql").create)
    log.transaction(delete(stats, (1, "gone")), insert(A, (1, "x")), insert(stats, (1, "new")))
    log.transaction(insert(Table("sys_config", database="sys"), (1, "x")))
    log.ddl("ALTER TABLE mysql.own ADD x INT AUTO_INCREMENT UNIQUE")
    assert run(log.folder, target)
    assert last_shown(target) == {"t.a": [(1, "x")]}
    assert cuts(target)[-1].gtid_executed == log.gtid(0)[:-1] + "1-5"


def test_a_database_that_goes_beside_one_with_a_dot_in_its_name(tmp_path):
    """Of `t`.`x.a` and `t.x`.`a` only the former is in the database `t`."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    stays = Table("a", database="t.x")
    log.ddl(A.create)
    log.ddl("CREATE TABLE t.`x.a` (id INT PRIMARY KEY, v VARCHAR(20))")
    log.ddl("CREATE TABLE `t.x`.a (id INT PRIMARY KEY, v VARCHAR(20))")
    log.transaction(insert(A, (1, "x")), insert(stays, (2, "y")))
    log.ddl("DROP DATABASE t")
    log.transaction(insert(stays, (3, "z")))
    assert run(log.folder, target)
    assert last_shown(target) == {"t@002ex.a": [(2, "y"), (3, "z")]}


@pytest.mark.parametrize("engine", ["MERGE UNION=(x)", "mrg_myisam", "FEDERATED"])
def test_a_table_that_shows_rows_of_others_stops(tmp_path, engine):
    """It stops also if tables are copied beside the applier: no copy would follow those rows."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(f"{A.create} ENGINE={engine}")
    for copies in (False, True):
        error = stopped(log.folder, target, copies=copies)
        assert "shows rows of others" in error.message and error.gtid == log.gtid(0)


def test_rows_of_an_engine_that_keeps_none_are_none(tmp_path):
    """The server logs what BLACKHOLE is given, and has no row of it; another engine keeps them."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    kept = Table("a", (("id", "int"), ("v", "varchar(20)"), ("n", "int")), (0,))
    copied = Table("b", kept.columns, (0,))
    log.ddl(f"{A.create} ENGINE=blackhole")
    log.transaction(insert(A, (1, "x")))
    log.ddl("ALTER TABLE t.a ADD n INT")
    log.ddl("CREATE TABLE t.b LIKE t.a")
    log.transaction(insert(kept, (2, "x", 3)), insert(copied, (2, "x", 3)))
    assert run(log.folder, target)
    assert last_shown(target) == {"t.a": [], "t.b": []}
    log.ddl("ALTER TABLE t.a ENGINE=InnoDB")
    log.ddl("ALTER TABLE t.b DROP n, ENGINE=InnoDB")
    log.transaction(insert(kept, (1, "x", 3)), insert(Table("b"), (1, "x")))
    log.ddl("TRUNCATE TABLE t.b")
    log.ddl("ALTER TABLE t.b ENGINE=BLACKHOLE")
    log.transaction(insert(Table("b"), (5, "y")))
    assert run(log.folder, target)
    assert last_shown(target) == {"t.a": [(1, "x", 3)], "t.b": []}


def test_a_temporary_table_of_a_tables_name_stops(tmp_path):
    """The statement is logged in statement format. Later statements of its session with that name
    mean the temporary table, and no event shows the difference."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    log.ddl("CREATE TEMPORARY TABLE t.b (x INT)")
    log.ddl("CREATE TEMPORARY TABLE IF NOT EXISTS t.a AS SELECT 1")
    log.ddl("TRUNCATE TABLE t.a")
    for copies in (False, True):
        error = stopped(log.folder, target, copies=copies)
        assert "temporary table" in error.message and error.gtid == log.gtid(2)


@pytest.mark.parametrize(
    "statement",
    [
        "RENAME TABLE t.a TO mysql.a",
        "RENAME TABLE mysql.a TO t.b",
        "ALTER TABLE mysql.a RENAME t.b",
    ],
)
def test_a_table_that_leaves_or_enters_the_servers_own_schemas_stops(tmp_path, statement):
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    log.ddl(statement)
    error = stopped(log.folder, target)
    assert "schema of the server's own" in error.message
    assert error.gtid == log.gtid(1)


@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE TABLE `t`.`a` /* generated by server, implicitly emptying in-memory table */",
        "DELETE FROM `t`.`a`",
        "DELETE FROM `t`.`a` /* generated by server */",
    ],
)
def test_what_a_server_says_that_has_lost_a_memory_table(tmp_path: Path, statement: str) -> None:
    """At its first use behind a restart: servers before 8.0 say it by DELETE."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(f"{A.create} ENGINE=MEMORY")
    log.transaction(insert(A, (1, "lost"), (2, "lost")))
    log.ddl(statement, database="")
    log.transaction(insert(A, (1, "new")))
    run(log.folder, target)
    assert last_shown(target) == {"t.a": [(1, "new")]}


def test_a_change_of_rows_that_failed_halfway_stops(tmp_path: Path) -> None:
    """So servers before 5.5 log it where a table has no transactions: the first row stays."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    log.ddl("INSERT INTO a VALUES (1, 'x'), (1, 'y')", error=1062)
    error = stopped(log.folder, target)
    assert isinstance(error, StatementError) and "binlog_format=ROW" in error.message
    assert error.gtid == log.gtid(1)
