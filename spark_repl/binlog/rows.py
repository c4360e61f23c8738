"""walk: whole transactions -> RowImages per table -> Arrow batches of the rows asked for.

Two passes: ``walk`` finds every row image and its key, without looking at other values;
``decode`` turns only the entries that survived folding into columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from ..errors import DecodeError, SparkReplError
from ..position import RelayPosition
from . import kernels
from .definition import ColumnType, TableDefinition
from .forms import USUAL, Forms
from .images import walk_images
from .kernels import Bytes, Int, Ints
from .partial_images import walk_partial
from .partial_rows import PartialImages
from .row_events import scan_events
from .row_images import RowImages
from .table_map import parse_table_map

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
    kernels.INCIDENT: "copy the tables anew from behind this event",
    kernels.MARIADB: "only logs of MySQL and its forks with the same format are read",
}
_NUMBERS = {kernels.INCIDENT: 13119}
_TYPED = (kernels.UNKNOWN_EVENT, kernels.STATEMENT, kernels.MARIADB)


def walk(
    buffer: Bytes,
    starts: Ints,
    ends: Ints,
    positions: Ints,
    checksum: bool,
    *,
    known: Mapping[str, TableDefinition] | None = None,
    forms: Forms = USUAL,
    pairs: bool = False,
) -> list[RowImages]:
    """Row images of the transactions ``buffer[starts[i]:ends[i]]``, one RowImages per definition.

    buffer uint8[n] of plain events, with a 4-byte CRC behind each iff ``checksum`` (then it is
    verified); positions int64: packed RelayPosition of each transaction, for errors only. known:
    definitions by name, for table maps that name no columns (binlog_row_metadata=MINIMAL). forms:
    how values are kept. pairs: every UPDATE is two entries, 1 and 2, the second with MOVED set.
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
            logged = parse_table_map(bytes(8) + data[begin:end].tobytes(), known)
        except DecodeError as error:
            first = events[np.argmax(events[:, kernels.MAP] == i)] if len(events) else None
            place = None if first is None else positions[first[kernels.TRANSACTION]]
            raise error.at(position=_position(place)) from error
        definitions.setdefault(forms.apply(logged), []).append(i)
    order = np.argsort(events[:, kernels.MAP], kind="stable")
    grouped = events[order]
    found = []
    for definition, indexes in definitions.items():
        low = np.searchsorted(grouped[:, kernels.MAP], indexes, "left")
        high = np.searchsorted(grouped[:, kernels.MAP], indexes, "right")
        rows = np.sort(np.concatenate([order[a:b] for a, b in zip(low, high, strict=True)]))
        if len(rows):
            found.append(_walk_table(definition, data, events[rows], starts, positions, pairs))
    return found


def _walk_table(
    definition: TableDefinition,
    data: Bytes,
    events: Ints,
    starts: Ints,
    positions: Ints,
    pairs: bool,
) -> RowImages:
    wire = np.array([_wire(c.type, c.meta) for c in definition.columns], np.int32)
    bounds = np.zeros(0, np.int64) if pairs else _key_bounds(definition)
    size = 1024 + int((events[:, kernels.END] - events[:, kernels.BEGIN]).sum()) // 96
    state = np.zeros(4, np.int64)
    code, (flags, transaction, image, key) = _grown(
        partial(walk_images, data, events, wire, bounds, pairs, state),
        np.empty(size, np.uint8),
        np.empty(size, np.int32),
        np.empty(size, np.int64),
        np.empty((size, max(2, len(bounds))), np.int64),
    )
    if code == kernels.PARTIAL_IMAGE:
        return _walk_partial(definition, data, events, starts, positions, pairs)
    if code != kernels.DONE:
        raise _image_error(code, definition, data, events, starts, positions, state)
    n, changes = int(state[2]), int(state[3])
    return RowImages(
        definition,
        flags[:n],
        transaction[:n],
        changes,
        _buffer=data,
        _image=image[:n],
        _key=key[:n],
        _wire=wire,
        _events=events,
    )


def _walk_partial(
    definition: TableDefinition,
    data: Bytes,
    events: Ints,
    starts: Ints,
    positions: Ints,
    pairs: bool,
) -> RowImages:
    """As _walk_table, when an event does not hold all columns."""
    wire = np.array([_wire(c.type, c.meta) for c in definition.columns], np.int32)
    keys = np.array(sorted(definition.primary_key), np.int64)
    documents = sum(column.type == _T.JSON for column in definition.columns)
    state = np.zeros(4, np.int64)
    code, (flags, transaction, place, key) = _grown(
        partial(walk_partial, data, events, wire, keys, documents, pairs, state),
        np.empty(1024, np.uint8),
        np.empty(1024, np.int32),
        np.empty((1024, 5), np.int64),
        np.zeros((1024, max(2, 2 * len(keys))), np.int64),
    )
    if code != kernels.DONE:
        raise _image_error(code, definition, data, events, starts, positions, state)
    n, changes = int(state[2]), int(state[3])
    return PartialImages(
        definition,
        flags[:n],
        transaction[:n],
        changes,
        _buffer=data,
        _image=place[:n, 0],
        _key=key[:n],
        _wire=wire,
        _events=events,
        _place=place[:n],
    )


def _grown(kernel: Callable[..., Int], *arrays: Any) -> tuple[Int, tuple[Any, ...]]:
    """(code, arrays) of a kernel that goes on in larger arrays when they are full."""
    while (code := kernel(*arrays)) == kernels.FULL:
        arrays = tuple(np.concatenate([array, np.zeros_like(array)]) for array in arrays)
    return code, arrays


def _image_error(
    code: Int,
    definition: TableDefinition,
    data: Bytes,
    events: Ints,
    starts: Ints,
    positions: Ints,
    state: Ints,
) -> SparkReplError:
    begin, owner = events[state[0], kernels.BEGIN], events[state[0], kernels.TRANSACTION]
    error = _error(code, data, starts, positions, owner, state[1] or begin)
    return error.at(table=definition.name)


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
    if code in _TYPED:
        what += f" (type {data[at + 4]})"
    return DecodeError(
        f"{what}, at byte {offset} of the transaction (byte {int(at)} of the buffer)",
        position=_position(positions[transaction]),
        hint=_HINTS.get(int(code), _DAMAGED),
        number=_NUMBERS.get(int(code)),
    )
