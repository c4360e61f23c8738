"""Large columns: text and bytes of more than 2 GiB in one array, for which Arrow has other types.

Its ``string`` and ``binary`` have places of 31 bits, and what puts chunks together (``take`` does,
too) fails beyond. Where a column would have more it becomes ``large_string`` or ``large_binary``:
Parquet and Delta have one type for both.
"""

from __future__ import annotations

import pyarrow as pa

BYTES_MAX = 2**31 - 1
_LARGE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


def whole(column: pa.ChunkedArray) -> pa.Array:
    """A column's chunks as one, of the large type where it has to be."""
    if column.num_chunks == 1:
        return column.chunk(0)
    if column.nbytes > BYTES_MAX and column.type in _LARGE:
        column = column.cast(_LARGE[column.type])
    return pa.concat_arrays(column.chunks)


def gathered(rows: pa.Table) -> pa.Table:
    """The rows with one chunk a column."""
    if not rows.num_rows:
        return rows.combine_chunks()
    arrays = [whole(column) for column in rows.columns]
    fields = [field.with_type(a.type) for field, a in zip(rows.schema, arrays, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def joined(tables: list[pa.Table]) -> pa.Table:
    """The rows of all, of which some may have a large type where others don't; as ``gathered``."""
    return gathered(pa.concat_tables(tables, promote_options="permissive"))


def stays_large(array: pa.Array, kind: pa.DataType) -> bool:
    """Whether an array is of the large type of ``kind``, and would not be one of ``kind``."""
    return bool(_LARGE.get(kind) == array.type and array.nbytes > BYTES_MAX)
