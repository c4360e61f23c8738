"""Logged rows against a table: attributes in TABLE_MAPs beside names and types."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from spark_repl.delta.files.delta_columns import Columns, schema_json
from spark_repl.delta.log.log_state import LogState
from spark_repl.delta.log.table_snapshot import Snapshot
from spark_repl.errors import SchemaError
from spark_repl.sql.classify import classify_in
from spark_repl.sql.session import Session
from spark_repl.tables.source_table import SourceTable
from spark_repl.tables.target_table import TargetTable
from spark_repl.write.tables.logged_shape import check_definition
from spark_repl.write.tables.table import DeltaState, Table


def table_of(column: str, *, explicit: bool | None = True) -> SourceTable:
    session = Session("d", explicit_timestamps=explicit)
    found = classify_in(
        f"CREATE TABLE t (id INT PRIMARY KEY, {column}) CHARSET utf8mb4", session
    ).definition
    assert found is not None
    return found


def check(expected: SourceTable, logged: SourceTable) -> None:
    columns = Columns.of(schema_json(expected.arrow_schema()))
    state = DeltaState(Snapshot("", 0, "", "", {}, LogState(0, {}, {})), 0)
    table = Table("d.t", "", "", TargetTable.mirror_of(expected), True, state, columns)
    check_definition(table, logged)


@pytest.mark.parametrize(
    ("expected", "logged", "message"),
    [
        ("x INT NOT NULL", "x INT", "x LONG), by .* x LONG NOT NULL"),
        ("x INT", "x INT NOT NULL", "x LONG NOT NULL), by .* x LONG"),
        ("x DECIMAL(9,2) UNSIGNED", "x DECIMAL(9,2)", "x DECIMAL), by .* x DECIMAL UNSIGNED"),
        ("x ENUM('a')", "x ENUM('b')", r"x ENUM\('b'\)), by .* x ENUM\('a'\)"),
        ("x SET('a')", "x SET('a', 'b')", r"x SET\('a', 'b'\)), by .* x SET\('a'\)"),
        ("x ENUM('?', 'b')", "x ENUM('\ufffd', 'b')", ""),
        ("x ENUM('?', 'c')", "x ENUM('\ufffd', 'b')", r"by .* x ENUM\('\?', 'c'\)"),
        ("x VARCHAR(9) NOT NULL", "x VARCHAR(9) NOT NULL", ""),
        ("x TIMESTAMP NULL", "x TIMESTAMP NOT NULL", "x TIMESTAMP NOT NULL"),
    ],
)
def test_attributes_that_a_table_map_contradicts_stop_the_table(
    expected: str, logged: str, message: str
) -> None:
    pattern = message.replace("), by", r"\), by")
    outcome = pytest.raises(SchemaError, match=pattern) if message else nullcontext()
    with outcome:
        check(table_of(expected), table_of(logged))


def test_before_8_0_the_table_map_decides_whether_timestamp_is_nullable() -> None:
    check(table_of("x TIMESTAMP", explicit=None), table_of("x TIMESTAMP NOT NULL"))
