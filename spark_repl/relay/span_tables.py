"""The tables whose rows a span of events holds, read without the rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from ..binlog.event_types import HEADER_LENGTH, EventType
from ..binlog.events.event import parse_header, parse_query
from ..binlog.events.payload import Payload
from ..binlog.events.table_map import table_of_map
from ..binlog.events.windows import read_exactly, windows

_WINDOW_BYTES = 1 << 20
_KINDS = (EventType.QUERY, EventType.ROWS_QUERY, EventType.TABLE_MAP)
# Statements of a transaction that say nothing of rows.
_BOUNDS = (b"BEGIN", b"XA", b"SAVEPOINT")

_Events = Iterator[tuple[int, bytes]]


def tables_of(file: BinaryIO, begin: int, end: int, crc: int) -> frozenset[str] | None:
    """Return the tables (``database.table``, as on the source) of the events in ``[begin, end)``.

    Return None if there is a statement among them, because its text may contain values of any
    table. ``crc``: bytes of each event's checksum. Raise DecodeError if the events end before the
    span does.
    """
    file.seek(begin)
    tables = set[str]()
    for kind, body in _events(file, end, crc):
        if kind == EventType.TABLE_MAP:
            tables.add(table_of_map(body))
        elif kind == EventType.ROWS_QUERY or not _is_bound(parse_query(body).statement):
            return None
    return frozenset(tables)


def _is_bound(statement: bytes) -> bool:
    return statement.upper().split(b" ", 1)[0] in _BOUNDS


def _events(file: BinaryIO, end: int, crc: int) -> _Events:
    """Yield type and body of each event that names a table or is a statement."""
    while file.tell() < end:
        header = parse_header(read_exactly(file, HEADER_LENGTH))
        left = max(header.length - HEADER_LENGTH, crc)
        following = file.tell() + left
        if header.type == EventType.TRANSACTION_PAYLOAD:
            payload = Payload(file, left - crc)
            for window in windows(payload, payload.uncompressed, _WINDOW_BYTES):
                yield from _inside(window.tobytes())
        elif header.type in _KINDS:
            yield header.type, read_exactly(file, left - crc)
        file.seek(following)


def _inside(events: bytes) -> _Events:
    """Yield type and body of such events among whole events without checksums."""
    at = 0
    while at + HEADER_LENGTH <= len(events):
        header = parse_header(events, at)
        following = at + max(header.length, HEADER_LENGTH)
        if header.type in _KINDS:
            yield header.type, events[at + HEADER_LENGTH : following]
        at = following
