"""PartialImages: row images that lack columns or hold JSON diffs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ...errors import DecodeError
from ...tables.column import ColumnType, Form
from ..json.diff import apply_diffs
from ..types.column_values import Values
from ..types.forms import USUAL, Forms
from .partial_images import (
    ABSENT,
    BEFORE,
    BEFORE_PRESENT,
    DIFFS,
    IMAGE,
    NULL,
    PRESENT,
    Side,
    begin_partial,
    locate_partial,
)
from .row_images import RowImages

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Self

    from ..kernels.jit import Bools, Bytes, Ints, Lengths

# Maximum number of cells of the offset table in one decoding step: 12 bytes each.
_CELLS_MAX = 4 << 20


@dataclass(eq=False)
class PartialImages(RowImages):
    """Images that lack columns (binlog_row_image MINIMAL, NOBLOB) or hold JSON diffs.

    An UPDATE's image is completed from its before image. An UPDATE that changes the key has bit 3
    (MOVED) in the flags of its second entry. Entries of a table without key have empty keys.
    """

    _place: Ints = field(repr=False, kw_only=True)

    @property
    def _runs(self) -> Ints:
        columns = np.array(sorted(self.definition.primary_key), np.int64)
        return np.stack([columns, columns + 1], axis=1)

    def chosen(self, entries: Ints, flags: Bytes, changes: int) -> Self:
        return replace(super().chosen(entries, flags, changes), _place=self._place[entries])

    def decode(self, entries: Ints, forms: Forms = USUAL) -> pa.RecordBatch:
        """Do what ``RowImages.decode`` does. Columns that an image lacks are NULL."""
        schema = pa.schema([f.with_nullable(True) for f in self.definition.arrow_schema()])
        arrays = self.values(entries, forms, keys=True)
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def values(
        self,
        entries: Ints,
        forms: Forms = USUAL,
        *,
        keys: bool = False,
        only: Collection[int] | None = None,
    ) -> list[pa.Array]:
        return [
            self._values(column, values, bases, diffs, forms, keys=keys)
            for column, values, bases, diffs in self._located(entries)
            if only is None or column in only
        ]

    def presence(self, entries: Ints) -> tuple[pa.Array, pa.Array]:
        """Return two BinaryArray[n]: the columns that each entry has, and its pending diffs.

        The former is a bitmap: bit i of byte i // 8 for column i. Pending diffs are diffs of a
        document that is not in the log. They are NULL if there are none, otherwise packed for
        ``pending_diffs``.
        """
        columns = self.definition.columns
        holds = np.zeros((len(entries), len(columns)), np.bool_)
        pending: list[bytes] | None = None
        for column, values, bases, diffs in self._located(entries):
            waiting = diffs & (bases.length == ABSENT)
            holds[:, column] = (values.length != ABSENT) & ~waiting
            for row in np.flatnonzero(waiting):
                pending = pending or [b""] * len(entries)
                pending[row] += _packed_diff(column, values, int(row))
        bits = np.packbits(holds, axis=1, bitorder="little")
        edges = np.arange(len(entries) + 1, dtype=np.int32) * bits.shape[1]
        buffers = [None, pa.py_buffer(edges), pa.py_buffer(np.ascontiguousarray(bits))]
        present = pa.Array.from_buffers(pa.binary(), len(entries), buffers)
        packed_diffs = [packed or None for packed in pending] if pending else [None] * len(entries)
        return present, pa.array(packed_diffs, pa.binary())

    def _located(self, entries: Ints) -> Iterator[tuple[int, Values, Values, Bools]]:
        """Yield (number of the column, places of its values, places of the before images' values,
        which values are diffs) for each column."""
        place = np.ascontiguousarray(self._place[entries])
        place[entries < 0] = -1
        own = self._side(place[:, IMAGE], place[:, PRESENT])
        other = self._side(place[:, BEFORE], place[:, BEFORE_PRESENT])
        columns = self.definition.columns
        documents = 0
        step = max(1, _CELLS_MAX // max(1, len(place)) // 2)
        for first in range(0, len(columns), step):
            last = min(first + step, len(columns))
            own_entries = self._locate(own, first, last)
            theirs = self._locate(other, first, last)
            for i in range(first, last):
                values = Values(self._buffer, own_entries[0][i - first], own_entries[1][i - first])
                bases = Values(self._buffer, theirs[0][i - first], theirs[1][i - first])
                diffs = np.zeros(len(place), np.bool_)
                if columns[i].type == ColumnType.JSON:
                    diffs = self._diffs(place[:, DIFFS], documents) & (values.length >= 0)
                    documents += 1
                    # A diff without operations leaves the document unchanged.
                    values.length[diffs & (values.length == 0)] = ABSENT
                    diffs &= values.length != ABSENT
                fill = values.length == ABSENT
                values.offset[fill], values.length[fill] = bases.offset[fill], bases.length[fill]
                yield i, values, bases, diffs

    def _side(self, image: Ints, present: Ints) -> Side:
        cursor = np.empty((len(image), 2), np.int64)
        side = Side(np.ascontiguousarray(image), np.ascontiguousarray(present), cursor)
        begin_partial(self._buffer, side, len(self._wire))
        return side

    def _locate(self, side: Side, first: int, last: int) -> tuple[Ints, Lengths]:
        """Return (offset, length) of the values of the columns [first, last), with a row for each
        column."""
        offset = np.empty((last - first, len(side.image)), np.int64)
        length = np.empty((last - first, len(side.image)), np.int32)
        locate_partial(self._buffer, side, self._wire, first, last, offset, length)
        return offset, length

    def _diffs(self, bitmap: Ints, document: int) -> Bools:
        byte = self._buffer[np.maximum(bitmap, 0) + (document >> 3)]
        is_diff: Bools = (bitmap >= 0) & (byte >> (document & 7) & 1 != 0)
        return is_diff

    def _values(
        self,
        column: int,
        values: Values,
        bases: Values,
        diffs: Bools,
        forms: Forms,
        *,
        keys: bool,
    ) -> pa.Array:
        length = np.maximum(values.length, NULL)
        if not diffs.any():
            whole = Values(values.buffer, values.offset, length)
            return self._column(column, whole, forms, keys=keys)
        if self.definition.columns[column].form == Form.VARIANT:
            raise self._refused(column, int(np.argmax(diffs)))
        waiting = diffs & (bases.length == ABSENT)
        offset = np.where(diffs, bases.offset, values.offset)
        length = np.where(diffs, np.maximum(bases.length, NULL), length).astype(np.int32)
        whole = self._column(column, Values(values.buffer, offset, length), forms)
        rows = np.flatnonzero(diffs & ~waiting)
        return self._apply(column, whole, values, rows)

    def _refused(self, column: int, row: int) -> DecodeError:
        return DecodeError(
            f"column {self.definition.columns[column].name}: a JSON column kept as VARIANT can't"
            " have JSON diffs (binlog_row_value_options=PARTIAL_JSON): refused",
            table=self.definition.name,
            hint="set binlog_row_value_options='' on the source and copy the table again, or set"
            ' target.json_as = "string", in a new target',
        ).of_row(row)

    def _apply(self, column: int, whole: pa.Array, values: Values, rows: Ints) -> pa.Array:
        name, table = self.definition.columns[column].name, self.definition.name
        pieces = [_bytes(values, int(row)) for row in rows]
        try:
            applied = apply_diffs(whole.take(pa.array(rows)).to_pylist(), pieces, name, table)
        except DecodeError as error:
            if error.row is not None:
                error.of_row(int(rows[error.row]))
            raise
        order = np.arange(len(whole))
        order[rows] = len(whole) + np.arange(len(rows))
        return pa.concat_arrays([whole, pa.array(applied, pa.string())]).take(pa.array(order))


def _bytes(values: Values, row: int) -> bytes:
    at = int(values.offset[row])
    return values.buffer[at : at + int(values.length[row])].tobytes()


def _packed_diff(column: int, values: Values, row: int) -> bytes:
    data = _bytes(values, row)
    return column.to_bytes(2, "little") + len(data).to_bytes(4, "little") + data
