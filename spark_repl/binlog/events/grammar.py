"""How the events of a transaction determine its kind: kernels over the raw bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..event_types import EventType
from ..kernels.jit import copy, jit, u64
from .transaction import (
    COMMIT_TIME,
    FLAGS,
    GNO,
    KIND,
    LAST_COMMITTED,
    QUERY_OFFSET,
    SEQUENCE_NUMBER,
    Flag,
    Kind,
)

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
_START_TRANSACTION = np.frombuffer(b") START TRANSACTION", np.uint8)


@jit
def read_uint(buf: np.ndarray, at: int, size: int) -> Any:
    value = np.int64(0)
    for i in range(size):
        value |= np.int64(buf[at + i]) << (8 * i)
    return value


@jit
def is_rows(kind: Any) -> bool:
    """Return whether events of that type hold rows: versions 1 and 2, and PARTIAL_UPDATE_ROWS."""
    return bool(
        EventType.WRITE_ROWS_V1 <= kind <= EventType.DELETE_ROWS_V1
        or EventType.WRITE_ROWS <= kind <= EventType.DELETE_ROWS
        or kind == EventType.PARTIAL_UPDATE_ROWS
    )


@jit
def text_starts(buf: np.ndarray, at: int, end: int, word: np.ndarray) -> bool:
    """Return whether the text begins with ``word``, in any case."""
    if end - at < word.size:
        return False
    for i in range(word.size):
        c = buf[at + i]
        if 97 <= c <= 122:
            c -= 32
        if c != word[i]:
            return False
    return True


@jit
def text_is(buf: np.ndarray, at: int, end: int, word: np.ndarray) -> bool:
    return end - at == word.size and text_starts(buf, at, end, word)


@jit
def text_holds(buf: np.ndarray, at: int, end: int, word: np.ndarray) -> bool:
    """Return whether the text contains ``word``."""
    for i in range(at, end - word.size + 1):
        if buf[i] == word[0] and text_starts(buf, i, end, word):
            return True
    return False


@jit
def _rollback(buf: np.ndarray, at: int, end: int) -> int:
    if not text_starts(buf, at, end, _ROLLBACK_TEXT):
        return _NO_ROLLBACK
    return _ROLLBACK_TO if text_starts(buf, at, end, _ROLLBACK_TO_TEXT) else _ROLLBACK


@jit
def _varint(buf: np.ndarray, at: Any, end: int) -> Any:
    """Return (value modulo 2**64 as int64, offset after it). The offset is -1 if the integer
    reaches beyond ``end``."""
    if at >= end:
        return np.int64(0), np.int64(-1)
    first = np.int64(buf[at])
    extra = 0
    while extra < 8 and first >> extra & 1:
        extra += 1
    if at + 1 + extra > end:
        return np.int64(0), np.int64(-1)
    rest = read_uint(buf, at + 1, extra)
    value = rest if extra == 8 else first >> (extra + 1) | rest << (7 - extra)
    return value, np.int64(at + 1 + extra)


@jit
def read_gtid(buf: np.ndarray, at: int, end: int, row: np.ndarray, uuid: np.ndarray) -> bool:
    """Parse a GTID or ANONYMOUS_GTID event into ``row`` and ``uuid``. Return False if it is
    truncated. A 5.6 server's event ends after the number, a 5.7 server's event before the commit
    timestamps."""
    if end - at < 25:
        return False
    copy(buf, at + 1, 16, uuid, 0)
    row[GNO] = u64(buf, at + 17)
    if end - at >= 42 and buf[at + 25] == 2:
        row[LAST_COMMITTED] = u64(buf, at + 26)
        row[SEQUENCE_NUMBER] = u64(buf, at + 34)
        if end - at >= 49:
            micros = read_uint(buf, at + 42, 7) & ~(np.int64(1) << 55)
            if micros:
                row[COMMIT_TIME] = micros
    return True


@jit
def read_tagged_gtid(
    buf: np.ndarray, at: int, end: int, row: np.ndarray, uuid: np.ndarray, tag: np.ndarray
) -> Any:
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


@jit
def is_begin(buf: np.ndarray, at: int, end: int) -> bool:
    return text_is(buf, at, end, _BEGIN)


@jit
def is_xa_start(buf: np.ndarray, at: int, end: int) -> bool:
    return text_starts(buf, at, end, _XA_START)


@jit
def begins_again(buf: np.ndarray, at: int, end: int) -> bool:
    """Return whether the statement begins another transaction or is the second phase of an XA
    transaction. Neither may occur between BEGIN and COMMIT."""
    return (
        text_is(buf, at, end, _BEGIN)
        or text_starts(buf, at, end, _XA_START)
        or text_starts(buf, at, end, _XA_COMMIT)
    )


@jit
def query_text(buf: np.ndarray, pos: int, end: int) -> Any:
    """Return the offset of the statement in the Query event at ``pos``, or -1. The event ends at
    ``end``, without its checksum."""
    if end - pos < 32:
        return np.int64(-1)
    text = pos + 32 + read_uint(buf, pos + 30, 2) + buf[pos + 27] + 1
    return text if text <= end else np.int64(-1)


@jit
def inner_query(buf: np.ndarray, at: int, end: int, pos: int, row: np.ndarray) -> bool:
    """Record a Query inside BEGIN … COMMIT in ``row``. Return whether it ends the transaction."""
    if text_is(buf, at, end, _COMMIT):
        return True
    rollback = _rollback(buf, at, end)
    if rollback == _ROLLBACK or text_starts(buf, at, end, _XA_ROLLBACK):
        # Statements may have changed tables that can't be rolled back, so the kind stays STATEMENT
        # and the applier does not skip it.
        if row[KIND] != Kind.STATEMENT:
            row[KIND] = Kind.ROLLBACK
        return True
    if rollback == _ROLLBACK_TO:
        row[FLAGS] |= Flag.ROLLBACK_TO
        row[KIND] = Kind.STATEMENT
        row[QUERY_OFFSET] = pos
    elif text_starts(buf, at, end, _SAVEPOINT) or text_starts(buf, at, end, _XA_END):
        pass
    elif text_starts(buf, at, end, _CREATE) and text_holds(buf, at, end, _START_TRANSACTION):
        row[KIND] = Kind.DDL_ROWS
        row[QUERY_OFFSET] = pos
    elif row[KIND] != Kind.STATEMENT:
        row[KIND] = Kind.STATEMENT
        row[QUERY_OFFSET] = pos
    return False


@jit
def single_query(buf: np.ndarray, at: int, end: int, pos: int, row: np.ndarray) -> None:
    """Record a statement that is a separate transaction in ``row``."""
    row[QUERY_OFFSET] = pos
    if text_starts(buf, at, end, _XA_COMMIT):
        row[KIND] = Kind.XA_COMMIT
    elif text_starts(buf, at, end, _XA_ROLLBACK):
        row[KIND] = Kind.XA_ROLLBACK
    elif _rollback(buf, at, end) == _ROLLBACK:
        row[KIND] = Kind.ROLLBACK
    else:
        row[KIND] = Kind.QUERY
