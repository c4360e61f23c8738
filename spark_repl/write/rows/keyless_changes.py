"""Changes of tables without a key: images that lack columns are completed, and rows are compared by
value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...alter.column_defaults import default_value
from ...binlog.rows.change_bits import EXISTED, EXISTS, MOVED
from ...delta.files.delta_columns import one_chunk
from ...errors import DecodeError, reset_table
from ...position import RelayPosition
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
