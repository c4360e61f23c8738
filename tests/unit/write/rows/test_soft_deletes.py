"""TRUNCATE of a table that keeps deleted rows: it marks the rows that are not marked yet."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from spark_repl.config.tables import OF_LAST_CHANGE, TableRule
from spark_repl.rules.column_rules import ColumnRules
from spark_repl.rules.table_rules import TableRules
from spark_repl.sql.classify import classify
from spark_repl.tables.target_table import TargetTable
from spark_repl.write.rows.soft_deletes import Truncated

AT = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
US = int(AT.timestamp()) * 1_000_000 + 678
BEFORE = ("t.old", "x:1", None, "INSERT")
ROWS = [(1, "a", *BEFORE, False), (2, None, *BEFORE[:-1], "DELETE", True), (3, "c", *BEFORE, None)]


@pytest.mark.parametrize("gtid", ["x:9", ""])
def test_truncate_marks_rows_that_are_not_marked_yet(gtid: str) -> None:
    made = classify("CREATE TABLE t.a (id INT PRIMARY KEY, s VARCHAR(9))", "t").definition
    assert made is not None and not TargetTable.mirror_of(made).keeps_deleted
    target = ColumnRules(TableRules((TableRule("t.a", extra_columns=OF_LAST_CHANGE),))).shaped(made)
    assert target.keeps_deleted
    schema = target.arrow_schema()
    arrays = [pa.array(c, f.type) for c, f in zip(zip(*ROWS, strict=True), schema, strict=True)]
    truncated, said = Truncated(target, gtid, US), ("t.a", gtid or None, AT, "TRUNCATE", True)
    want = [(1, "a", *said), ROWS[1], (3, "c", *said)]
    columns = truncated.columns(arrays)
    assert [*zip(*(column.to_pylist() for column in columns), strict=True)] == want
    assert [column.type for column in columns] == schema.types
