"""filters.rewrite_db: databases under other names in the target, for rows and statements, whatever
a crash leaves; no two tables of the source share one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_repl.errors import SchemaError, SettingError, SparkReplError
from spark_repl.observe.status.status import status
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.cut_off import Twice, cut_off_anywhere
from tests.support.local_delta import last_shown, run, stopped

A, B, C = Table("a"), Table("b"), Table("a", database="u")
TO_V = {"rewrite_db": ["t->v"]}


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    made = LogWriter(tmp_path / "log")
    made.ddl("CREATE DATABASE t")
    made.ddl("CREATE TABLE a (id INT PRIMARY KEY, v VARCHAR(40))", "t")
    made.transaction(insert(A, (1, "x")))
    return made


def test_rows_and_statements_go_to_the_rewritten_database(log: LogWriter, tmp_path: Path) -> None:
    target = tmp_path / "lake"
    log.ddl("ALTER TABLE a ADD w INT DEFAULT 7", "t")
    wide = Table("a", (*A.columns, ("w", "int")))
    log.transaction(update(wide, ((1, "x", 7), (1, "y", 8))))
    log.ddl("RENAME TABLE t.a TO t.c", "u")  # named with its database: it goes with its rows
    log.transaction(insert(Table("c", wide.columns), (2, "z", 9)))
    log.ddl("CREATE TABLE t.d LIKE t.c", "u")
    log.ddl("CREATE TABLE u.e (id INT PRIMARY KEY)", "u")
    assert run(log.folder, target, filters=TO_V)
    assert last_shown(target) == {"v.c": [(1, "y", 8), (2, "z", 9)], "v.d": [], "u.e": []}
    (shown,) = status(str(target))["replication_applier_filters"]
    assert (shown["FILTER_NAME"], shown["FILTER_RULE"]) == ("REPLICATE_REWRITE_DB", "t->v")
    assert shown["COUNTER"] == 3  # transactions with rows of such a table


@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        ({"do_db": ["v"]}, {"v.a"}),
        ({"do_db": ["t"]}, set()),
        ({"ignore_db": ["v"]}, set()),
        ({"ignore_table": ["t.a"]}, {"v.a"}),
        ({"wild_do_table": ["v.%"]}, {"v.a"}),
        ({"wild_ignore_table": ["v.a"]}, set()),
    ],
)
def test_rules_see_the_rewritten_name(
    log: LogWriter, tmp_path: Path, filters: dict[str, list[str]], kept: set[str]
) -> None:
    assert run(log.folder, tmp_path / "lake", filters={**TO_V, **filters})
    assert last_shown(tmp_path / "lake").keys() == kept


def test_a_crash_at_any_step_leaves_rewritten_names_equal(tmp_path: Path) -> None:
    source = Twice(tmp_path)
    source.ddl("CREATE DATABASE t", A.create, B.create)
    source.transaction(insert(A, (1, "x"), (2, "x")), insert(B, (1, "x")))
    source.ddl("ALTER TABLE t.b ADD w INT")
    source.transaction(delete(A, (1, "x")))
    source.ddl("DROP TABLE t.b")
    want, step = cut_off_anywhere(source, tmp_path, lost=False, filters=TO_V)
    assert step > 10 and list(want.values())[-1] == {"v.a": [(2, "x")]}


def test_a_database_s_own_statements_are_not_rewritten(log: LogWriter, tmp_path: Path) -> None:
    """As on MySQL's replica: DROP DATABASE t leaves what v has."""
    log.ddl("DROP DATABASE t", "")
    assert run(log.folder, tmp_path / "lake", filters=TO_V)
    assert last_shown(tmp_path / "lake") == {"v.a": [(1, "x")]}
    log.ddl("CREATE DATABASE t")
    log.ddl(A.create)  # MySQL's replica stops with 1050 there
    error = stopped(log.folder, tmp_path / "lake", filters=TO_V)
    assert isinstance(error, SchemaError) and error.number == 1050 and error.table == "v.a"
    assert last_shown(tmp_path / "lake") == {"v.a": [(1, "x")]}


def shared(log: LogWriter, target: Path, **filters: Any) -> SparkReplError:
    return stopped(log.folder, target, filters={"rewrite_db": ["t->u"], **filters})


def test_two_tables_of_one_rewritten_name_stop(log: LogWriter, tmp_path: Path) -> None:
    log.transaction(insert(A, (2, "x")), insert(C, (1, "x")))
    error = shared(log, tmp_path / "lake")
    assert isinstance(error, SchemaError) and error.table == "u.a"
    assert "t.a and u.a would share u.a" in str(error) and error.position is not None
    # What the rules leave out shares nothing.
    assert run(log.folder, tmp_path / "x", filters={"rewrite_db": ["t->u"], "ignore_db": ["u"]})


@pytest.mark.parametrize("again", [False, True])
def test_a_table_that_is_made_twice(log: LogWriter, tmp_path: Path, again: bool) -> None:
    if again:  # after a start nobody has seen yet which table it is
        assert run(log.folder, tmp_path / "lake", filters={"rewrite_db": ["t->u"]})
    log.ddl(C.create, "u")
    error = shared(log, tmp_path / "lake")
    assert isinstance(error, SchemaError) and "u.a" in str(error)


@pytest.mark.parametrize(
    "statement", ["DROP TABLE u.a", "ALTER TABLE u.a ADD w INT", "TRUNCATE TABLE u.a"]
)
def test_a_statement_on_a_second_table_of_the_name_stops(
    log: LogWriter, tmp_path: Path, statement: str
) -> None:
    log.ddl(statement, "u")
    assert isinstance(shared(log, tmp_path / "lake"), SchemaError)
    assert last_shown(tmp_path / "lake") == {"u.a": [(1, "x")]}


def test_a_table_is_renamed_to_another_s_name(log: LogWriter, tmp_path: Path) -> None:
    log.ddl("CREATE TABLE u.b (id INT PRIMARY KEY)", "u")
    log.ddl("RENAME TABLE u.b TO u.a", "u")
    assert isinstance(shared(log, tmp_path / "lake"), SchemaError)


def test_rows_of_another_table_behind_a_restart(log: LogWriter, tmp_path: Path) -> None:
    """As of a log that begins behind the CREATE of both."""
    target = tmp_path / "lake"
    assert run(log.folder, target, filters=TO_V)
    log.transaction(insert(Table("a", database="v"), (2, "y")))
    with pytest.raises(SchemaError, match=r"v\.a and t\.a would share|t\.a and v\.a would share"):
        run(log.folder, target, filters=TO_V)
    assert last_shown(target) == {"v.a": [(1, "x")]}


def test_a_database_that_has_others_tables_is_not_dropped(log: LogWriter, tmp_path: Path) -> None:
    log.ddl("DROP DATABASE u", "")
    assert isinstance(shared(log, tmp_path / "lake"), SettingError)


def test_other_names_than_before_are_refused(log: LogWriter, tmp_path: Path) -> None:
    target = tmp_path / "lake"
    assert run(log.folder, target, filters=TO_V)
    error = stopped(log.folder, target, filters={"rewrite_db": ["t->w"]})
    assert isinstance(error, SettingError) and error.table == "v.a"
    assert isinstance(stopped(log.folder, target), SettingError)
    assert run(log.folder, target, filters={"rewrite_db": ["t->v", "x->y"]})
