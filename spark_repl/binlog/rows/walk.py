"""walk: whole transactions -> RowImages per table -> Arrow batches of the requested rows.

Two passes. ``walk`` finds every row image and its key, and reads no other values. ``decode`` then
converts only the entries that remain after folding.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from ...errors import DecodeError, SparkReplError
from ...position import RelayPosition
from ...tables.column import ColumnType
from ..events.row_events import find_events
from ..events.table_map import parse_table_map
from ..kernels import jit as kernels
from ..types.forms import USUAL
from .images import Entries, Marks, walk_images
from .partial_images import PartialEntries, PartialFormat, walk_partial
from .partial_rows import PartialImages
from .row_format import row_format
from .row_images import RowImages

if TYPE_CHECKING:
    from ...tables.source_table import Declared, SourceTable
    from ..kernels.jit import Bytes, Int, Ints

_E = TypeVar("_E", Entries, PartialEntries)
_COMPLAINTS = {
    kernels.OUTSIDE: "the transaction does not lie inside the buffer",
    kernels.HEADER_CUT: "an event reaches beyond the transaction's end",
    kernels.BAD_CRC: "an event's CRC32 is wrong",
    kernels.BODY_CUT: "an event ends inside its data",
    kernels.NO_MAP: "a row event has no TABLE_MAP before it in its transaction",
    kernels.UNKNOWN_EVENT: "an unknown event without the ignorable flag",
    kernels.COMPRESSED: "a compressed transaction was not decompressed before its rows were read",
    kernels.STATEMENT: "a statement-based event stands among the row events",
    kernels.WIDTH: "a row event has another number of columns than its TABLE_MAP",
    kernels.KEY_ABSENT: "a row image lacks the columns that identify the row",
    kernels.INCIDENT: "an incident occurred on the source: it may have lost events",
    kernels.MARIADB: "an event of MariaDB, whose logs are not supported",
}
_DAMAGED = "the log is damaged here: fetch it again, or check it with mysqlbinlog"
_HINTS = {
    kernels.STATEMENT: "set binlog_format=ROW on the source",
    kernels.KEY_ABSENT: "set binlog_row_image=FULL on the source, or name the key in the INSERT",
    kernels.UNKNOWN_EVENT: "the source may be newer than this version knows",
    kernels.INCIDENT: "copy the tables again, from after this event",
    kernels.MARIADB: "only logs of MySQL and its forks with the same format are read",
}
_NUMBERS = {kernels.INCIDENT: 13119}
_TYPED = (kernels.UNKNOWN_EVENT, kernels.STATEMENT, kernels.MARIADB)


class Applied(Protocol):
    """Changes to the definition of a TABLE_MAP: to the forms of its values, or to the target's
    name."""

    def apply(self, definition: SourceTable) -> SourceTable: ...


def walk(
    buffer: Bytes,
    starts: Ints,
    ends: Ints,
    positions: Ints,
    checksum: bool,
    *,
    definitions: Mapping[str, Declared] | None = None,
    forms: Applied = USUAL,
    pairs: bool | Container[str] = False,
) -> list[RowImages]:
    """Return the row images of the transactions ``buffer[starts[i]:ends[i]]``, one RowImages per
    definition.

    - ``buffer`` uint8[n]: plain events. If ``checksum``, each ends with a 4-byte CRC, which is
      verified.
    - ``positions`` int64: packed RelayPosition of each transaction, for errors only.
    - ``definitions``: by name, for table maps that name no columns (binlog_row_metadata=MINIMAL).
    - ``forms``: changes definitions: forms of values, or names of tables.
    - ``pairs``: every UPDATE is two entries, the second with MOVED set, and entries have no keys.
      For a container of names, only these tables get pairs, and their entries have keys.

    Raise DecodeError for anything that can't be decoded without losing a change.
    """
    data = np.asarray(buffer).view()
    data.flags.writeable = False
    starts, ends = (np.ascontiguousarray(a, np.int64) for a in (starts, ends))
    code, transaction, at, maps, events = find_events(data, starts, ends, checksum)
    transactions = _Transactions(data, starts, positions)
    if code != kernels.DONE:
        raise transactions.error(code, transaction, at)
    # Maps that differ in other ways (a flag, a statistics field) may parse to one definition.
    by_definition: dict[SourceTable, list[int]] = {}
    for i, (begin, end) in enumerate(maps):
        try:
            logged = forms.apply(parse_table_map(bytes(8) + data[begin:end].tobytes(), definitions))
        except SparkReplError as error:
            first = events[np.argmax(events[:, kernels.MAP] == i)] if len(events) else None
            place = None if first is None else positions[first[kernels.TRANSACTION]]
            raise error.at(position=_position(place)) from error
        by_definition.setdefault(logged, []).append(i)
    images = []
    for definition, rows in _by_table(by_definition, events[:, kernels.MAP], len(maps)):
        own_events = events if len(rows) == len(events) else events[rows]
        if not definition.columns:
            images.append(transactions.left_out(definition, own_events))
            continue
        split = not isinstance(pairs, bool) and definition.name in pairs
        images.append(transactions.walk(definition, own_events, pairs=pairs is True, split=split))
    return images


def _by_table(
    definitions: dict[SourceTable, list[int]], maps: Ints, count: int
) -> Iterator[tuple[SourceTable, Ints]]:
    """Yield each definition that has events, with their indexes, ascending. ``maps``: the map of
    each event, a number below ``count``."""
    number = np.empty(count, np.int64)
    for i, indexes in enumerate(definitions.values()):
        number[indexes] = i
    # numpy sorts 16-bit integers by counting, which is faster.
    kind = np.int16 if len(definitions) < 1 << 15 else np.int64
    table = number.astype(kind)[maps]
    order = np.argsort(table, kind="stable")
    edges = np.cumsum(np.bincount(table, minlength=len(definitions))).tolist()
    for definition, low, high in zip(definitions, [0, *edges], edges, strict=False):
        if high > low:
            yield definition, order[low:high]


@dataclass(frozen=True, eq=False)
class _Transactions:
    """The walked transactions: ``data[starts[i]:...]`` is the transaction at ``positions[i]``."""

    data: Bytes
    starts: Ints
    positions: Ints

    def error(self, code: Int, transaction: Int, at: Int) -> DecodeError:
        """Return the error that a kernel reports at ``data[at]``."""
        offset = int(at) - int(self.starts[transaction])
        what = _COMPLAINTS[int(code)]
        if code in _TYPED:
            what += f" (type {self.data[at + 4]})"
        return DecodeError(
            f"{what}, at byte {offset} of the transaction (byte {int(at)} of the buffer)",
            position=_position(self.positions[transaction]),
            hint=_HINTS.get(int(code), _DAMAGED),
            number=_NUMBERS.get(int(code)),
        )

    def left_out(self, definition: SourceTable, events: Ints) -> RowImages:
        """Return the events of a table without columns, which is not applied, without rows."""
        no_rows = np.zeros((0, 2), np.int64)
        flags, transaction = np.zeros(0, np.uint8), np.zeros(0, np.int32)
        return RowImages(
            definition, flags, transaction, 0, _buffer=self.data, _image=no_rows[:, 0],
            _key=no_rows, _wire=transaction, _events=events, _began=self.starts,
        )  # fmt: skip

    def walk(self, definition: SourceTable, events: Ints, *, pairs: bool, split: bool) -> RowImages:
        """Return the row images of the table's events."""
        form = row_format(definition, keys=not pairs)
        places = max(2, len(form.bounds))
        marks = Marks(np.empty(places, np.int64), np.empty(places, np.int64))
        size = 1024 + int((events[:, kernels.END] - events[:, kernels.BEGIN]).sum()) // 96
        room = Entries(
            np.empty(size, np.uint8), np.empty(size, np.int32), np.empty(size, np.int64),
            np.empty((size, 0 if pairs else places), np.int64),
        )  # fmt: skip
        state = np.zeros(4, np.int64)
        kernel = partial(walk_images, self.data, events, form, pairs or split, state, marks)
        code, entries = _grown(kernel, room)
        if code == kernels.PARTIAL_IMAGE:
            return self._walk_partial(definition, events, pairs=pairs or split)
        if code != kernels.DONE:
            raise self._image_error(code, definition, events, state)
        n, changes = int(state[2]), int(state[3])
        return RowImages(
            definition, entries.flags[:n], entries.transaction[:n], changes, _buffer=self.data,
            _image=entries.image[:n], _key=entries.key[:n], _wire=form.wire, _events=events,
            _began=self.starts,
        )  # fmt: skip

    def _walk_partial(self, definition: SourceTable, events: Ints, *, pairs: bool) -> RowImages:
        """Return the row images of events that do not hold all columns."""
        keys = np.array(sorted(definition.primary_key), np.int64)
        documents = sum(column.type == ColumnType.JSON for column in definition.columns)
        form = PartialFormat(row_format(definition).wire, keys, documents, pairs)
        marks = Marks(np.empty(2 * len(keys), np.int64), np.empty(2 * len(keys), np.int64))
        room = PartialEntries(
            np.empty(1024, np.uint8), np.empty(1024, np.int32), np.empty((1024, 5), np.int64),
            np.zeros((1024, max(2, 2 * len(keys))), np.int64),
        )  # fmt: skip
        state = np.zeros(4, np.int64)
        code, entries = _grown(partial(walk_partial, self.data, events, form, state, marks), room)
        if code != kernels.DONE:
            raise self._image_error(code, definition, events, state)
        n, changes = int(state[2]), int(state[3])
        place = entries.place[:n]
        return PartialImages(
            definition, entries.flags[:n], entries.transaction[:n], changes, _buffer=self.data,
            _image=place[:, 0], _key=entries.key[:n], _wire=form.wire, _events=events, _place=place,
            _began=self.starts,
        )  # fmt: skip

    def _image_error(
        self, code: Int, definition: SourceTable, events: Ints, state: Ints
    ) -> SparkReplError:
        begin, owner = events[state[0], kernels.BEGIN], events[state[0], kernels.TRANSACTION]
        return self.error(code, owner, state[1] or begin).at(table=definition.name)


def _grown(kernel: Callable[[_E], Int], entries: _E) -> tuple[Int, _E]:
    """Return (code, entries) of a kernel that continues in larger arrays when its arrays are
    full."""
    while (code := kernel(entries)) == kernels.FULL:
        larger = (np.concatenate([array, np.zeros_like(array)]) for array in entries)
        entries = type(entries)(*larger)
    return code, entries


def _position(packed: int | None) -> RelayPosition | None:
    return None if packed is None else RelayPosition.unpack(int(packed))
