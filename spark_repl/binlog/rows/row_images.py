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
from .equal_values import refuse_second_forms
from .images import key_bytes, key_offsets, locate, unsigned_zeros
from .row_format import FLOATS, row_format

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Self

    from ...tables.column import Column
    from ...tables.source_table import SourceTable

# Maximum number of cells of the offset table in one decoding step: 12 bytes each.
_CELLS_MAX = 4 << 20


@dataclass(eq=False)
class RowImages:
    """The row images of one table definition in one span, in log order.

    ``flags`` uint8[n]: bit 0 = the row existed before, bit 1 = it exists after.

    - INSERT: 2. DELETE: 1 (before image). UPDATE: 3 (after image).
    - An UPDATE that changes the key, or of a table without key, is two entries, 1 then 2.
    - The second entry also has bit 3 (MOVED) if the key changes, or if the images are walked as
      pairs or split.

    ``transaction`` int32[n]: index into ``walk``'s starts.
    """

    definition: SourceTable
    flags: Bytes
    transaction: Lengths
    changes: int
    zero_dates: int = field(default=0, init=False)  # dates replaced by NULL so far
    text_errors: int = field(default=0, init=False)  # texts with U+FFFD for characters
    _buffer: Bytes = field(repr=False, kw_only=True)
    _image: Ints = field(repr=False, kw_only=True)
    _key: Ints = field(repr=False, kw_only=True)
    _wire: Lengths = field(repr=False, kw_only=True)
    _events: Ints = field(repr=False, kw_only=True)
    _began: Ints = field(repr=False, kw_only=True)

    def key(self) -> pa.Array:
        """Return the bytes of each entry's key columns in the log. For a table without a key,
        return the whole image, starting with its null bits.

        Two keys are equal exactly if their bytes are equal, because -0.0 in a key is replaced by
        0.0. The result is BinaryArray[n], or LargeBinaryArray above 2 GiB. Keys of images that were
        walked as pairs are empty.
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
        """First column of each range of ``_key``, and the column after its last one."""
        return row_format(self.definition).bounds.reshape(-1, 2)

    def presence(self, entries: Ints) -> tuple[pa.Array, pa.Array]:
        """Return what ``PartialImages.presence`` returns. Both arrays are NULL, because these
        images are whole."""
        nothing = pa.nulls(len(entries), pa.binary())
        return nothing, nothing

    def rows_query(self, entries: Ints) -> pa.Array:
        """Return a StringArray: the text of the statement of each change, from its ROWS_QUERY
        event. It is NULL unless the server logged it (binlog_rows_query_log_events)."""
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
        """Return some of the entries, ascending, with other flags. ``changes``: their number of row
        changes."""
        return replace(
            self, flags=flags, transaction=self.transaction[entries], changes=changes,
            _image=self._image[entries], _key=self._key[entries],
        )  # fmt: skip

    def left_to_the_engine(self) -> Ints:
        """Return the UPDATE and DELETE events [k, 8] whose foreign keys the source's storage engine
        enforced. The engine does not log its changes in other tables."""
        logged = self._events[:, FLAGS] & (NO_FOREIGN_KEY_CHECKS | USE_SQL_FOREIGN_KEY) != 0
        unlogged: Ints = self._events[~logged & (self._events[:, KIND] != WRITE)]
        return unlogged

    @property
    def transactions(self) -> Ints:
        """Ascending indexes of the transactions that have events of the table, also if the table is
        left out."""
        return np.unique(self._events[:, TRANSACTION])

    def cascades(self) -> Bools:
        """Return bool[n]: whether the source's storage engine enforced the foreign keys of the
        entry's event, without logging its changes."""
        flags = self._events[self._event_of(self._image), FLAGS]
        unlogged: Bools = flags & (NO_FOREIGN_KEY_CHECKS | USE_SQL_FOREIGN_KEY) == 0
        return unlogged

    @property
    def places(self) -> Ints:
        """Offset of each entry's image. Within one walk the offsets ascend in the log's order, over
        all tables. ``are_beside`` shows whether two RowImages are of one walk."""
        return self._image

    def order(self, entries: Ints) -> Ints:
        """Return numbers that sort the entries' images within their transaction, over all its
        tables. Only their order is defined. There are gaps between the numbers."""
        began: Ints = self._began[self.transaction[entries]]
        return self._image[entries] - began

    def shifted(self, size: int) -> Self:
        """Return these images, moved by ``size`` bytes of their transaction that were walked
        before."""
        return replace(self, _began=self._began - size)

    def are_beside(self, other: RowImages) -> bool:
        """Return whether both come from one walk."""
        return self._buffer is other._buffer

    def _event_of(self, image: Ints) -> Ints:
        return np.searchsorted(self._events[:, BEGIN], image, "right") - 1

    def first_update(self, events: Ints, columns: list[int]) -> int | None:
        """Return the index of the first of ``events`` that changes one of ``columns``, or None."""
        return updates_of(self.definition, self._buffer, events, self._wire, columns)

    def decode(self, entries: Ints, forms: Forms = USUAL) -> pa.RecordBatch:
        """Return the rows of
        ``entries`` (indexes, any order), with the schema ``definition.arrow_schema()``.

        ``forms.zero_dates`` decides about zero and impossible dates: raise DecodeError, or return
        NULL and count the date in
        ``self.zero_dates``. In the latter case all fields are nullable. ``forms.text_errors``
        decides about bytes that are no character: raise DecodeError, or return U+FFFD and count the
        text in ``self.text_errors``. In key columns both raise DecodeError.
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
        """Return the columns of ``decode``, or only the columns ``only`` (ascending). All are NULL
        if an entry is -1. With ``keys``, raise DecodeError for a key whose form the target can't
        distinguish from another key (``equal_values``)."""
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
            # Two keys that become NULL would be equal.
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
    """Return the array of the column's Arrow type, and the number of values that were replaced.
    Raise DecodeError."""
    if column.type != ColumnType.JSON:
        return decode_column(column, values, forms)
    convert = to_variant if column.form == Form.VARIANT else to_text
    return convert(values.buffer, values.offset, values.length.astype(np.int64)), 0
