"""Changes of tables without a key: images that lack columns are completed, and rows are compared by
value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...alter.defaults import default_value
from ...binlog.rows.change_bits import EXISTED, EXISTS, MOVED
from ...delta.files.delta_columns import bits, equal, flat_parts, one_chunk
from ...errors import DecodeError, reset_table
from ...position import RelayPosition
from ..files.key_index import hash_keys
from . import partial_row_fill

if TYPE_CHECKING:
    from ...tables.target_table import TargetTable

Longs = npt.NDArray[np.int64]

_IMAGES_HINT = f"set binlog_row_image=FULL in every session of the source; {reset_table()}"
_KEYLESS_HINT = "set binlog_row_image=FULL on the source, or give the table a primary key"


def keyless_rows(staged: pa.Table, flags: Any, positions: Longs, definition: TargetTable) -> Any:
    """Return the rows of a table without a key, with the defaults of columns that an INSERT leaves
    out. ``flags``, ``positions`` [n]: those of each row's change.

    Raise DecodeError for a before image that lacks columns. In a table that has a row for each
    image, or version, raise it for every such image.
    """
    bitmaps = one_chunk(staged.column("held"))
    present, whole = (
        partial_row_fill.bits(bitmaps, len(definition.columns)),
        np.asarray(bitmaps.is_null()),
    )
    inserted = (flags & MOVED == 0) & (flags & EXISTED == 0)
    needed = np.ones(len(flags), bool)
    if definition.has_versions:  # a version that ends is read from the target
        needed = flags & EXISTS != 0
    arrays = []
    for i, column in enumerate(definition.columns):
        lacks = ~(whole | present[:, i]) & needed
        if (bad := lacks & ~inserted).any():
            of_log = definition.keeps_images
            raise DecodeError(
                f"an image lacks column {column.name}, of which a {definition.mode} needs the value"
                if of_log
                else f"a row image of a table without key lacks column {column.name}",
                position=RelayPosition.unpack(int(positions[np.argmax(bad)])),
                table=definition.name,
                hint=_IMAGES_HINT if of_log else _KEYLESS_HINT,
            )
        values = one_chunk(staged.column(i))
        if lacks.any():
            indices = np.where(lacks, len(values), np.arange(len(values)))
            at = RelayPosition.unpack(int(positions[np.argmax(lacks)]))
            values = pa.concat_arrays([values, default_value(column, definition.name, at)])
            values = values.take(pa.array(indices))
        arrays.append(values)
    return pa.Table.from_arrays(arrays, names=[str(i) for i in range(len(arrays))])


def heads(column: pa.ChunkedArray) -> Longs:
    """Return the first value of each list of a column."""
    lists = one_chunk(column)
    first: Longs = lists.values.to_numpy()[lists.offsets.to_numpy()[:-1]]
    return first


def value_codes(rows: pa.Table) -> tuple[npt.NDArray[np.int32], int]:
    """Return numbers 0..n-1 for rows that differ in a value, bit for bit, and n. Equal rows have
    equal numbers."""
    encoded = pa.array(hash_keys(rows.columns)).dictionary_encode()
    code = encoded.indices.to_numpy().astype(np.int32)
    first = np.empty(len(encoded.dictionary), np.int64)
    first[code[::-1]] = np.arange(len(code))[::-1]
    # Hashes may collide: compare each row with the first row that has its code.
    again = np.flatnonzero(first[code] != np.arange(len(code)))
    left, right = rows.take(pa.array(again)), rows.take(pa.array(first[code[again]]))
    for column, twin in zip(left.columns, right.columns, strict=True):
        if not equal(one_chunk(column), one_chunk(twin), bitwise=True).all():
            return _compared(rows)  # zeros with a sign, or two rows of one hash
    return code, len(first)


def _compared(rows: pa.Table) -> tuple[npt.NDArray[np.int32], int]:
    """Return the codes of ``value_codes``, made from the rows' values without their hashes."""
    total, count = np.zeros(rows.num_rows, np.int64), 1
    for column in rows.columns:
        for flat in flat_parts(one_chunk(column)):
            encoded = bits(flat).dictionary_encode()
            index = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
            pairs = pa.array(total * (len(encoded.dictionary) + 1) + index + 1).dictionary_encode()
            total, count = pairs.indices.to_numpy().astype(np.int64), len(pairs.dictionary)
    return total.astype(np.int32), count
