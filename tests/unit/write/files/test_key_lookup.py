"""Key look-up: the rows of a table's files that have given keys."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_repl.binlog.kernels.key_hash import NULL_HASH
from spark_repl.delta.files.delta_columns import Columns, schema_json
from spark_repl.tables.column import Column, ColumnType
from spark_repl.tables.target_table import TargetTable
from spark_repl.write.files.key_lookup import find_rows
from spark_repl.write.files.write_task import PlannedFiles


@pytest.mark.parametrize(("wanted", "row"), [(NULL_HASH, 0), (None, 1)])
def test_null_does_not_match_the_number_that_is_its_hash(
    tmp_path: Path, wanted: int | None, row: int
) -> None:
    """In a table of one number without a key, whose hash is the number itself."""
    stored = pa.table({"n": pa.array([NULL_HASH, None, 5], pa.int64())})
    pq.write_table(stored, tmp_path / "f.parquet")
    column = Column("n", ColumnType.LONGLONG, 0, nullable=True)
    task: Any = SimpleNamespace(
        index_folder=str(tmp_path / "keys"), folder=str(tmp_path), key=(),
        columns=Columns.of(schema_json(stored.schema)),
        definition=TargetTable("t", "a", (column,), ()),
        files=PlannedFiles(pa.array(["f.parquet"]), {}),
    )  # fmt: skip
    ((number, at, rows),) = find_rows(task, pa.table({"n": pa.array([wanted], pa.int64())}))
    assert (number, at.tolist(), rows.tolist()) == (0, [0], [row])
