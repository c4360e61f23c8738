"""Rows that a copy reads, and ``verify``, are left out as those of the log are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from spark_repl.binlog.types.forms import Forms
from spark_repl.config import Source
from spark_repl.config.tables import TableRule
from spark_repl.copy import copy_chunk
from spark_repl.delta.files.delta_columns import Columns, schema_json
from spark_repl.errors import SchemaError
from spark_repl.rules.column_rules import ColumnRules
from spark_repl.rules.table_rules import TableRules
from spark_repl.sql.classify import classify
from tests.unit.copy.test_text_rows import Bytes, answer

ROWS: list[tuple[bytes | None, ...]] = [
    (b"1", b"5", b"2026-01-02"), (b"2", b"1", b"2026-01-03"), (b"3", None, None),
]  # fmt: skip


def copied(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    text: str,
    *more: tuple[bytes | None, ...],
    charset: str = "",
) -> Any:
    stream = Bytes(answer([*ROWS, *more]), 1 << 20)
    monkeypatch.setattr(
        copy_chunk, "begin_query", lambda connection, statement: (stream, [0, 0, 0])
    )
    columns_of = f"id INT PRIMARY KEY, s VARCHAR(9) {charset}, d DATE"
    made = classify(f"CREATE TABLE t.a ({columns_of})", "t").definition
    assert made is not None
    target = ColumnRules(TableRules((TableRule("t.a", row_filter=text),))).shaped(made)
    columns = Columns.of(schema_json(target.arrow_schema()), ())
    task = copy_chunk.CopyTask(Source(), target, columns, str(folder), "", Forms("null"))
    found = copy_chunk.copy_rows(task, None)
    files = [pq.read_table(folder / add["path"]) for add in found.adds]
    rows = [row["id"] for file in files for row in file.to_pylist()]
    assert found.rows == len(rows)
    return rows


@pytest.mark.parametrize(
    ("text", "want"),
    [("s + 0 > 2", [1]), ("s IS NULL OR d = '2026-01-03'", [2, 3]), ("id > 9", [])],
)
def test_only_rows_that_pass_the_filter_are_copied(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, want: list[int]
) -> None:
    assert copied(monkeypatch, tmp_path, text, charset="CHARACTER SET latin1") == want
    assert len(list(tmp_path.iterdir())) == (1 if want else 0)


def test_a_zero_date_that_is_kept_as_null_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(SchemaError, match="column d holds zero or partial dates"):
        copied(monkeypatch, tmp_path, "d IS NULL", (b"4", None, b"0000-00-00"))
    assert copied(monkeypatch, tmp_path, "s IS NULL", (b"4", None, b"0000-00-00")) == [3, 4]


def test_a_value_that_the_filter_can_not_decide_stops(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(SchemaError, match="whether 'X' is 'x' depends on the collation"):
        copied(monkeypatch, tmp_path, "s = 'x'", (b"4", b"X", None))
