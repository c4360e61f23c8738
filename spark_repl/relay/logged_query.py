"""Reading the logged statement of a transaction, without the rest of the transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import BinaryIO

from ..binlog.event_types import CRC_LENGTH, HEADER_LENGTH, EventType
from ..binlog.events.event import Query, parse_header, parse_query
from ..binlog.events.payload import Payload
from ..binlog.events.windows import windows
from ..errors import LogError
from .split_transactions import Piece, open_pieces

# Bytes of a compressed transaction that mostly contain its first events.
_WINDOW_BYTES = 1 << 12


def read_statement(
    path: str | Sequence[Piece], offset: int, *, checksum: bool, start: bytes = b""
) -> Query:
    """Return the first statement that begins with ``start``, other than BEGIN, at or after
    ``offset``.

    A transaction or its Query event begins at ``offset``. ``path``: the file, or the pieces of a
    transaction in several files, to which ``offset`` refers. ``checksum``: events end with a CRC32,
    which is not part of the text. Raise LogError with file and offset if the log ends before such a
    statement.
    """
    with open(path, "rb") if isinstance(path, str) else open_pieces(path) as file:
        file.seek(offset)
        for query in _queries(file, CRC_LENGTH * checksum):
            if query.statement != b"BEGIN" and query.statement.upper().startswith(start):
                return query
    where = path if isinstance(path, str) else path[0].path
    raise LogError(
        "a transaction without the statement that its kind needs", file=where, position=offset
    )


def _queries(file: BinaryIO, crc: int) -> Iterator[Query]:
    while len(head := file.read(HEADER_LENGTH)) == HEADER_LENGTH:
        header = parse_header(head)
        left = header.length - HEADER_LENGTH
        if left < crc:
            return  # bytes that are no event
        if header.type == EventType.QUERY:
            body = file.read(left)
            if len(body) < left:
                return
            yield replace(parse_query(body[: left - crc]), timestamp=header.timestamp)
        elif header.type == EventType.TRANSACTION_PAYLOAD:
            following = file.tell() + left
            payload = Payload(file, left - crc)
            for window in windows(payload, payload.uncompressed, _WINDOW_BYTES):
                yield from _inside(window.tobytes())
            file.seek(following)
        else:
            file.seek(left, 1)


def _inside(events: bytes) -> Iterator[Query]:
    """Yield the statements among plain events without checksums; the last event may be cut."""
    at = 0
    while at + HEADER_LENGTH <= len(events):
        header = parse_header(events, at)
        end = at + header.length
        if header.length < HEADER_LENGTH or end > len(events):
            return
        if header.type == EventType.QUERY:
            query = parse_query(events[at + HEADER_LENGTH : end])
            yield replace(query, timestamp=header.timestamp)
        at = end
