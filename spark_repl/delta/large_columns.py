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
    if any(table.schema != tables[0].schema for table in tables):
        tables = _alike(tables)
    return gathered(pa.concat_tables(tables))


def _alike(tables: list[pa.Table]) -> list[pa.Table]:
    """The tables, with a large type in each where one of them has it; else they stay what they are:
    where they differ otherwise they are not joined."""
    large = {f.name for table in tables for f in table.schema if f.type in _LARGE.values()}
    made = []
    for table in tables:
        fields = [
            field.with_type(_LARGE.get(field.type, field.type)) if field.name in large else field
            for field in table.schema
        ]
        made.append(table.cast(pa.schema(fields)))
    return made


def stays_large(array: pa.Array, kind: pa.DataType) -> bool:
    """Whether an array is of the large type of ``kind``, and would not be one of ``kind``."""
    return bool(_LARGE.get(kind) == array.type and array.nbytes > BYTES_MAX)
