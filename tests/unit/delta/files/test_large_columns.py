"""Tables are joined whose columns are alike but for a large type; no others are."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_repl.delta.files.large_columns import joined


@pytest.mark.parametrize(
    ("kind", "large"), [(pa.string(), pa.large_string()), (pa.binary(), pa.large_binary())]
)
def test_large_and_plain_types_are_joined(kind: pa.DataType, large: pa.DataType) -> None:
    parts = [pa.table({"n": [1], "v": pa.array(["a"], one)}) for one in (kind, large, kind)]
    rows = joined(parts)
    assert (rows.schema.types, rows.column("v").num_chunks) == ([pa.int64(), large], 1)
    assert rows.num_rows == 3
    assert joined(parts[:1]).schema.types == [pa.int64(), kind]


@pytest.mark.parametrize(
    "other", [{"v": pa.array([1], pa.int8())}, {"w": pa.array([1])}, {"v": pa.array([1]), "w": [1]}]
)
def test_tables_of_other_columns_are_not_joined(other: dict[str, pa.Array]) -> None:
    """Nothing is filled in, and no type widened."""
    with pytest.raises(pa.ArrowInvalid):
        joined([pa.table({"v": [1]}), pa.table(other)])
