"""Bytes without a character in logged rows, with each setting of target.text_errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_repl.errors import DecodeError, StatementError
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import last_shown, run, stopped

A, BAG = Table("a"), Table("bag", key=())
SURROGATE, OTHER = b"a\xed\xa0\x80", b"a\xed\xb0\x80"
REPLACE = {"text_errors": "replace"}


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    made = LogWriter(tmp_path / "log")
    made.ddl(A.create)
    made.ddl(BAG.create)
    return made


def test_an_error_has_the_place_and_names_the_key(log: LogWriter, tmp_path: Path) -> None:
    log.transaction(insert(A, (1, "x")))
    log.transaction(insert(A, (2, "y"), (3, SURROGATE)))
    error = stopped(log.folder, tmp_path / "lake")
    assert isinstance(error, DecodeError)
    assert "column v: bytes eda080 are not text in character set utf8mb4" in error.message
    assert (error.gtid, error.table) == (log.gtid(3), "t.a") and error.file and error.position
    assert 'target.text_errors = "replace"' in str(error.hint)
    assert last_shown(tmp_path / "lake")["t.a"] == [(1, "x")]
    assert run(log.folder, tmp_path / "lake", keys=REPLACE), "the hint, followed literally"
    assert last_shown(tmp_path / "lake")["t.a"] == [(1, "x"), (2, "y"), (3, "a\ufffd")]


def test_replaced_values_are_counted(log: LogWriter, tmp_path: Path) -> None:
    log.transaction(insert(A, (1, SURROGATE), (2, "y")))
    log.transaction(update(A, ((1, SURROGATE), (1, OTHER))))
    assert run(log.folder, tmp_path / "lake", keys=REPLACE, group_max_transactions=1)
    assert last_shown(tmp_path / "lake")["t.a"] == [(1, "a\ufffd"), (2, "y")]
    status = json.loads((tmp_path / "lake" / "_repl" / "status.json").read_text())
    assert status["counters"]["text_errors"] == 2


def test_rows_without_a_key_that_become_equal_are_one_value(log: LogWriter, tmp_path: Path) -> None:
    log.transaction(insert(BAG, (1, SURROGATE), (1, OTHER), (2, "y")))
    log.transaction(delete(BAG, (1, OTHER)), insert(BAG, (3, OTHER)), delete(BAG, (3, OTHER)))
    assert run(log.folder, tmp_path / "lake", keys=REPLACE)
    assert last_shown(tmp_path / "lake")["t.bag"] == [(1, "a\ufffd"), (2, "y")]


def test_a_row_filter_never_reads_a_replaced_value(log: LogWriter, tmp_path: Path) -> None:
    log.transaction(insert(A, (1, SURROGATE)))
    tables = [{"match": "t.a", "row_filter": "CAST(v AS BINARY) <> 'b'"}]
    error = stopped(log.folder, tmp_path / "lake", keys=REPLACE, tables=tables)
    assert isinstance(error, DecodeError) and "column v: bytes eda080" in error.message
    assert "row_filter" in str(error.hint)


@pytest.mark.parametrize(
    "statement",
    [
        "MODIFY v VARCHAR(40) CHARACTER SET utf16",
        "MODIFY v VARBINARY(160)",
        "ADD g VARCHAR(80) AS (CONCAT(v, 'x')) STORED",
    ],
)
def test_a_statement_that_reads_the_bytes_is_unknown(
    log: LogWriter, tmp_path: Path, statement: str
) -> None:
    log.transaction(insert(A, (1, SURROGATE)))
    log.ddl(f"ALTER TABLE t.a {statement}")
    error = stopped(log.folder, tmp_path / "lake", keys=REPLACE)
    assert isinstance(error, StatementError) and "U+FFFD" in error.message
    assert (error.gtid, error.table) == (log.gtid(3), "t.a")


def test_statements_that_keep_replaced_values_are_applied(log: LogWriter, tmp_path: Path) -> None:
    log.transaction(insert(A, (1, SURROGATE)))
    log.ddl("ALTER TABLE t.a MODIFY v VARCHAR(90), ADD n INT DEFAULT 7")
    log.ddl("ALTER TABLE t.bag MODIFY v VARCHAR(40) CHARACTER SET utf16")
    assert run(log.folder, tmp_path / "lake", keys=REPLACE)
    assert last_shown(tmp_path / "lake")["t.a"] == [(1, "a\ufffd", 7)]
