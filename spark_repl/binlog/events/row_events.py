"""Kernel that finds the table maps and row events of whole transactions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..event_types import (
    CRC_LENGTH,
    HEADER_LENGTH,
    MARIADB_FIRST,
    MARIADB_LAST,
    STATEMENT_TYPES,
    EventFlag,
    EventType,
)
from ..kernels.crc import event_crc_ok
from ..kernels.jit import (
    BAD_CRC,
    BEGIN,
    BODY_CUT,
    COMPRESSED,
    DONE,
    END,
    FLAGS,
    FULL,
    HEADER_CUT,
    INCIDENT,
    KIND,
    MAP,
    MARIADB,
    NO_MAP,
    OUTSIDE,
    PARTIAL_UPDATE,
    QUERY,
    QUERY_END,
    STATEMENT,
    STATEMENT_END,
    TRANSACTION,
    UNKNOWN_EVENT,
    Bytes,
    Int,
    Ints,
    jit,
    same,
    u8,
    u16,
    u32,
    u64,
)
from .grammar import is_rows

_DUMMY_TABLE = 0xFFFFFF
_TABLE_ID = 0xFFFFFFFFFFFF
# Bytes of a small row's event, with its share of the other events: the first guess at the number of
# events.
_EVENT_BYTES = 256
_IGNORABLE = int(EventFlag.IGNORABLE)  # numba does not support IntFlag


class EventRoom(NamedTuple):
    """Arrays for the maps and events that the kernel finds, and for the table ids of a
    transaction."""

    maps: Ints
    """int64[m, 2]: begin and end of each distinct table map, without its id and flags"""
    slots: Ints
    """int64[2**k, 4]: table id, transaction that recorded it, index of its map, its flags. A slot
    of an earlier transaction is free. Its map is a good guess, because an id seldom changes its
    map"""
    events: Ints
    """int64[e, 8], in the log's order: columns BEGIN (the column count) to FLAGS (QUERY is -1
    without a ROWS_QUERY)"""


@jit
def slot_of(slots: Ints, transaction: Int, table: Int) -> Int:
    """Return the slot of a table id in this transaction: its own slot, otherwise a free one, or -1
    if all are in use."""
    mask = slots.shape[0] - 1
    i: Int = table & mask
    for _ in range(slots.shape[0]):
        if slots[i, 1] != transaction or slots[i, 0] == table:
            return i
        i = (i + 1) & mask
    return -1


@jit
def find_map(buffer: Bytes, maps: Ints, count: Int, begin: Int, end: Int, guess: Int) -> Int:
    """Return the index of the table map with these bytes, or ``count``."""
    length = end - begin
    if (
        0 <= guess < count
        and maps[guess, 1] - maps[guess, 0] == length
        and same(buffer, maps[guess, 0], begin, length)
    ):
        return guess
    for i in range(count):
        if maps[i, 1] - maps[i, 0] == length and same(buffer, maps[i, 0], begin, length):
            return i
    return count


@jit
def known_event(kind: Int, flags: Int) -> Int:
    """Return DONE for an event that may occur in a transaction with rows, otherwise an error
    code."""
    if kind == EventType.TRANSACTION_PAYLOAD:
        return COMPRESSED
    if kind == EventType.INCIDENT:
        return INCIDENT
    if kind in STATEMENT_TYPES:
        return STATEMENT
    if MARIADB_FIRST <= kind <= MARIADB_LAST:
        return MARIADB
    if (kind == 0 or kind > EventType.LARGE_TRANSACTION_HEADER) and not flags & _IGNORABLE:
        return UNKNOWN_EVENT
    return DONE


@jit
def kind_of(kind: Int) -> Int:
    """Return WRITE, UPDATE, DELETE or PARTIAL_UPDATE for a rows event's type."""
    if kind == EventType.PARTIAL_UPDATE_ROWS:
        return PARTIAL_UPDATE
    if kind >= EventType.WRITE_ROWS:
        return kind - EventType.WRITE_ROWS
    return kind - EventType.WRITE_ROWS_V1


@jit
def rows_begin(buffer: Bytes, body: Int, end: Int, kind: Int) -> Int:
    """Return the offset of the column count of a rows event, or -1 if the event ends before it."""
    at = body + 8
    if kind >= EventType.WRITE_ROWS:
        if at + 2 > end:
            return -1
        extra = u16(buffer, at)
        if extra < 2:
            return -1
        at += extra
    return at if at < end else -1


@jit
def note_map(
    buffer: Bytes, body: Int, end: Int, transaction: Int, room: EventRoom, count: Int
) -> Int:
    """Record the table map at ``body``. Return the new number of maps, or -1 if the arrays are
    full."""
    maps, slots = room.maps, room.slots
    table = u64(buffer, body) & _TABLE_ID
    slot = slot_of(slots, transaction, table)
    if slot < 0:
        return -1
    index = find_map(buffer, maps, count, body + 8, end, slots[slot, 2])
    if index == maps.shape[0]:
        return -1
    if index == count:
        maps[index, 0], maps[index, 1] = body + 8, end
        count += 1
    slots[slot, 0], slots[slot, 1], slots[slot, 2] = table, transaction, index
    slots[slot, 3] = u16(buffer, body + 6)
    return count


@jit
def note_rows(
    buffer: Bytes, body: Int, end: Int, kind: Int, transaction: Int, room: EventRoom, count: Int
) -> Int:
    """Record the rows event at ``body``. Return the new number of events, or a negated error
    code."""
    slots, events = room.slots, room.events
    if body + 8 > end:
        return -BODY_CUT
    table = u64(buffer, body) & _TABLE_ID
    if table == _DUMMY_TABLE:
        return count
    slot = slot_of(slots, transaction, table)
    if slot < 0 or slots[slot, 1] != transaction:
        return -NO_MAP
    begin = rows_begin(buffer, body, end, kind)
    if begin < 0:
        return -BODY_CUT
    if count == events.shape[0]:
        return -FULL
    events[count, BEGIN], events[count, END], events[count, KIND] = begin, end, kind_of(kind)
    events[count, MAP], events[count, TRANSACTION] = slots[slot, 2], transaction
    events[count, FLAGS] = slots[slot, 3] << 16 | u16(buffer, body + 6)
    return count + 1


@jit
def whole_event(buffer: Bytes, at: Int, stop: Int, checksum: bool) -> Int:
    """Return the bytes of the event at ``at``, or a negated error code if it is truncated or
    damaged."""
    least = HEADER_LENGTH + CRC_LENGTH if checksum else HEADER_LENGTH
    length = u32(buffer, at + 9) if at + HEADER_LENGTH <= stop else 0
    if length < least or at + length > stop:
        return -BAD_CRC if checksum else -HEADER_CUT
    if checksum and not event_crc_ok(buffer, at, at + length):
        return -BAD_CRC
    return length


@jit
def scan_events(
    buffer: Bytes, starts: Ints, ends: Ints, checksum: bool, state: Ints, room: EventRoom
) -> Int:
    """Record the table maps and row events of whole transactions in ``room``. Return DONE or an
    error code.

    ``state`` int64[4]: transaction, offset (of the error), number of maps, number of events so far.
    After FULL (any array is full), call it again with larger arrays and new ``slots``. It then
    repeats that transaction from its beginning.
    """
    for transaction in range(state[0], starts.size):
        at, stop = starts[transaction], ends[transaction]
        state[0], state[1] = transaction, at
        if at < 0 or stop < at or stop > buffer.size:
            return OUTSIDE
        code = scan_transaction(buffer, stop, checksum, state, room)
        if code != DONE:
            return code
    return DONE


@jit
def scan_transaction(buffer: Bytes, stop: Int, checksum: bool, state: Ints, room: EventRoom) -> Int:
    """Do for one transaction what ``scan_events`` does for all. Count its maps and events in
    ``state`` only when its end is reached."""
    tail = CRC_LENGTH if checksum else 0
    transaction, at, map_count, count = state[0], state[1], state[2], state[3]
    query: Int = np.int64(-1)
    query_end: Int = np.int64(-1)
    while at < stop:
        state[1] = at
        length = whole_event(buffer, at, stop, checksum)
        if length < 0:
            return -length
        kind = u8(buffer, at + 4)
        body, end = at + HEADER_LENGTH, at + length - tail
        if kind == EventType.TABLE_MAP:
            if body + 8 > end:
                return BODY_CUT
            map_count = note_map(buffer, body, end, transaction, room, map_count)
            if map_count < 0:
                return FULL
        elif is_rows(kind):
            new_count = note_rows(buffer, body, end, kind, transaction, room, count)
            if new_count < 0:
                return -new_count
            if new_count > count:
                room.events[count, QUERY], room.events[count, QUERY_END] = query, query_end
                count = new_count
            if u8(buffer, body + 6) & STATEMENT_END:
                query = np.int64(-1)
        elif kind == EventType.ROWS_QUERY and body < end:
            query, query_end = body + 1, end  # skip the length, truncated to a byte
        else:
            code = known_event(kind, u16(buffer, at + 17))
            if code != DONE:
                return code
        at += length
    state[2], state[3] = map_count, count
    return DONE


def find_events(
    buffer: Bytes, starts: Ints, ends: Ints, checksum: bool
) -> tuple[Int, Int, Int, Ints, Ints]:
    """Find the table maps and row events of whole transactions. Return (code, transaction, offset,
    maps, events); maps and events are as in ``EventRoom``. If the code isn't DONE, transaction and
    offset show where the error is."""
    state = np.zeros(4, np.int64)
    maps = np.empty((16, 2), np.int64)
    # At least one slot for each table id, so that each id finds its last map at once.
    slot_count = 1 << max(4, min(14, len(starts).bit_length() + 4))
    events = np.empty((64 + buffer.size // _EVENT_BYTES, 8), np.int64)
    while True:
        slots = np.full((slot_count, 4), -1, np.int64)
        code = scan_events(buffer, starts, ends, checksum, state, EventRoom(maps, slots, events))
        if code != FULL:
            transaction, at, map_count, count = state.tolist()
            return code, transaction, at, maps[:map_count], events[:count]
        maps, events = (np.concatenate((a, np.empty_like(a))) for a in (maps, events))
        slot_count *= 2
