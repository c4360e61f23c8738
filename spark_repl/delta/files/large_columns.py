"""Large columns: text and bytes of more than 2 GiB in one array, for which Arrow has separate
types.

Arrow's ``string`` and ``binary`` have offsets of 31 bits, and a concatenation of chunks (also in
``take``) fails beyond. A larger column becomes ``large_string`` or ``large_binary``: Parquet and
Delta have one type for both.
"""

from __future__ import annotations

import pyarrow as pa

BYTES_MAX = 2**31 - 1
_LARGE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


def whole(column: pa.ChunkedArray) -> pa.Array:
    """Return a column's chunks as one array, of the large type if necessary."""
    if column.num_chunks == 1:
        return column.chunk(0)
    if column.nbytes > BYTES_MAX and column.type in _LARGE:
        column = column.cast(_LARGE[column.type])
    return pa.concat_arrays(column.chunks)


def gathered(rows: pa.Table) -> pa.Table:
    """Return the rows with one chunk for each column."""
    if not rows.num_rows:
        return rows.combine_chunks()
    arrays = [whole(column) for column in rows.columns]
    fields = [field.with_type(a.type) for field, a in zip(rows.schema, arrays, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def joined(tables: list[pa.Table]) -> pa.Table:
    """Return the rows of all tables, like ``gathered``. A column may have the large type in only
    some of them."""
    if any(table.schema != tables[0].schema for table in tables):
        tables = _alike(tables)
    return gathered(pa.concat_tables(tables))


def _alike(tables: list[pa.Table]) -> list[pa.Table]:
    """Return the tables; a column that is large in one of them is large in all. Other differences
    stay, so that tables that really differ are not joined."""
    large = {f.name for table in tables for f in table.schema if f.type in _LARGE.values()}
    converted = []
    for table in tables:
        fields = [
            field.with_type(_LARGE.get(field.type, field.type)) if field.name in large else field
            for field in table.schema
        ]
        converted.append(table.cast(pa.schema(fields)))
    return converted


def stays_large(array: pa.Array, kind: pa.DataType) -> bool:
    """Return whether an array has the large type of ``kind`` and is too large for ``kind``."""
    return bool(_LARGE.get(kind) == array.type and array.nbytes > BYTES_MAX)
