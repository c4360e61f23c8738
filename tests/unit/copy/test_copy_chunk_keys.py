"""Keys of rows that are copied: values of which several would be one in the target."""

from __future__ import annotations

import numpy as np
import pytest

from spark_repl.binlog.types.column_values import Values
from spark_repl.binlog.types.forms import Forms
from spark_repl.copy.copy_chunk import copied_rows
from spark_repl.copy.source_tables import ListedTable, chunk_ends
from spark_repl.errors import SchemaError
from spark_repl.sql.classify import classify
from spark_repl.tables.target_table import TargetTable


def texts(*values: bytes) -> Values:
    ends = np.cumsum([len(value) for value in values])
    lengths = np.array([len(value) for value in values], np.int32)
    return Values(np.frombuffer(b"".join(values), np.uint8), ends - lengths, lengths)


@pytest.mark.parametrize("kind", ["DATE", "DATETIME", "TIMESTAMP"])
@pytest.mark.parametrize("key", [True, False])
def test_a_zero_date_in_a_key_is_an_error(kind: str, key: bool) -> None:
    primary = "d" if key else "n"
    statement = f"CREATE TABLE t.a (d {kind} NOT NULL, n INT NOT NULL, PRIMARY KEY ({primary}))"
    definition = classify(statement, "t").definition
    assert definition is not None
    time = b"" if kind == "DATE" else b" 00:00:00"
    columns = [
        texts(b"2000-00-00" + time, b"0000-00-00" + time, b"2001-02-03" + time),
        texts(b"1", b"2", b"3"),
    ]
    if key:
        with pytest.raises(SchemaError, match="column d holds zero or partial dates"):
            copied_rows(TargetTable.mirror_of(definition), columns, Forms("null"), b"")
    else:
        rows, _ = copied_rows(TargetTable.mirror_of(definition), columns, Forms("null"), b"")
        assert rows.column("d").null_count == 2


def test_chunks_end_at_the_bytes_that_the_source_has() -> None:
    """The server's conversion of bytes without a character is a question mark, which is less."""
    statement = "CREATE TABLE a (k VARCHAR(9) CHARACTER SET greek PRIMARY KEY)"
    definition = classify(statement, "t").definition
    assert definition is not None
    table, target = ListedTable(definition, 1 << 30, 1), TargetTable.mirror_of(definition)
    answers = [[("E1",)], [("61A4",)]]
    assert chunk_ends(lambda _: [("E1",)], table, target) == ("_utf8mb4 X'ceb1'",)
    with pytest.raises(SchemaError, match="column k: bytes a4 are not text") as caught:
        chunk_ends(lambda _: answers.pop(0), table, target)
    assert caught.value.table == "t.a" and "correct the key" in str(caught.value.hint)
