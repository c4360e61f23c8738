"""A transaction larger than memory, as windows of whole events.

Each window can be walked like a transaction of its own. It begins with the last TABLE_MAP of every
table id of the windows before it, and with the ROWS_QUERY of an unfinished statement.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from ...errors import DecodeError
from ..event_types import HEADER_LENGTH, EventType
from ..kernels.jit import STATEMENT_END, Bytes, Int, Ints, jit, jit_allocating, number
from .grammar import is_rows


class Reader(Protocol):
    def read(self, size: int, /) -> bytes:
        """Return 1 to ``size`` bytes, or no bytes at the end."""


def windows(events: Reader, total: int, size: int) -> Iterator[Bytes]:
    """Divide ``total`` bytes of plain events into windows. Yield uint8[n] of about ``size`` bytes
    each, or more if one event is larger.

    If bytes remain that are not a complete event, the last window contains them unchanged, so that
    the kernel that walks it reports them. Raise DecodeError if the reader has less than ``total``
    bytes.
    """
    maps: dict[int, bytes] = {}
    query = b""
    rest, left = b"", total
    while left or rest:
        wanted = max(size, _event_length(rest)) - len(rest)
        part = read_exactly(events, min(wanted, left))
        left -= len(part)
        data = rest + part
        cut, tables, statement = whole_events(np.frombuffer(data, np.uint8))
        if not left or _event_length(data[cut:]) > len(data) - cut + left:
            yield _joined(maps, query, data)
            return
        if cut:
            yield _joined(maps, query, data[:cut])
        for table, begin, end in tables.tolist():
            maps[table] = data[begin:end]
        if statement[1] >= 0:
            query = data[statement[0] : statement[1]]
        rest = data[cut:]


def read_exactly(events: Reader, size: int) -> bytes:
    """Read exactly ``size`` bytes. Raise DecodeError if the reader has less."""
    parts = []
    while size:
        part = events.read(size)
        if not part:
            raise DecodeError(f"{size} bytes of a transaction are missing")
        parts.append(part)
        size -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _event_length(data: bytes) -> int:
    """Return the bytes of the event at the beginning of ``data``. Return the bytes of a header if
    the header is truncated, and 2**32 if the bytes are no event header."""
    if len(data) < HEADER_LENGTH:
        return HEADER_LENGTH
    length = int.from_bytes(data[9:13], "little")
    return length if length >= HEADER_LENGTH else 1 << 32


def _joined(maps: dict[int, bytes], query: bytes, data: bytes) -> Bytes:
    return np.frombuffer(b"".join((*maps.values(), query, data)), np.uint8)


@jit_allocating
def doubled(table: Ints) -> Ints:
    bigger = np.empty((2 * table.shape[0], table.shape[1]), np.int64)
    bigger[: table.shape[0]] = table
    return bigger


@jit
def find_id(ids: Ints, count: Int, table: Int) -> Int:
    """Return the row of ``ids`` int64[n, 3] (table id, ...) with this id, or ``count``."""
    i = 0
    while i < count and ids[i, 0] != table:
        i += 1
    return i


@jit_allocating
def whole_events(buffer: Bytes) -> tuple[Int, Ints, Ints]:
    """Return (offset of the first event that is truncated, tables, statement).

    ``tables`` int64[t, 3]: table id, begin and end of the last TABLE_MAP of each table id.
    ``statement`` int64[2]: begin and end of the ROWS_QUERY that applies at the end. It is 0, 0 if
    none applies, and -1, -1 if the buffer does not change it.
    """
    ids = np.empty((16, 3), np.int64)
    statement = np.full(2, -1, np.int64)
    count: Int = 0
    at: Int = np.int64(0)
    while at + HEADER_LENGTH <= buffer.size:
        length = number(buffer, at + 9, 4)
        if length < HEADER_LENGTH or at + length > buffer.size:
            break
        kind = np.int64(buffer[at + 4])
        if kind == EventType.TABLE_MAP and length >= HEADER_LENGTH + 6:
            i = find_id(ids, count, number(buffer, at + HEADER_LENGTH, 6))
            if i == ids.shape[0]:
                ids = doubled(ids)
            ids[i, 0] = number(buffer, at + HEADER_LENGTH, 6)
            ids[i, 1], ids[i, 2] = at, at + length
            count = max(count, i + 1)
        elif kind == EventType.ROWS_QUERY:
            statement[0], statement[1] = at, at + length
        elif (
            length > HEADER_LENGTH + 6
            and buffer[at + HEADER_LENGTH + 6] & STATEMENT_END
            and is_rows(kind)
        ):
            statement[:] = 0
        at += length
    return at, ids[:count].copy(), statement
