"""RowImages: the row images that ``walk`` found, with keys, and their values as Arrow batches."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ...errors import DecodeError
from ...tables.column import DATE_TYPES, ColumnType, Form
from ..charsets.charset import LOGGED_KEY_TEXT_HINT, TEXT_ERRORS_HINT
from ..json.json_text import to_text
from ..json.variant_encoding import to_variant
from ..kernels.jit import (
    BEGIN,
    FLAGS,
    KIND,
    NO_FOREIGN_KEY_CHECKS,
    QUERY,
    QUERY_END,
    TRANSACTION,
    USE_SQL_FOREIGN_KEY,
    WRITE,
    Bools,
    Bytes,
    Ints,
    Lengths,
)
from ..types.column_values import Values
from ..types.forms import USUAL, Forms
from .changed_columns import updates_of
from .decode_column import decode_column, first_refused
from .image_values import key_bytes, key_offsets, locate, unsigned_zeros
from .row_format import FLOATS, row_format
from .twins import refuse_second_forms

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Self

    from ...tables.column import Column
    from ...tables.table_definition import TableDefinition

# Cells of the offset table that decode keeps at a time: 12 bytes each.
_CELLS_MAX = 4 << 20


@dataclass(eq=False)
class RowImages:
    """The row images of one table definition in one span, in log order.

    flags uint8[n]: bit 0 the row existed before, bit 1 it exists after. INSERT 2, DELETE 1 (before
    image), UPDATE 3 (after image); an UPDATE that changes the key, or of a table without key, is
    two entries, 1 then 2; where the key changes, and in what is walked as pairs or split, the
    second has bit 3 (MOVED). transaction int32[n]: index into ``walk``'s starts.
    """

    definition: TableDefinition
    flags: Bytes
    transaction: Lengths
    changes: int
    zero_dates: int = field(default=0, init=False)  # dates that became NULL so far
    text_errors: int = field(default=0, init=False)  # texts in which characters became U+FFFD
    _buffer: Bytes = field(repr=False, kw_only=True)
    _image: Ints = field(repr=False, kw_only=True)
    _key: Ints = field(repr=False, kw_only=True)
    _wire: Lengths = field(repr=False, kw_only=True)
    _events: Ints = field(repr=False, kw_only=True)
    _began: Ints = field(repr=False, kw_only=True)

    def key(self) -> pa.Array:
        """Wire bytes of each entry's key columns (whole image, null bits first, without a key).

        Equal iff the same key: -0.0 is 0.0 in a key. BinaryArray[n], LargeBinaryArray above 2 GiB.
        Of images walked as pairs all are empty: nobody needs them.
        """
        offsets = key_offsets(self._key)
        out = np.empty(int(offsets[-1]), np.uint8)
        key_bytes(self._buffer, self._key, out)
        for run, (column, _) in enumerate(self._runs):
            if self.definition.columns[column].type in FLOATS and len(out):
                unsigned_zeros(self._key, run, offsets, out)
        large = offsets[-1] > np.iinfo(np.int32).max
        kind = pa.LargeBinaryArray if large else pa.BinaryArray
        places = offsets if large else offsets.astype(np.int32)
        return kind.from_buffers(
            pa.large_binary() if large else pa.binary(),
            len(self.flags),
            [None, pa.py_buffer(places), pa.py_buffer(out)],
        )

    @property
    def _runs(self) -> Ints:
        """First column of each range of ``_key``, and the one behind its last."""
        return row_format(self.definition).bounds.reshape(-1, 2)

    def presence(self, entries: Ints) -> tuple[pa.Array, pa.Array]:
        """What ``PartialImages.held`` gives for images that are whole: NULL both."""
        nothing = pa.nulls(len(entries), pa.binary())
        return nothing, nothing

    def rows_query(self, entries: Ints) -> pa.Array:
        """StringArray: text of the statement that made each change, from its ROWS_QUERY event; NULL
        unless the server logged it (binlog_rows_query_log_events)."""
        owner = self._event_of(self._image[entries])
        begin, place = np.unique(self._events[owner, QUERY], return_index=True)
        end = self._events[owner[place], QUERY_END]
        texts = [
            None if a < 0 else self._buffer[a:b].tobytes().decode("utf-8", "replace")
            for a, b in zip(begin.tolist(), end.tolist(), strict=True)
        ]
        index = np.searchsorted(begin, self._events[owner, QUERY])
        return pa.array(texts, pa.string()).take(pa.array(index))

    def chosen(self, entries: Ints, flags: Bytes, changes: int) -> Self:
        """Some of the entries, ascending, with other flags, as ``changes`` row changes."""
        return replace(
            self, flags=flags, transaction=self.transaction[entries], changes=changes,
            _image=self._image[entries], _key=self._key[entries],
        )  # fmt: skip

    def left_to_the_engine(self) -> Ints:
        """The UPDATE and DELETE events [k, 8] whose foreign keys the source's storage engine has
        looked after: it logs nothing of what it changed elsewhere."""
        logged = self._events[:, FLAGS] & (NO_FOREIGN_KEY_CHECKS | USE_SQL_FOREIGN_KEY) != 0
        unlogged: Ints = self._events[~logged & (self._events[:, KIND] != WRITE)]
        return unlogged

    @property
    def transactions(self) -> Ints:
        """Which transactions have events of the table, ascending: also of one that is left out."""
        return np.unique(self._events[:, TRANSACTION])

    def cascades(self) -> Bools:
        """Which entries [n] are of events whose foreign keys the source's storage engine has looked
        after, unlogged."""
        flags = self._events[self._event_of(self._image), FLAGS]
        unlogged: Bools = flags & (NO_FOREIGN_KEY_CHECKS | USE_SQL_FOREIGN_KEY) == 0
        return unlogged

    @property
    def places(self) -> Ints:
        """Where each entry's image begins: within one walk ascending in the order of the log, over
        all its tables. The images of one walk ``are_beside`` each other."""
        return self._image

    def order(self, entries: Ints) -> Ints:
        """Numbers of the entries' images, ascending in their transaction over all its tables. What
        they are is not said: some bytes of the log lie between two of them."""
        began: Ints = self._began[self.transaction[entries]]
        return self._image[entries] - began

    def shifted(self, size: int) -> Self:
        """The same, of a transaction of which ``size`` bytes were walked before."""
        return replace(self, _began=self._began - size)

    def are_beside(self, other: RowImages) -> bool:
        """Whether both are of one walk."""
        return self._buffer is other._buffer

    def _event_of(self, image: Ints) -> Ints:
        return np.searchsorted(self._events[:, BEGIN], image, "right") - 1

    def first_update(self, events: Ints, columns: list[int]) -> int | None:
        """Index of the first of ``events`` that changes one of ``columns``; None: none does."""
        return updates_of(self.definition, self._buffer, events, self._wire, columns)

    def decode(self, entries: Ints, forms: Forms = USUAL) -> pa.RecordBatch:
        """The rows of ``entries`` (indexes, any order), schema ``definition.arrow_schema()``.

        forms: by ``zero_dates`` a date that no calendar has is a DecodeError, or NULL, counted in
        ``self.zero_dates`` (all fields nullable then); by ``text_errors`` bytes without a character
        are one, or U+FFFD, counted in ``self.text_errors``. In key columns both are errors.
        """
        schema = self.definition.arrow_schema()
        if forms.zero_dates == "null":
            schema = pa.schema([f.with_nullable(True) for f in schema])
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
        """The columns of ``decode``, or ``only`` these (ascending); all are NULL where an entry is
        -1. ``keys``: a key must be in the form that tells it from all others in the target too
        (``twins``)."""
        image = np.where(entries < 0, -1, self._image[entries])
        cursor = image + (len(self._wire) + 7) // 8
        count = len(self.definition.columns) if only is None else max(only, default=-1) + 1
        step = max(1, _CELLS_MAX // max(1, len(image)))
        arrays = []
        for first in range(0, count, step):
            last = min(first + step, count)
            offset = np.empty((last - first) * len(image), np.int64)
            length = np.empty((last - first) * len(image), np.int32)
            locate(self._buffer, image, cursor, self._wire, first, last, offset, length)
            for i in range(first, last):
                if only is not None and i not in only:
                    continue
                at = slice((i - first) * len(image), (i - first + 1) * len(image))
                values = Values(self._buffer, offset[at], length[at])
                arrays.append(self._column(i, values, forms, keys=keys))
        return arrays

    def _column(self, i: int, values: Values, forms: Forms, *, keys: bool = False) -> pa.Array:
        column = self.definition.columns[i]
        is_key = i in self.definition.primary_key
        try:
            # Two keys that become NULL would become one.
            policy = USUAL if is_key else forms
            if keys and is_key:
                refuse_second_forms(column, values)
            array, replaced = _decoded(column, policy, values)
        except DecodeError as error:
            error.message = f"column {column.name}: {error.message}"
            if is_key and error.hint == TEXT_ERRORS_HINT:
                error.hint = LOGGED_KEY_TEXT_HINT
            if error.row is None:
                error.of_row(first_refused(partial(_decoded, column, policy), values))
            raise error.at(table=self.definition.name) from error
        if column.type in DATE_TYPES:
            self.zero_dates += replaced
        else:
            self.text_errors += replaced
        return array


def _decoded(column: Column, forms: Forms, values: Values) -> tuple[pa.Array, int]:
    """Return the array of the column's Arrow type, and how many values were replaced. Raise
    DecodeError."""
    if column.type != ColumnType.JSON:
        return decode_column(column, values, forms)
    convert = to_variant if column.form == Form.VARIANT else to_text
    return convert(values.buffer, values.offset, values.length.astype(np.int64)), 0
