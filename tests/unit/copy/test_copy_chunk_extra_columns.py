"""Extra columns of rows that a copy reads, and of those that a repair finds gone."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_repl.binlog.types.forms import USUAL
from spark_repl.config import Source
from spark_repl.config.tables import OF_LAST_CHANGE, TableRule
from spark_repl.copy import copy_chunk
from spark_repl.copy.read_repair_rows import _Gone, stage_gone
from spark_repl.copy.repair_request import KEY, THERE, RepairRequest
from spark_repl.delta.files.delta_columns import Columns, schema_json
from spark_repl.rules.column_rules import ColumnRules
from spark_repl.rules.table_rules import TableRules
from spark_repl.sql.classify import classify
from spark_repl.tables.target_table import TargetTable
from spark_repl.write.rows.partial_row_fill import bits
from tests.unit.copy.test_text_rows import Bytes, answer

SET = "11111111-2222-3333-4444-555555555555:1-77"


def shaped(extra: tuple[str, ...] = OF_LAST_CHANGE) -> TargetTable:
    made = classify("CREATE TABLE t.a (id INT PRIMARY KEY, s VARCHAR(9))", "t").definition
    assert made is not None
    return ColumnRules(TableRules((TableRule("t.a", extra_columns=extra),))).shaped(made)


def test_copied_rows_have_extra_columns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stream = Bytes(answer([(b"1", b"x"), (b"2", None)]), 1 << 20)
    monkeypatch.setattr(copy_chunk, "begin_query", lambda connection, statement: (stream, [0, 0]))
    target = shaped()
    columns = Columns.of(schema_json(target.arrow_schema()), ())
    task = copy_chunk.CopyTask(
        Source(), target, columns, str(tmp_path), "", USUAL, gtid_executed=SET
    )
    (add,) = copy_chunk.copy_rows(task, None).adds
    said = ("t.a", SET, None, "COPY", False)
    rows = [tuple(row.values()) for row in pq.read_table(tmp_path / add["path"]).to_pylist()]
    assert rows == [(1, "x", *said), (2, None, *said)]


@pytest.mark.parametrize("extra", [OF_LAST_CHANGE, ("gtid",)])
def test_rows_that_a_repair_finds_gone(tmp_path: Path, extra: tuple[str, ...]) -> None:
    """Marked, they keep what the table has of other columns."""
    keys = pa.table({
        KEY: pa.array([7, 3], pa.uint64()), THERE: [True, True], "0": pa.array([1, 2], pa.int32()),
    })  # fmt: skip
    request, target = tmp_path / "1.repair", shaped(extra)
    request.write_bytes(RepairRequest("t.a", (), ("id int32",), keys).to_bytes())
    found = keys.column(KEY).to_numpy()[1:]
    part = stage_gone(_Gone(str(request), target, found, 9, str(tmp_path / "gone"), SET))
    rows = part.read().to_pylist()
    names = [str(number) for number in range(len(target.columns))]
    if len(extra) == 1:
        assert [[row[name] for name in names] for row in rows] == [[1, None, SET]]
        assert rows[0]["held"] is None
        return
    assert [[row[name] for name in names] for row in rows] == [
        [1, None, "t.a", SET, None, "DELETE", True]
    ]
    held = bits(pa.array([rows[0]["held"]], pa.binary()), len(names))
    assert held.tolist() == [[True, False, True, True, True, True, True]]
