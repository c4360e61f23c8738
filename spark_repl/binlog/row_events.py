"""Kernel that finds the table maps and row events of whole transactions."""

from __future__ import annotations

import numpy as np

from .crc import verify_events
from .kernels import (
    BAD_CRC,
    BEGIN,
    BODY_CUT,
    COMPRESSED,
    CRC,
    DONE,
    END,
    HEADER,
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
    ROWS_QUERY,
    STATEMENT,
    STATEMENT_END,
    TRANSACTION,
    UNKNOWN_EVENT,
    Bytes,
    Int,
    Ints,
    jit,
    number,
    same,
)

_DUMMY_TABLE = 0xFFFFFF
_IGNORABLE = 0x80


@jit
def doubled(table: Ints) -> Ints:
    bigger = np.empty((2 * table.shape[0], table.shape[1]), np.int64)
    bigger[: table.shape[0]] = table
    return bigger


@jit
def find_map(buffer: Bytes, maps: Ints, count: Int, begin: Int, end: Int, guess: Int) -> Int:
    """Index of the table map with these bytes, or ``count``."""
    length = end - begin
    if (
        guess >= 0
        and maps[guess, 1] - maps[guess, 0] == length
        and same(buffer, maps[guess, 0], begin, length)
    ):
        return guess
    for i in range(count):
        if maps[i, 1] - maps[i, 0] == length and same(buffer, maps[i, 0], begin, length):
            return i
    return count


@jit
def find_id(ids: Ints, count: Int, table: Int) -> Int:
    """Row of ids int64[n, 2] (table id, map) with this id, or ``count``."""
    i = 0
    while i < count and ids[i, 0] != table:
        i += 1
    return i


@jit
def note_id(ids: Ints, count: Int, table: Int, found: Int) -> tuple[Ints, Int]:
    """(ids, their count) with this table id standing for the map ``found``."""
    i = find_id(ids, count, table)
    if i == ids.shape[0]:
        ids = doubled(ids)
    ids[i, 0] = table
    ids[i, 1] = found
    return ids, max(count, i + 1)


@jit
def known_event(kind: Int, flags: Int) -> Int:
    """DONE for an event that may stand in a transaction of rows, else the complaint."""
    if kind == 40:
        return COMPRESSED
    if kind == 26:
        return INCIDENT
    if kind in (6, 7, 8, 9, 10, 11, 12, 17, 18, 20, 21, 22):
        return STATEMENT
    if 160 <= kind <= 171:
        return MARIADB
    if (kind == 0 or kind > 43) and not flags & _IGNORABLE:
        return UNKNOWN_EVENT
    return DONE


@jit
def is_rows(kind: Int) -> bool:
    return bool(30 <= kind <= 32 or 23 <= kind <= 25 or kind == 39)


@jit
def kind_of(kind: Int) -> Int:
    """WRITE, UPDATE, DELETE or PARTIAL_UPDATE of a rows event's type."""
    if kind == 39:
        return PARTIAL_UPDATE
    return kind - 30 if kind >= 30 else kind - 23


@jit
def rows_begin(buffer: Bytes, body: Int, end: Int, kind: Int) -> Int:
    """Where the column count of a rows event stands, or -1 when the event ends before it."""
    at = body + 8
    if kind >= 30:
        if at + 2 > end:
            return -1
        extra = number(buffer, at, 2)
        if extra < 2:
            return -1
        at += extra
    return at if at < end else -1


@jit
def note_rows(
    events: Ints, count: Int, begin: Int, end: Int, kind: Int, query: Int, query_end: Int
) -> Ints:
    if count == events.shape[0]:
        events = doubled(events)
    events[count, BEGIN], events[count, END] = begin, end
    events[count, KIND] = kind_of(kind)
    events[count, QUERY], events[count, QUERY_END] = query, query_end
    return events


@jit
def note_map(
    buffer: Bytes, maps: Ints, count: Int, guesses: Ints, table: Int, begin: Int, end: Int
) -> tuple[Ints, Int, Int]:
    """(maps, their count, index) with the table map whose bytes are [begin, end)."""
    slot = table & 1023
    found = find_map(buffer, maps, count, begin, end, guesses[slot])
    if found == count:
        if count == maps.shape[0]:
            maps = doubled(maps)
        maps[found, 0] = begin
        maps[found, 1] = end
        count += 1
    guesses[slot] = found
    return maps, count, found


@jit
def scan_events(
    buffer: Bytes, starts: Ints, ends: Ints, checksum: bool
) -> tuple[Int, Int, Int, Ints, Ints]:
    """Table maps and row events of whole transactions.

    Returns (code, transaction, offset, maps, events). maps int64[m, 2]: begin and end of the
    bytes behind id and flags of each distinct table map; events int64[e, 7]: columns BEGIN (the
    column count) to QUERY_END (-1: no text). When the code isn't DONE, it was at that offset.
    """
    tail = CRC if checksum else 0
    maps = np.empty((16, 2), np.int64)
    events = np.empty((1024, 7), np.int64)
    guesses = np.full(1024, -1, np.int64)
    ids = np.empty((16, 2), np.int64)
    map_count: Int = 0
    count = 0
    for transaction in range(starts.size):
        at = starts[transaction]
        stop = ends[transaction]
        if at < 0 or stop < at or stop > buffer.size:
            return OUTSIDE, transaction, at, maps[:0], events[:0]
        if checksum:
            bad = verify_events(buffer, at, stop)
            if bad >= 0:
                return BAD_CRC, transaction, bad, maps[:0], events[:0]
        id_count: Int = 0
        query: Int = np.int64(-1)
        query_end: Int = np.int64(-1)
        while at < stop:
            length = number(buffer, at + 9, 4) if at + HEADER <= stop else 0
            if length < HEADER + tail or at + length > stop:
                return HEADER_CUT, transaction, at, maps[:0], events[:0]
            kind = np.int64(buffer[at + 4])
            body, end = at + HEADER, at + length - tail
            if kind == 19:
                if body + 8 > end:
                    return BODY_CUT, transaction, at, maps[:0], events[:0]
                table = number(buffer, body, 6)
                maps, map_count, found = note_map(
                    buffer, maps, map_count, guesses, table, body + 8, end
                )
                ids, id_count = note_id(ids, id_count, table, found)
            elif is_rows(kind):
                if body + 8 > end:
                    return BODY_CUT, transaction, at, maps[:0], events[:0]
                table = number(buffer, body, 6)
                if table != _DUMMY_TABLE:
                    i = find_id(ids, id_count, table)
                    if i == id_count:
                        return NO_MAP, transaction, at, maps[:0], events[:0]
                    begin = rows_begin(buffer, body, end, kind)
                    if begin < 0:
                        return BODY_CUT, transaction, at, maps[:0], events[:0]
                    events = note_rows(events, count, begin, end, kind, query, query_end)
                    events[count, MAP], events[count, TRANSACTION] = ids[i, 1], transaction
                    count += 1
                if buffer[body + 6] & STATEMENT_END:
                    query = np.int64(-1)
            elif kind == ROWS_QUERY and body < end:
                query, query_end = body + 1, end  # behind a length that is cut to a byte
            else:
                code = known_event(kind, number(buffer, at + 17, 2))
                if code != DONE:
                    return code, transaction, at, maps[:0], events[:0]
            at += length
    return DONE, 0, 0, maps[:map_count].copy(), events[:count].copy()
