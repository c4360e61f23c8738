"""Finds the transactions in the bytes of one log file by hopping over the event headers.

The grammar is MySQL's Transaction_boundary_parser (mysql.md 1.1). Rows are not read and checksums
are not verified here: whoever decodes a span does that. Only whole transactions come out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numba import njit

from .event import EventType

CHUNK_TRANSACTIONS = 1 << 15


class Kind(IntEnum):
    """What a transaction is, as far as its boundaries tell."""

    ROWS = 0
    """BEGIN … XID or COMMIT with row events (or compressed)"""
    EMPTY = 1
    QUERY = 2
    """one statement: DDL, account management"""
    ROLLBACK = 3
    """ended by ROLLBACK"""
    XA_PREPARE = 4
    XA_ONE_PHASE = 5
    XA_COMMIT = 6
    XA_ROLLBACK = 7
    STATEMENT = 8
    """changes rows by statements, or rolls a part of itself back (ROLLBACK TO)"""
    INCIDENT = 9
    DDL_ROWS = 10
    """CREATE TABLE … START TRANSACTION, then rows"""


class Flag(IntEnum):
    COMPRESSED = 1
    ANONYMOUS = 2
    CHECKSUM = 4
    ROLLBACK_TO = 8
    """holds a ROLLBACK TO SAVEPOINT: the row events before it are not all valid"""


class Stop(IntEnum):
    """Why the scan ended."""

    END = 0
    """at the end of the bytes, between transactions"""
    FULL = 1
    """the arrays are full; goes on at ``resume``"""
    OPEN = 2
    """at the end of the bytes, inside a transaction"""
    CUT = 3
    """the last event runs beyond the end of the bytes"""
    NO_EVENT = 4
    """bytes that are no event header: a length below 19"""
    UNKNOWN_EVENT = 5
    UNEXPECTED_EVENT = 6
    """an event that can't stand here"""
    MALFORMED_EVENT = 7
    """an event too short for what it must hold"""


# Columns of the int64 array.
START, END, ROW_EVENTS, KIND, FLAGS, LAST_COMMITTED, SEQUENCE_NUMBER, COMMIT_TIME, GNO = range(9)
QUERY_OFFSET, PAYLOAD_OFFSET = 9, 10
_COLUMNS = 11
# Entries of the state array.
_POS, _RESUME, _CHECKSUM, _INTERRUPTED = range(4)
_MICROSECONDS = 1_000_000
_NO_ROLLBACK, _ROLLBACK, _ROLLBACK_TO = range(3)

_BEGIN = np.frombuffer(b"BEGIN", np.uint8)
_COMMIT = np.frombuffer(b"COMMIT", np.uint8)
_ROLLBACK_TEXT = np.frombuffer(b"ROLLBACK", np.uint8)
_ROLLBACK_TO_TEXT = np.frombuffer(b"ROLLBACK TO", np.uint8)
_SAVEPOINT = np.frombuffer(b"SAVEPOINT", np.uint8)
_XA_START = np.frombuffer(b"XA START", np.uint8)
_XA_END = np.frombuffer(b"XA END", np.uint8)
_XA_COMMIT = np.frombuffer(b"XA COMMIT", np.uint8)
_XA_ROLLBACK = np.frombuffer(b"XA ROLLBACK", np.uint8)
_CREATE = np.frombuffer(b"CREATE", np.uint8)
_START_TRANSACTION = np.frombuffer(b"START TRANSACTION", np.uint8)


@dataclass(frozen=True)
class Scan:
    """Transactions of one stretch of a file; offsets count from the buffer's beginning."""

    numbers: np.ndarray
    """int64[n, 11], columns START … PAYLOAD_OFFSET (0 where a transaction has none)"""
    uuids: np.ndarray
    """uint8[n, 16]"""
    tags: np.ndarray
    """uint8[n, 32], padded with zeros"""
    stop: Stop
    resume: int
    """behind the last complete transaction (and what follows it outside of any): scan on here"""
    bad: int
    """offset of the event that stopped the scan"""
    checksum: bool
    """whether the events at ``resume`` carry a CRC32"""


def scan(buf: np.ndarray, start: int, checksum: bool) -> Scan:
    """Scans uint8 ``buf`` from ``start``, which lies outside of any transaction."""
    parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    state = np.array([start, start, checksum, 0], np.int64)
    stop = Stop.FULL
    while stop == Stop.FULL:
        numbers = np.zeros((CHUNK_TRANSACTIONS, _COLUMNS), np.int64)
        uuids = np.zeros((CHUNK_TRANSACTIONS, 16), np.uint8)
        tags = np.zeros((CHUNK_TRANSACTIONS, 32), np.uint8)
        n, code = _scan(buf, state, numbers, uuids, tags)
        stop = Stop(code)
        parts.append((numbers[:n], uuids[:n], tags[:n]))
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return Scan(*columns, stop, int(state[_RESUME]), int(state[_POS]), bool(state[_CHECKSUM]))


@njit(cache=True, nogil=True)
def _uint(buf: np.ndarray, at: int, size: int) -> int:
    value = np.int64(0)
    for i in range(size):
        value |= np.int64(buf[at + i]) << (8 * i)
    return value


@njit(cache=True, nogil=True)
def _starts(buf: np.ndarray, at: int, end: int, word: np.ndarray) -> bool:
    """Whether the text begins with ``word``, in any case."""
    if end - at < word.size:
        return False
    for i in range(word.size):
        c = buf[at + i]
        if 97 <= c <= 122:
            c -= 32
        if c != word[i]:
            return False
    return True


@njit(cache=True, nogil=True)
def _is(buf: np.ndarray, at: int, end: int, word: np.ndarray) -> bool:
    return end - at == word.size and _starts(buf, at, end, word)


@njit(cache=True, nogil=True)
def _rollback(buf: np.ndarray, at: int, end: int) -> int:
    if not _starts(buf, at, end, _ROLLBACK_TEXT):
        return _NO_ROLLBACK
    return _ROLLBACK_TO if _starts(buf, at, end, _ROLLBACK_TO_TEXT) else _ROLLBACK


@njit(cache=True, nogil=True)
def _varint(buf: np.ndarray, at: int, end: int) -> tuple[int, int]:
    """(value modulo 2**64 as int64, offset behind it; -1: beyond the end)."""
    if at >= end:
        return np.int64(0), np.int64(-1)
    first = np.int64(buf[at])
    extra = 0
    while extra < 8 and first >> extra & 1:
        extra += 1
    if at + 1 + extra > end:
        return np.int64(0), np.int64(-1)
    rest = _uint(buf, at + 1, extra)
    value = rest if extra == 8 else first >> (extra + 1) | rest << (7 - extra)
    return value, np.int64(at + 1 + extra)


@njit(cache=True, nogil=True)
def _gtid(buf: np.ndarray, at: int, end: int, row: np.ndarray, uuid: np.ndarray) -> bool:
    """Reads GTID and ANONYMOUS_GTID; a 5.6 server stops after the number, a 5.7 one earlier."""
    if end - at < 25:
        return False
    uuid[:] = buf[at + 1 : at + 17]
    row[GNO] = _uint(buf, at + 17, 8)
    if end - at >= 42 and buf[at + 25] == 2:
        row[LAST_COMMITTED] = _uint(buf, at + 26, 8)
        row[SEQUENCE_NUMBER] = _uint(buf, at + 34, 8)
        if end - at >= 49:
            micros = _uint(buf, at + 42, 7) & ~(np.int64(1) << 55)
            if micros:
                row[COMMIT_TIME] = micros
    return True


@njit(cache=True, nogil=True)
def _tagged_gtid(
    buf: np.ndarray, at: int, end: int, row: np.ndarray, uuid: np.ndarray, tag: np.ndarray
) -> bool:
    version, p = _varint(buf, at, end)
    if p < 0 or version != 1:
        return False
    size, p = _varint(buf, p, end)
    if p < 0 or size < 0 or at + size > end:
        return False
    last_required, p = _varint(buf, p, end)
    stop = at + size
    while 0 <= p < stop:
        field, p = _varint(buf, p, stop)
        if p < 0:
            return False
        if field == 1:
            for i in range(16):
                value, p = _varint(buf, p, stop)
                if p < 0:
                    return False
                uuid[i] = value
        elif field == 3:
            length, p = _varint(buf, p, stop)
            if p < 0 or length < 0 or length > 32 or p + length > stop:
                return False
            for i in range(length):
                tag[i] = buf[p + i]
            p += length
        elif 0 <= field <= 11:
            value, p = _varint(buf, p, stop)
            if p < 0:
                return False
            signed = (value >> 1 & np.int64(0x7FFFFFFFFFFFFFFF)) ^ -(value & 1)
            if field == 2:
                row[GNO] = signed
            elif field == 4:
                row[LAST_COMMITTED] = signed
            elif field == 5:
                row[SEQUENCE_NUMBER] = signed
            elif field == 6 and value:
                row[COMMIT_TIME] = value
        else:
            return not 0 <= field <= last_required
    return p >= 0


@njit(cache=True, nogil=True)
def _query_text(buf: np.ndarray, pos: int, end: int) -> int:
    """Offset of the statement of the Query event at ``pos`` (``end`` without checksum), or -1."""
    if end - pos < 32:
        return np.int64(-1)
    text = pos + 32 + _uint(buf, pos + 30, 2) + buf[pos + 27] + 1
    return text if text <= end else np.int64(-1)


@njit(cache=True, nogil=True)
def _inner_query(buf: np.ndarray, at: int, end: int, pos: int, row: np.ndarray) -> bool:
    """A Query inside BEGIN … COMMIT; returns whether it ends the transaction."""
    if _is(buf, at, end, _COMMIT):
        return True
    rollback = _rollback(buf, at, end)
    if rollback == _ROLLBACK or _starts(buf, at, end, _XA_ROLLBACK):
        row[KIND] = Kind.ROLLBACK
        return True
    if rollback == _ROLLBACK_TO:
        row[FLAGS] |= Flag.ROLLBACK_TO
        row[KIND] = Kind.STATEMENT
        row[QUERY_OFFSET] = pos
    elif _starts(buf, at, end, _SAVEPOINT) or _starts(buf, at, end, _XA_END):
        pass
    elif _starts(buf, at, end, _CREATE) and _is(
        buf, max(at, end - _START_TRANSACTION.size), end, _START_TRANSACTION
    ):
        row[KIND] = Kind.DDL_ROWS
        row[QUERY_OFFSET] = pos
    elif row[KIND] != Kind.STATEMENT:
        row[KIND] = Kind.STATEMENT
        row[QUERY_OFFSET] = pos
    return False


@njit(cache=True, nogil=True)
def _single_query(buf: np.ndarray, at: int, end: int, pos: int, row: np.ndarray) -> None:
    """A statement that is a transaction by itself."""
    row[QUERY_OFFSET] = pos
    if _starts(buf, at, end, _XA_COMMIT):
        row[KIND] = Kind.XA_COMMIT
    elif _starts(buf, at, end, _XA_ROLLBACK):
        row[KIND] = Kind.XA_ROLLBACK
    elif _rollback(buf, at, end) == _ROLLBACK:
        row[KIND] = Kind.ROLLBACK
    else:
        row[KIND] = Kind.QUERY


@njit(cache=True, nogil=True)
def _scan(
    buf: np.ndarray, state: np.ndarray, numbers: np.ndarray, uuids: np.ndarray, tags: np.ndarray
) -> tuple[int, int]:
    """(transactions, Stop). ``state`` is read and written: see the names with an underscore."""
    size = buf.size
    pos = state[_RESUME]
    n = 0
    phase = 0  # 0 outside, 1 behind the GTID, 2 behind BEGIN or XA START
    while True:
        state[_POS] = pos
        if phase == 0:
            state[_RESUME] = pos
            if n == numbers.shape[0]:
                return n, Stop.FULL
        if pos == size:
            return n, (Stop.END if phase == 0 else Stop.OPEN)
        if pos + 19 > size:
            return n, Stop.CUT
        kind = buf[pos + 4]
        length = _uint(buf, pos + 9, 4)
        if length < 19:
            return n, Stop.NO_EVENT
        if pos + length > size:
            return n, Stop.CUT
        end = pos + length - 4 * state[_CHECKSUM]
        if end < pos + 19:
            return n, Stop.MALFORMED_EVENT
        done = False
        begins = kind == EventType.GTID or kind == EventType.ANONYMOUS_GTID
        begins = begins or kind == EventType.GTID_TAGGED
        if begins and phase != 0:
            # A receiver that lost its connection gets the transaction again from its beginning.
            if not state[_INTERRUPTED]:
                return n, Stop.UNEXPECTED_EVENT
            phase = 0
        if phase == 0 and (begins or kind == EventType.QUERY or kind == EventType.INCIDENT):
            row = numbers[n]
            row[:] = 0
            uuids[n] = 0
            tags[n] = 0
            row[START] = pos
            row[KIND] = Kind.EMPTY
            row[FLAGS] = Flag.CHECKSUM if state[_CHECKSUM] else 0
            row[COMMIT_TIME] = _uint(buf, pos, 4) * _MICROSECONDS
            state[_INTERRUPTED] = 0
            phase = 1
            if begins:
                if kind == EventType.GTID_TAGGED:
                    ok = _tagged_gtid(buf, pos + 19, end, row, uuids[n], tags[n])
                else:
                    ok = _gtid(buf, pos + 19, end, row, uuids[n])
                if not ok:
                    return n, Stop.MALFORMED_EVENT
            if not begins or kind == EventType.ANONYMOUS_GTID:
                row[FLAGS] |= Flag.ANONYMOUS
        row = numbers[min(n, numbers.shape[0] - 1)]
        if begins:
            pass
        elif 23 <= kind <= 25 or 30 <= kind <= 32 or kind == EventType.PARTIAL_UPDATE_ROWS:
            if phase != 2:
                return n, Stop.UNEXPECTED_EVENT
            row[ROW_EVENTS] += 1
        elif kind == EventType.TABLE_MAP:
            if phase != 2:
                return n, Stop.UNEXPECTED_EVENT
        elif kind == EventType.QUERY:
            at = _query_text(buf, pos, end)
            if at < 0:
                return n, Stop.MALFORMED_EVENT
            if phase == 2:
                done = _inner_query(buf, at, end, pos, row)
            elif _is(buf, at, end, _BEGIN):
                phase = 2
            elif _starts(buf, at, end, _XA_START):
                phase = 2
                row[QUERY_OFFSET] = pos
            else:
                _single_query(buf, at, end, pos, row)
                done = True
        elif kind == EventType.XID:
            if phase != 2:
                return n, Stop.UNEXPECTED_EVENT
            done = True
        elif kind == EventType.XA_PREPARE:
            if phase != 2:
                return n, Stop.UNEXPECTED_EVENT
            if end < pos + 20:
                return n, Stop.MALFORMED_EVENT
            row[KIND] = Kind.XA_ONE_PHASE if buf[pos + 19] else Kind.XA_PREPARE
            done = True
        elif kind == EventType.TRANSACTION_PAYLOAD:
            if phase != 1:
                return n, Stop.UNEXPECTED_EVENT
            row[FLAGS] |= Flag.COMPRESSED
            row[ROW_EVENTS] = -1
            row[PAYLOAD_OFFSET] = pos
            row[KIND] = Kind.ROWS
            done = True
        elif kind == EventType.INCIDENT:
            row[KIND] = Kind.INCIDENT
            row[QUERY_OFFSET] = pos
            done = True
        elif (
            kind == EventType.BEGIN_LOAD_QUERY
            or kind == EventType.APPEND_BLOCK
            or kind == EventType.DELETE_FILE
            or kind == EventType.EXECUTE_LOAD_QUERY
        ):
            if phase == 0:
                return n, Stop.UNEXPECTED_EVENT
            if row[KIND] != Kind.STATEMENT:
                row[KIND] = Kind.STATEMENT
                row[QUERY_OFFSET] = pos
            done = phase == 1 and kind == EventType.EXECUTE_LOAD_QUERY
        elif kind == EventType.FORMAT_DESCRIPTION:
            if length < 19 + 57 + 5:
                return n, Stop.MALFORMED_EVENT
            # Behind the first one only a relay log has more: the source's, or a new connection's.
            state[_CHECKSUM] = buf[pos + length - 5] == 1
            state[_INTERRUPTED] = 1
        elif (kind == EventType.STOP or kind == EventType.ROTATE) and phase != 0:
            # In a relay log these may be the replica's own; the file's end then says the rest.
            if not state[_INTERRUPTED] and not buf[pos + 17] & 0x60:
                return n, Stop.UNEXPECTED_EVENT
        elif not _passes(kind) and not buf[pos + 17] & 0x80:
            return n, Stop.UNKNOWN_EVENT
        if done:
            if row[KIND] == Kind.EMPTY and row[ROW_EVENTS] > 0:
                row[KIND] = Kind.ROWS
            row[END] = pos + length
            n += 1
            phase = 0
        pos += length


@njit(cache=True, nogil=True)
def _passes(kind: int) -> bool:
    """Events without a part in the grammar."""
    return (
        kind == EventType.STOP
        or kind == EventType.ROTATE
        or kind == EventType.INTVAR
        or kind == EventType.RAND
        or kind == EventType.USER_VAR
        or 27 <= kind <= 29
        or 35 <= kind <= 37
        or kind == EventType.HEARTBEAT_V2
    )
