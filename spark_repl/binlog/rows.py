"""walk: whole transactions -> RowImages per table -> Arrow batches of the rows asked for.

Two passes: ``walk`` finds every row image and its key, without looking at other values;
``decode`` turns only the entries that survived folding into columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ..errors import DecodeError
from ..position import RelayPosition
from . import kernels
from .columns import decode_column
from .definition import ColumnType, TableDefinition
from .images import key_bytes, key_offsets, locate, walk_images
from .kernels import Bytes, Int, Ints, Lengths
from .row_events import scan_events
from .table_map import parse_table_map
from .values import Values

_T = ColumnType
_FIXED = {
    _T.TINY: 1,
    _T.SHORT: 2,
    _T.INT24: 3,
    _T.LONG: 4,
    _T.LONGLONG: 8,
    _T.FLOAT: 4,
    _T.DOUBLE: 8,
    _T.YEAR: 1,
    _T.DATE: 3,
    _T.NULL: 0,
    _T.NEWDATE: 3,
    _T.TIMESTAMP_OLD: 4,
    _T.TIME_OLD: 3,
    _T.DATETIME_OLD: 8,
}
_FRACTIONAL = {_T.TIME: 3, _T.DATETIME: 5, _T.TIMESTAMP: 4}
_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
# Cells of the offset table that decode keeps at a time: 12 bytes each.
_CELLS_MAX = 4 << 20

_COMPLAINTS = {
    kernels.OUTSIDE: "the transaction does not lie inside the buffer",
    kernels.HEADER_CUT: "an event reaches beyond the transaction's end",
    kernels.BAD_CRC: "an event's CRC32 is wrong",
    kernels.BODY_CUT: "an event ends inside its data",
    kernels.NO_MAP: "a row event has no TABLE_MAP before it in its transaction",
    kernels.UNKNOWN_EVENT: "an unknown event without the ignorable flag",
    kernels.PARTIAL_JSON: "PARTIAL_UPDATE_ROWS events are not supported",
    kernels.COMPRESSED: "a compressed transaction was not decompressed before its rows were read",
    kernels.STATEMENT: "a statement-based or incident event stands among the row events",
    kernels.PARTIAL_IMAGE: "row image MINIMAL/NOBLOB: a row event does not hold all columns",
    kernels.WIDTH: "a row event has another number of columns than its TABLE_MAP",
}
_DAMAGED = "the log is damaged here: fetch it again, or check it with mysqlbinlog"
_HINTS = {
    kernels.PARTIAL_JSON: "set binlog_row_value_options='' on the source",
    kernels.STATEMENT: "set binlog_format=ROW on the source",
    kernels.PARTIAL_IMAGE: "set binlog_row_image=FULL on the source",
    kernels.UNKNOWN_EVENT: "the source may be newer than this version knows",
}


@dataclass(eq=False)
class RowImages:
    """The row images of one table definition in one span, in log order.

    flags uint8[n]: bit 0 the row existed before, bit 1 it exists after. INSERT 2, DELETE 1 (before
    image), UPDATE 3 (after image); an UPDATE that changes the key, or of a table without key, is
    two entries, 1 then 2. transaction int32[n]: index into ``walk``'s starts.
    """

    definition: TableDefinition
    flags: Bytes
    transaction: Lengths
    changes: int
    zero_dates: int = field(default=0, init=False)  # dates that decode("null") made NULL so far
    _buffer: Bytes = field(repr=False, kw_only=True)
    _image: Ints = field(repr=False, kw_only=True)
    _key: Ints = field(repr=False, kw_only=True)
    _wire: Lengths = field(repr=False, kw_only=True)

    def key(self) -> pa.Array:
        """Wire bytes of each entry's key columns (whole image, null bits first, without a key).

        Equal iff the same key. BinaryArray[n], LargeBinaryArray above 2 GiB.
        """
        offsets = key_offsets(self._key)
        out = np.empty(int(offsets[-1]), np.uint8)
        key_bytes(self._buffer, self._key, out)
        large = offsets[-1] > np.iinfo(np.int32).max
        kind = pa.LargeBinaryArray if large else pa.BinaryArray
        places = offsets if large else offsets.astype(np.int32)
        return kind.from_buffers(
            pa.large_binary() if large else pa.binary(),
            len(self.flags),
            [None, pa.py_buffer(places), pa.py_buffer(out)],
        )

    def decode(self, entries: Ints, zero_dates: str = "error") -> pa.RecordBatch:
        """The rows of ``entries`` (indexes, any order), schema ``definition.arrow_schema()``.

        zero_dates: "error" = DecodeError for a date that no calendar has; "null" = NULL, counted in
        ``self.zero_dates`` (all fields nullable then), but for key columns still an error.
        """
        image = np.ascontiguousarray(self._image[entries])
        cursor = image + (len(self._wire) + 7) // 8
        columns = self.definition.columns
        schema = self.definition.arrow_schema()
        step = max(1, _CELLS_MAX // max(1, len(image)))
        arrays = []
        for first in range(0, len(columns), step):
            last = min(first + step, len(columns))
            offset = np.empty((last - first, len(image)), np.int64)
            length = np.empty((last - first, len(image)), np.int32)
            locate(self._buffer, image, cursor, self._wire, first, last, offset, length)
            for i in range(first, last):
                values = Values(self._buffer, offset[i - first], length[i - first])
                arrays.append(self._column(i, values, zero_dates))
        if zero_dates == "null":
            schema = pa.schema([f.with_nullable(True) for f in schema])
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _column(self, i: int, values: Values, zero_dates: str) -> pa.Array:
        column = self.definition.columns[i]
        try:
            # Two keys that become NULL would become one.
            policy = "error" if i in self.definition.primary_key else zero_dates
            array, replaced = decode_column(column, values, policy)
        except DecodeError as error:
            error.message = f"column {column.name}: {error.message}"
            raise error.at(table=self.definition.name) from error
        self.zero_dates += replaced
        return array


def walk(
    buffer: Bytes, starts: Ints, ends: Ints, positions: Ints, checksum: bool
) -> list[RowImages]:
    """Row images of the transactions ``buffer[starts[i]:ends[i]]``, one RowImages per definition.

    buffer uint8[n] of plain events, with a 4-byte CRC behind each iff ``checksum`` (then it is
    verified); positions int64: packed RelayPosition of each transaction, for errors only.
    DecodeError for anything that can't be decoded without losing a change.
    """
    data = np.asarray(buffer).view()
    data.flags.writeable = False
    starts, ends = (np.ascontiguousarray(a, np.int64) for a in (starts, ends))
    code, transaction, at, maps, events = scan_events(data, starts, ends, checksum)
    if code != kernels.DONE:
        raise _error(code, data, starts, positions, transaction, at)
    # Maps that differ in other ways (a flag, a statistics field) may parse to one definition.
    definitions: dict[TableDefinition, list[int]] = {}
    for i, (begin, end) in enumerate(maps):
        try:
            definition = parse_table_map(bytes(8) + data[begin:end].tobytes())
        except DecodeError as error:
            first = events[np.argmax(events[:, kernels.MAP] == i)] if len(events) else None
            place = None if first is None else positions[first[kernels.TRANSACTION]]
            raise error.at(position=_position(place)) from error
        definitions.setdefault(definition, []).append(i)
    order = np.argsort(events[:, kernels.MAP], kind="stable")
    grouped = events[order]
    found = []
    for definition, indexes in definitions.items():
        low = np.searchsorted(grouped[:, kernels.MAP], indexes, "left")
        high = np.searchsorted(grouped[:, kernels.MAP], indexes, "right")
        rows = np.sort(np.concatenate([order[a:b] for a, b in zip(low, high, strict=True)]))
        if len(rows):
            found.append(_walk_table(definition, data, events[rows], starts, positions))
    return found


def _walk_table(
    definition: TableDefinition, data: Bytes, events: Ints, starts: Ints, positions: Ints
) -> RowImages:
    wire = np.array([_wire(c.type, c.meta) for c in definition.columns], np.int32)
    bounds = _key_bounds(definition)
    size = 1024 + int((events[:, kernels.END] - events[:, kernels.BEGIN]).sum()) // 96
    flags = np.empty(size, np.uint8)
    transaction = np.empty(size, np.int32)
    image = np.empty(size, np.int64)
    key = np.empty((size, max(2, len(bounds))), np.int64)
    state = np.zeros(4, np.int64)
    while True:
        code = walk_images(data, events, wire, bounds, state, flags, transaction, image, key)
        if code != kernels.FULL:
            break
        flags, transaction, image, key = (
            np.concatenate([a, np.empty_like(a)]) for a in (flags, transaction, image, key)
        )
    event, at, n, changes = (int(x) for x in state)
    if code != kernels.DONE:
        begin, owner = events[event, kernels.BEGIN], events[event, kernels.TRANSACTION]
        error = _error(code, data, starts, positions, owner, at or begin)
        raise error.at(table=definition.name)
    return RowImages(
        definition,
        flags[:n],
        transaction[:n],
        changes,
        _buffer=data,
        _image=image[:n],
        _key=key[:n],
        _wire=wire,
    )


def _wire(kind: int, meta: int) -> int:
    """Bytes of a value in a row image; minus the bytes of its length prefix if it has one."""
    if kind in _FIXED:
        return _FIXED[ColumnType(kind)]
    if kind in _FRACTIONAL:
        return _FRACTIONAL[ColumnType(kind)] + (meta + 1) // 2
    if kind in (_T.ENUM, _T.SET):
        return meta
    if kind == _T.BIT:
        return (meta + 7) // 8
    if kind == _T.DECIMAL:
        whole, scale = (meta >> 8) - (meta & 255), meta & 255
        digits = _DIGIT_BYTES[whole % 9] + _DIGIT_BYTES[scale % 9]
        return digits + 4 * (whole // 9 + scale // 9)
    if kind in (_T.STRING, _T.VARCHAR, _T.VAR_STRING):
        return -1 if meta <= 255 else -2
    if kind in (_T.BLOB, _T.JSON, _T.GEOMETRY, _T.VECTOR) and 1 <= meta <= 4:
        return -meta
    raise DecodeError(f"a column of wire type {kind} has the metadata {meta}")


def _key_bounds(definition: TableDefinition) -> Ints:
    """Begin and end of each run of neighbouring key columns: int64[2 * runs], ascending."""
    inside = np.zeros(len(definition.columns) + 2, np.int8)
    inside[1 + np.array(definition.primary_key, np.int64)] = 1
    return np.flatnonzero(np.diff(inside)).astype(np.int64)


def _position(packed: int | None) -> RelayPosition | None:
    return None if packed is None else RelayPosition.unpack(int(packed))


def _error(
    code: Int, data: Bytes, starts: Ints, positions: Ints, transaction: Int, at: Int
) -> DecodeError:
    offset = int(at) - int(starts[transaction])
    what = _COMPLAINTS[int(code)]
    if code in (kernels.UNKNOWN_EVENT, kernels.STATEMENT):
        what += f" (type {data[at + 4]})"
    return DecodeError(
        f"{what}, at byte {offset} of the transaction (byte {int(at)} of the buffer)",
        position=_position(positions[transaction]),
        hint=_HINTS.get(int(code), _DAMAGED),
    )
