"""Defaults of columns that are masked or left out: INSERTs that leave them out get the masked
default, and the plain one is in no byte of the target, no log line and no error."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import last_shown, run, stopped
from tests.support.planted import holding

SECRET = "planted-secret-hunter2"
COLUMNS = (
    ("id", "int"), ("h", "varchar(40)"), ("t", "varchar(40)"), ("k", "varchar(40)"),
    ("c", "varchar(40)"), ("z", "varchar(40)"), ("gone", "varchar(40)"),
)  # fmt: skip
A = Table("a", COLUMNS)
CREATE = (
    "CREATE TABLE t.a (id INT PRIMARY KEY"
    + "".join(f", {name} VARCHAR(40) DEFAULT '{SECRET}'" for name, _ in COLUMNS[1:])
    + ")"
)
RULE: dict[str, Any] = {
    "match": "t.a", "exclude": ["gone"],
    "mask": {"h": "sha256", "t": "truncate:2", "k": "keep_last:1", "c": "constant:-", "z": "null"},
}  # fmt: skip


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> dict[str, Any]:
    monkeypatch.setenv("MASK_KEY", "planted-key-2718")
    caplog.set_level(logging.DEBUG, "spark_repl")
    return {"tables": [RULE], "keys": {"mask_key_env": "MASK_KEY"}}


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    made = LogWriter(tmp_path / "log")
    made.ddl(CREATE)
    made.transaction(insert(A, {0: 1}))
    return made


def test_it_is_kept_as_it_is_masked(
    log: LogWriter, tmp_path: Path, given: dict[str, Any], caplog: Any
) -> None:
    target = tmp_path / "lake"
    assert run(log.folder, target, **given)
    log.ddl("ALTER TABLE t.a ADD n INT")
    wide = Table("a", (*COLUMNS, ("n", "int")))
    log.transaction(insert(wide, {0: 2, 7: 5}))
    log.ddl("ALTER TABLE t.a ALTER t SET DEFAULT 'new-secret', ALTER k SET DEFAULT NULL")
    log.transaction(insert(wide, {0: 3}))
    assert run(log.folder, target, **given)
    log.transaction(insert(wide, {0: 4}))
    assert run(log.folder, target, **given)
    first, second, third, fourth = last_shown(target)["t.a"]
    assert len(first[1]) == 64
    assert first == (1, first[1], "pl", "*" * 21 + "2", "-", None, None)
    assert second == (2, *first[1:-1], 5)
    assert third == (3, first[1], "ne", None, "-", None, None)
    assert fourth == (4, *third[1:])
    assert holding(target, SECRET, "new-secret") == []
    assert SECRET not in caplog.text and "new-secret" not in caplog.text


def test_a_table_made_like_it_knows_no_default(
    log: LogWriter, tmp_path: Path, given: dict[str, Any]
) -> None:
    """Where no rule masks its columns; the plain default is not kept anywhere."""
    log.ddl("CREATE TABLE t.b LIKE t.a")
    log.transaction(insert(Table("b", COLUMNS), (1, *"abcdef")))
    assert run(log.folder, tmp_path / "lake", **given)
    assert last_shown(tmp_path / "lake")["t.b"] == [(1, *"abcdef")]
    for name in ("h", "gone"):
        rest = {number: "x" for number, (one, _) in enumerate(COLUMNS) if one != name and number}
        bare = LogWriter(tmp_path / name)
        bare.ddl(CREATE)
        bare.ddl("CREATE TABLE t.b LIKE t.a")
        bare.transaction(insert(Table("b", COLUMNS), {0: 2, **rest}))
        error = stopped(bare.folder, tmp_path / f"{name}-lake", **given)
        assert f"column {name}, whose default is not known" in str(error)
        assert "planted" not in str(error)


def test_a_tools_copy_that_is_left_out(
    log: LogWriter, tmp_path: Path, given: dict[str, Any], caplog: Any
) -> None:
    """Its definition is on record until the tool renames it: new defaults are masked there, too,
    and a new column that is left out is none of the table's."""
    target, rule = tmp_path / "lake", {**RULE, "match": "t.%", "exclude": ["gone", "new"]}
    given = {**given, "tables": [rule], "ddl": {"online_tools": "fold"}}
    log.ddl("CREATE TABLE t._a_gho LIKE t.a")
    log.ddl("ALTER TABLE t._a_gho ALTER k SET DEFAULT 'k-secret', ADD new INT DEFAULT 1234567")
    assert run(log.folder, target, **given)
    assert holding(target, SECRET, "k-secret", "1234567") == []
    log.ddl("RENAME TABLE t.a TO t._a_del, t._a_gho TO t.a")
    log.transaction(insert(Table("a", (*COLUMNS, ("new", "int"))), {0: 2}))
    assert run(log.folder, target, **given)
    first, second = last_shown(target)["t.a"]
    assert second == (2, *first[1:3], "*******t", *first[4:])
    assert holding(target, SECRET, "k-secret", "1234567") == []
    assert SECRET not in caplog.text and "k-secret" not in caplog.text


def test_a_table_that_a_tool_leaves_behind(
    log: LogWriter, tmp_path: Path, given: dict[str, Any], caplog: Any
) -> None:
    """Its definition is on record, too, until it is dropped."""
    target, given = tmp_path / "lake", {**given, "ddl": {"online_tools": "fold"}}
    log.ddl("CREATE TABLE t._a_gho LIKE t.a")
    log.ddl("RENAME TABLE t.a TO t._a_del, t._a_gho TO t.a")
    log.ddl(
        "ALTER TABLE t._a_del ALTER k SET DEFAULT 'k-secret', ALTER gone SET DEFAULT 'x-secret'"
    )
    assert run(log.folder, target, **given)
    rows = Control(Layout(str(target)).control).rows("left_out")
    noted = [row["detail"] for row in rows if "_a_del" in row["detail"]]
    assert len(noted) == 2 and "secret" not in "".join(noted)
    assert "k-secret" not in caplog.text and "x-secret" not in caplog.text


@pytest.mark.parametrize(
    "statement",
    [
        f"UPDATE t.a SET h = '{SECRET}', n = 1234567 WHERE id = 1",
        f"ALTER TABLE t.a NONSENSE '{SECRET}' 1234567",
        f"ALTER TABLE t.a ALTER h SET DEFAULT '{SECRET}', FORCE 1234567 x'{SECRET.encode().hex()}'",
        f"CREATE TABLE t.a (v INT DEFAULT 1234567 WRONG '{SECRET}')",
        f"INSERT INTO t.a VALUES (1234567, '{SECRET}",
        "ALTER TABLE t.a ADD born TIMESTAMP NULL DEFAULT '1985-03-07 10:00:00'",
        "ALTER TABLE t.a ADD born BIT(64) DEFAULT -1234567.5",
        "ALTER TABLE t.a ADD tag INT AS (h > DATE'1985-3-7') STORED",
    ],
)
def test_an_error_shows_no_literal(
    log: LogWriter, tmp_path: Path, given: dict[str, Any], caplog: Any, statement: str
) -> None:
    log.ddl(statement)
    error = stopped(log.folder, tmp_path / "lake", **given)
    said = f"{error} {error.hint} {caplog.text}"
    for secret in (SECRET, "1234567", SECRET.encode().hex(), "1985-03-07", "1985-3-7"):
        assert secret not in said
    assert holding(tmp_path / "lake", SECRET, "1234567", "1985-03-07", "1985-3-7") == []
