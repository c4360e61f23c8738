"""The events that a relay log has of its own: heads of files and rotations.

A file begins as MySQL's relay logs do: our FORMAT_DESCRIPTION and PREVIOUS_GTIDS, then the source's
name and position as an artificial ROTATE, and the source's FORMAT_DESCRIPTION. mysqlbinlog reads
it. The log's id is part of our server version, so that no two logs have a file in common.
"""

from __future__ import annotations

import re
import struct
import time
import zlib
from typing import TYPE_CHECKING

from ..binlog.event_types import CRC_LENGTH, HEADER, HEADER_LENGTH, EventFlag, EventType
from ..binlog.events.event import MAGIC, parse_format_description

if TYPE_CHECKING:
    from ..gtid import GtidSet

_CHECKSUM_CRC32 = 1
_VERSION_AT, _VERSION_LENGTH = HEADER_LENGTH + 2, 50
_CREATED_AT = _VERSION_AT + _VERSION_LENGTH
_END_LOG_POS_AT, _FLAGS_AT = 13, 17
_LOG_ID = re.compile(r"-relay-([0-9a-f]{32})$")


def make_event(
    kind: int, body: bytes, server_id: int, *, flags: int, end_log_pos: int = 0, checksum: bool
) -> bytes:
    """Return a whole event. ``checksum``: it ends with its CRC32."""
    length = HEADER_LENGTH + len(body) + CRC_LENGTH * checksum
    head = HEADER.pack(int(time.time()), kind, server_id, length, end_log_pos & 0xFFFFFFFF, flags)
    return with_checksum(head + body) if checksum else head + body


def with_checksum(event: bytes) -> bytes:
    return event + zlib.crc32(event).to_bytes(CRC_LENGTH, "little")


def file_head(
    log_id: str, server_id: int, previous: GtidSet, source: bytes, name: str, position: int
) -> bytes:
    """Return the bytes before a file's first transaction.

    ``source``: the source's FORMAT_DESCRIPTION event. ``name``, ``position``: where the first
    transaction is in the source's log.
    """
    described = parse_format_description(source)
    version = re.match(r"[\d.]*", described.server_version)
    text = f"{version[0] if version else ''}-relay-{log_id}".encode()
    # The lengths of post-headers are the source's: its events follow.
    tail = CRC_LENGTH + 1 if _has_checksum_byte(source) else 0
    lengths = source[_CREATED_AT + 4 : len(source) - tail]
    body = struct.pack("<H50sI", 4, text, int(time.time())) + lengths + bytes([_CHECKSUM_CRC32])
    relay = int(EventFlag.RELAY_LOG)
    out = MAGIC
    for kind, data, flags in (
        (EventType.FORMAT_DESCRIPTION, body, relay),
        (EventType.PREVIOUS_GTIDS, previous.encode(), relay | EventFlag.IGNORABLE),
    ):
        length = HEADER_LENGTH + len(data) + CRC_LENGTH
        out += make_event(
            kind, data, server_id, flags=flags, end_log_pos=len(out) + length, checksum=True
        )
    return out + source_head(source, name, position, checksum=True)


def source_head(source: bytes, name: str, position: int, *, checksum: bool) -> bytes:
    """Return the events that declare which of the source's files follows. ``checksum``: whether the
    events before them have one."""
    server_id = int.from_bytes(source[5:9], "little")
    body = struct.pack("<Q", position) + name.encode("utf-8", "surrogateescape")
    rotate = make_event(
        EventType.ROTATE, body, server_id, flags=EventFlag.ARTIFICIAL, checksum=checksum
    )
    return rotate + normal(source)


def own_rotate(following: str, server_id: int, offset: int, *, checksum: bool) -> bytes:
    """Return the ROTATE that ends a file of which ``offset`` bytes are written."""
    body = struct.pack("<Q", 4) + following.encode()
    length = HEADER_LENGTH + len(body) + CRC_LENGTH * checksum
    return make_event(
        EventType.ROTATE, body, server_id,
        flags=EventFlag.RELAY_LOG, end_log_pos=offset + length, checksum=checksum,
    )  # fmt: skip


def normal(source: bytes) -> bytes:
    """Return a source's FORMAT_DESCRIPTION in the form in which the source sends it from the middle
    of a file.

    The event of a file is then the same whether or not a dump began at the file's start: created
    and end_log_pos are 0, and it is marked artificial and not in use.
    """
    event = bytearray(source)
    event[_END_LOG_POS_AT : _END_LOG_POS_AT + 4] = bytes(4)
    event[_FLAGS_AT] = event[_FLAGS_AT] & ~EventFlag.IN_USE | EventFlag.ARTIFICIAL
    event[_CREATED_AT : _CREATED_AT + 4] = bytes(4)
    if _has_checksum_byte(source):
        return with_checksum(bytes(event[:-CRC_LENGTH]))
    return bytes(event)


def _has_checksum_byte(source: bytes) -> bool:
    """Return whether the event ends with the checksum algorithm and a CRC32: servers from 5.6.1 on
    write both, also if the algorithm is none."""
    check = int.from_bytes(source[-CRC_LENGTH:], "little")
    body = bytearray(source[:-CRC_LENGTH])
    body[_FLAGS_AT] &= ~EventFlag.IN_USE
    return zlib.crc32(body) == check or parse_format_description(source).checksum


def with_log_id(head: bytes, log_id: str) -> bytes:
    """Return the beginning of a relay log's file (from its first byte to at least the end of its
    first event) with another log's id. The length does not change."""
    begin = len(MAGIC)
    length = int.from_bytes(head[begin + 9 : begin + 13], "little")
    event = head[begin : begin + length - CRC_LENGTH]
    before = log_id_of(event)
    assert before is not None and len(before) == len(log_id)
    renamed = with_checksum(event.replace(before.encode(), log_id.encode(), 1))
    return head[:begin] + renamed + head[begin + length :]


def log_id_of(event: bytes) -> str | None:
    """Return the id of the relay log that begins with this FORMAT_DESCRIPTION; None for a server's
    log."""
    text = event[_VERSION_AT : _VERSION_AT + _VERSION_LENGTH].split(b"\0", 1)[0]
    match = _LOG_ID.search(text.decode("latin-1"))
    return match[1] if match else None
