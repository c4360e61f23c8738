"""XA transactions that stay prepared beside masks: those of hidden columns are not kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_repl.errors import TargetError
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import last_shown, run, stopped
from tests.support.planted import holding

A = Table("a", (("id", "int"), ("mail", "varchar(40)")))
B = Table("b", A.columns)
XID = (b"x", b"", 1)
SECRET = "planted-secret-hunter2"
FILTERS = {"rewrite_db": ["t->lake"]}


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    made = LogWriter(tmp_path / "log")
    made.ddl(A.create)
    made.ddl(B.create)
    return made


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(
    ("rule", "name"),
    [
        ({"match": "lake.a", "mask": {"mail": "null"}}, "lake.a"),
        ({"match": "lake.a", "exclude": ["mail"], "to": "other.name"}, "other.name"),
        ({"match": "lake.%", "include": ["id"]}, "lake.a, lake.b"),
    ],
)
def test_one_of_a_table_with_hidden_columns(
    log: LogWriter, tmp_path: Path, rule: dict[str, Any], name: str, compressed: bool
) -> None:
    log.xa_prepare(XID, insert(B, (1, "b")), insert(A, (3, SECRET)), compressed=compressed)
    given: dict[str, Any] = {"tables": [rule], "filters": FILTERS}
    error = stopped(log.folder, tmp_path / "lake", **given)
    assert isinstance(error, TargetError) and "stays prepared" in str(error)
    assert error.gtid == log.gtid(2) and error.table == name
    for path in (tmp_path / "lake").rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes()
    log.xa_end("COMMIT", XID)
    assert run(log.folder, tmp_path / "lake", **given), "both parts in one group"


@pytest.mark.parametrize("compressed", [False, True])
def test_a_branch_with_texts_of_statements_is_refused(
    log: LogWriter, tmp_path: Path, compressed: bool
) -> None:
    """Which may hold values of any table (binlog_rows_query_log_events)."""
    log.rows_query = f"INSERT INTO b SELECT id, '{SECRET}' FROM a"
    log.xa_prepare(XID, insert(B, (1, "b")), compressed=compressed)
    given: dict[str, Any] = {"tables": [{"match": "t.a", "mask": {"mail": "null"}}]}
    error = stopped(log.folder, tmp_path / "lake", **given)
    assert isinstance(error, TargetError) and "binlog_rows_query_log_events" in str(error)
    assert error.gtid == log.gtid(2) and error.table is None
    for path in (tmp_path / "lake").rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes()


@pytest.mark.parametrize("compressed", [False, True])
def test_a_branch_of_unmasked_tables_is_kept(
    log: LogWriter, tmp_path: Path, compressed: bool
) -> None:
    rule = {"match": "lake.a", "mask": {"mail": "null"}}
    given: dict[str, Any] = {"tables": [rule], "filters": FILTERS}
    log.xa_prepare(XID, insert(B, (1, "b")), compressed=compressed)
    assert run(log.folder, tmp_path / "lake", **given)
    log.xa_end("COMMIT", XID)
    log.transaction(insert(A, (2, SECRET)))
    assert run(log.folder, tmp_path / "lake", **given)
    assert last_shown(tmp_path / "lake") == {"lake.a": [(2, None)], "lake.b": [(1, "b")]}


@pytest.mark.parametrize("told", ["a CREATE TABLE before", "its own rows alone"])
def test_one_of_a_source_that_keeps_names_in_lower_case(tmp_path: Path, told: str) -> None:
    """Which the log tells only by a row's table, behind the start."""
    log, table = LogWriter(tmp_path / "log"), Table("users", A.columns)
    if told != "its own rows alone":
        log.ddl("CREATE TABLE T.Users (id INT PRIMARY KEY, mail VARCHAR(40))", "T")
        log.transaction(insert(table, (1, "x")))
    log.xa_prepare(XID, insert(table, (2, SECRET)))
    rules = [{"match": "T.Users", "exclude": ["mail"]}]
    error = stopped(log.folder, tmp_path / "lake", tables=rules)
    assert isinstance(error, TargetError) and "stays prepared" in str(error)
    assert holding(tmp_path / "lake", SECRET) == []
