"""A table gets another name: what ``[[tables]]`` withhold or mask of it stays so, also of tables
that online schema-change tools make."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from spark_repl.errors import SettingError
from tests.support.binlog_writer import LogWriter, Table, insert, update
from tests.support.local_delta import last_shown, run, stopped
from tests.support.planted import holding

A = Table("a", (("id", "int"), ("mail", "varchar(40)"), ("n", "int")))
B = Table("b", A.columns)
SECRET = "planted-secret-hunter2"
MASKED: dict[str, Any] = {"match": "t.a", "mask": {"mail": "keep_last:1"}, "exclude": ["n"]}
HIDDEN = "*" * (len(SECRET) - 1) + "2"
COPIES = [("_a_gho", "_a_del"), ("_a_new", "_a_old"), ("__a_new", "__a_old")]


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    made = LogWriter(tmp_path / "log")
    made.ddl("CREATE DATABASE t")
    made.ddl(A.create)
    made.transaction(insert(A, (1, SECRET, 7)))
    return made


@pytest.mark.parametrize(
    "rules",
    [
        [MASKED],
        [{"match": "t.b", "mask": {"mail": "null"}}],
        [{"match": "t.b", "exclude": ["mail"]}],
        [{"match": "t.b", "include": ["id", "n"]}],
        [MASKED, {**MASKED, "match": "t.b", "mask": {"mail": "keep_last:2"}}],
    ],
    ids=["out of masks", "into a mask", "into exclude", "into include", "into another mask"],
)
@pytest.mark.parametrize("statement", ["RENAME TABLE t.a TO t.b", "ALTER TABLE t.a RENAME TO t.b"])
def test_a_name_by_which_columns_are_shown_otherwise(
    log: LogWriter, tmp_path: Path, statement: str, rules: list[dict[str, Any]]
) -> None:
    assert run(log.folder, tmp_path / "lake", tables=rules)
    there = last_shown(tmp_path / "lake")
    log.ddl(statement)
    error = stopped(log.folder, tmp_path / "lake", tables=rules)
    assert isinstance(error, SettingError) and error.table == "t.a"
    assert "it would be called t.b, whose columns are withheld or masked otherwise" in str(error)
    assert "mail" in str(error) and "skip" in (error.hint or "")
    assert last_shown(tmp_path / "lake") == there


def test_a_column_that_comes_with_the_name(log: LogWriter, tmp_path: Path) -> None:
    """The rule of the new name counts for it, too."""
    rules = [{"match": "t.b", "mask": {"post": "null"}}]
    log.ddl("ALTER TABLE t.a RENAME TO t.b, ADD post VARCHAR(9) DEFAULT 'x'")
    log.transaction(insert(Table("b", (*A.columns, ("post", "varchar(9)"))), (2, "b", 7, SECRET)))
    error = stopped(log.folder, tmp_path / "lake", tables=rules)
    assert isinstance(error, SettingError) and "otherwise (post)" in str(error)


def test_a_name_that_has_the_same_rule(log: LogWriter, tmp_path: Path) -> None:
    rules = [MASKED, {**MASKED, "match": "t.b"}]
    log.ddl("RENAME TABLE t.a TO t.b")
    log.transaction(insert(B, (2, SECRET, 7)))
    assert run(log.folder, tmp_path / "lake", tables=rules)
    assert run(log.folder, tmp_path / "lake", tables=rules)
    assert last_shown(tmp_path / "lake") == {"t.b": [(1, HIDDEN), (2, HIDDEN)]}


@pytest.mark.parametrize(("copy", "old"), COPIES)
@pytest.mark.parametrize("after", [[], [{"match": "t.%", "extra_columns": ["gtid"]}]])
def test_a_tools_copy_has_the_rule_of_its_table(
    log: LogWriter, tmp_path: Path, copy: str, old: str, after: list[dict[str, Any]]
) -> None:
    """Also where a later rule fits the copy's name."""
    wide = Table(copy, (*A.columns, ("w", "int")))
    rules, target = [MASKED, *after], tmp_path / "lake"
    log.ddl(f"CREATE TABLE t.{copy} LIKE t.a")
    log.ddl(f"ALTER TABLE t.{copy} ADD w INT")
    log.transaction(insert(wide, (1, SECRET, 7, None)))
    assert run(log.folder, target, tables=rules)
    assert last_shown(target) == {"t.a": [(1, HIDDEN)], f"t.{copy}": [(1, HIDDEN, None)]}
    log.ddl(f"RENAME TABLE t.a TO t.{old}, t.{copy} TO t.a")
    assert run(log.folder, target, tables=rules)
    assert run(log.folder, target, tables=rules), "a second start finds what the first has made"
    log.ddl(f"DROP TABLE t.{old}")
    now = Table("a", wide.columns)
    log.transaction(update(now, ((1, SECRET, 7, None), (1, f"{SECRET}3", 7, 5))))
    assert run(log.folder, target, tables=rules)
    assert last_shown(target) == {"t.a": [(1, f"{HIDDEN[:-1]}*3", 5)]}
    assert holding(target, SECRET) == []


@pytest.mark.parametrize("old", ["_a_20260101123456_del", "_a_20260101123456_20260202123456_del"])
def test_a_table_whose_name_ends_in_a_moment(tmp_path: Path, old: str) -> None:
    """gh-ost writes one into the name of the table as it was alone."""
    name, copy, target = "a_20260101123456", "_a_20260101123456_gho", tmp_path / "lake"
    rules, made = [{**MASKED, "match": f"t.{name}"}], Table(name, A.columns)
    log = LogWriter(tmp_path / "log")
    log.ddl(made.create)
    log.ddl(f"CREATE TABLE t.{copy} LIKE t.{name}")
    log.transaction(insert(made, (1, SECRET, 7)), insert(Table(copy, A.columns), (1, SECRET, 7)))
    log.ddl(f"RENAME TABLE t.{name} TO t.{old}, t.{copy} TO t.{name}")
    assert run(log.folder, target, tables=rules)
    assert last_shown(target) == {f"t.{name}": [(1, HIDDEN)], f"t.{old}": [(1, HIDDEN)]}
    assert holding(target, SECRET) == []


def test_a_copy_of_a_table_as_it_was(log: LogWriter, tmp_path: Path) -> None:
    """What pt-online-schema-change has left is altered by it, too; a rule of its own counts."""
    copy, target = Table("__a_old_new", A.columns), tmp_path / "lake"
    log.ddl("RENAME TABLE t.a TO t._a_old")
    log.ddl("CREATE TABLE t.__a_old_new LIKE t._a_old")
    log.transaction(insert(copy, (1, SECRET, 7)))
    assert run(log.folder, target, tables=[MASKED])
    assert last_shown(target) == {"t._a_old": [(1, HIDDEN)], "t.__a_old_new": [(1, HIDDEN)]}
    assert holding(target, SECRET) == []
    plain = {"match": r"t.\_a\_old"}
    bare = LogWriter(tmp_path / "bare")
    bare.ddl(Table("_a_old", A.columns).create)
    bare.ddl("CREATE TABLE t.__a_old_new LIKE t._a_old")
    bare.transaction(insert(copy, (1, SECRET, 7)))
    bare.ddl("RENAME TABLE t._a_old TO t.__a_old_old, t.__a_old_new TO t._a_old")
    assert run(bare.folder, tmp_path / "plain", tables=[MASKED, plain])
    assert last_shown(tmp_path / "plain")["t._a_old"] == [(1, SECRET, 7)]


def test_plain_tables_of_a_tools_names_that_the_target_has(tmp_path: Path) -> None:
    """They stop the start where a rule comes for the table that they are named after; the error
    says the rule by which they stay as they are."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    for name in ("_a_old", "_a_new"):
        log.ddl(Table(name, A.columns).create)
        log.transaction(insert(Table(name, A.columns), (1, "x", 7)))
    assert run(log.folder, target)
    there, rules = last_shown(target), [MASKED]
    error = stopped(log.folder, target, tables=rules)
    assert isinstance(error, SettingError) and error.table == "t._a_new, t._a_old"
    matches = re.findall("match = '(.+?)'", error.hint or "")
    assert len(matches) == 2
    rules = [*({"match": match} for match in matches), MASKED]
    log.ddl(A.create)
    log.transaction(insert(A, (1, SECRET, 7)))
    assert run(log.folder, target, tables=rules)
    assert last_shown(target) == {**there, "t.a": [(1, HIDDEN)]}


def test_a_copy_of_which_no_statement_is_known(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "log")
    log.transaction(insert(Table("_a_gho", A.columns), (1, SECRET, 7)))
    assert run(log.folder, tmp_path / "lake", tables=[MASKED])
    assert last_shown(tmp_path / "lake") == {"t._a_gho": [(1, HIDDEN)]}
    assert holding(tmp_path / "lake", SECRET) == []


def test_tables_of_a_tool_that_have_no_rows_of_the_table(log: LogWriter, tmp_path: Path) -> None:
    """gh-ost's notes, and the one by which it keeps the name of the old table, have no column that
    the rule is about."""
    rule = {**MASKED, "match": "t.b", "exclude": [], "include": ["k", "mail"], "row_filter": "k>1"}
    log.ddl("CREATE TABLE t._b_ghc (id INT PRIMARY KEY, value VARCHAR(9))")
    log.ddl("CREATE TABLE t._b_del (id INT AUTO_INCREMENT PRIMARY KEY)")
    log.transaction(insert(Table("_b_ghc", (("id", "int"), ("value", "varchar(9)"))), (1, "x")))
    assert run(log.folder, tmp_path / "lake", tables=[rule])
    assert run(log.folder, tmp_path / "lake", tables=[rule])
    shown = last_shown(tmp_path / "lake")
    assert shown["t._b_ghc"] == [(1, "x")] and shown["t._b_del"] == []


SENTRY = "CREATE TABLE t._b_del (id INT AUTO_INCREMENT PRIMARY KEY)"
NOTES = "CREATE TABLE t._b_ghc (id INT PRIMARY KEY, hint VARCHAR(9), value VARCHAR(9))"


@pytest.mark.parametrize(
    ("way", "rule", "statements"),
    [
        ("follow", {"match": "t.b", "mask": {"id": "null"}}, [SENTRY, "DROP TABLE t._b_del"]),
        ("fold", {"match": "t.b", "mask": {"id": "null"}}, [SENTRY]),
        ("fold", {"match": "t.%", "include": ["k", "v"]}, [NOTES]),
        (
            "fold",
            {"match": "t.%", "include": ["k", "v"]},
            [NOTES, "ALTER TABLE t._b_ghc ADD w INT"],
        ),
    ],
)
def test_tables_of_a_tool_that_the_rule_has_no_room_for(
    tmp_path: Path, way: str, rule: dict[str, Any], statements: list[str]
) -> None:
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl("CREATE TABLE t.b (k INT PRIMARY KEY, v VARCHAR(9), id INT)")
    for statement in statements:
        log.ddl(statement)
    given: dict[str, Any] = {"tables": [rule], "ddl": {"online_tools": way}}
    assert run(log.folder, target, **given)
    assert run(log.folder, target, **given)
    assert last_shown(target) == {"t.b": []}


def test_a_rule_that_names_the_copy_itself(tmp_path: Path) -> None:
    log, old = LogWriter(tmp_path / "log"), Table("_a_old", A.columns)
    log.transaction(insert(old, (1, "mine", 7)))
    rules = [MASKED, {"match": r"t.\_a\_old", "exclude": ["n"]}]
    assert run(log.folder, tmp_path / "lake", tables=rules)
    assert last_shown(tmp_path / "lake") == {"t._a_old": [(1, "mine")]}


def test_a_table_that_is_kept_when_its_name_is_used_again(log: LogWriter, tmp_path: Path) -> None:
    rules, target = [{**MASKED, "on_ddl": "ignore_drop"}], tmp_path / "lake"
    log.ddl("DROP TABLE t.a")
    log.ddl(A.create)
    assert run(log.folder, target, tables=rules)
    assert run(log.folder, target, tables=rules)
    assert last_shown(target) == {"t.a": [], "t.a@dropped": [(1, HIDDEN)]}
