"""The XID of an XA transaction's part, read from its first events."""

from __future__ import annotations

from typing import BinaryIO

import zstandard

from ..binlog.event import CRC_LENGTH, HEADER_LENGTH, EventType, parse_header, parse_query
from ..errors import LogError
from .compressed import payload_head

_GTIDS = (EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED)
# Enough of a compressed transaction for its XA START.
_PAYLOAD_BYTES = 1 << 16


def xa_statement(path: str, offset: int, *, checksum: bool) -> bytes:
    """``XA START ...``, ``XA COMMIT ...`` or ``XA ROLLBACK ...`` of the transaction at ``offset``.

    ``checksum``: its events end with a CRC32, which is no part of the text. Raises LogError with
    file and offset when it begins with something else.
    """
    with open(path, "rb") as file:
        file.seek(offset)
        for _ in range(2):
            head = file.read(HEADER_LENGTH)
            if len(head) < HEADER_LENGTH:
                break
            header = parse_header(head)
            if header.type in _GTIDS:
                file.seek(header.length - HEADER_LENGTH, 1)
            elif header.type == EventType.QUERY:
                body = file.read(header.length - HEADER_LENGTH)
                return parse_query(body[: len(body) - CRC_LENGTH * checksum]).statement
            elif header.type == EventType.TRANSACTION_PAYLOAD:
                return _inside(file, header.length - HEADER_LENGTH)
            else:
                break
    raise LogError("an XA transaction that begins with no statement", file=path, position=offset)


def _inside(file: BinaryIO, length: int) -> bytes:
    body = file.read(min(length, _PAYLOAD_BYTES))
    head = payload_head(body, zstandard.ZstdDecompressor())
    begin = parse_header(head)
    return parse_query(head[HEADER_LENGTH : begin.length]).statement
