"""FileHead: what a log file declares before its first transaction.

These are FORMAT_DESCRIPTION and PREVIOUS_GTIDS, followed in a replica's relay log by the source's
FORMAT_DESCRIPTION.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from ..binlog.event_types import CRC_LENGTH, HEADER_LENGTH, EventFlag, EventType
from ..binlog.events.event import (
    MAGIC_LENGTH,
    FormatDescription,
    Header,
    parse_format_description,
    parse_header,
    parse_previous_gtids,
)
from ..errors import LogError
from ..gtid import GtidSet

_FLAGS_OFFSET = 17
# 57 bytes of its own, a byte for each event type, checksum.
_DESCRIPTION_BYTES_MAX = 512


@dataclass(frozen=True, slots=True)
class RelayFile:
    number: int
    """from the name's suffix; 1 when it has none"""
    name: str
    path: str


@dataclass(frozen=True, slots=True)
class FileHead:
    """The content of a file before its first transaction."""

    own: FormatDescription
    """of the server that wrote the file: the replica in a relay log"""
    source: FormatDescription
    """of the server whose events they are; the same object in a binary log"""
    previous_gtids: GtidSet
    fingerprint: str
    """hex digest of server id, FORMAT_DESCRIPTION and PREVIOUS_GTIDS; the same after closing"""
    length: int
    """offset of the first event behind the head"""


def read_head(file: RelayFile) -> FileHead:
    own: FormatDescription | None = None
    source: FormatDescription | None = None
    previous, length = GtidSet(), MAGIC_LENGTH
    digest = hashlib.sha256()
    for header, offset, event in _head_events(file):
        if header.type == EventType.FORMAT_DESCRIPTION:
            source = _describe(file, offset, event)
            if own is None:
                own = source
                digest.update(header.server_id.to_bytes(4, "little") + _closed(event))
        elif header.type == EventType.PREVIOUS_GTIDS and own is not None:
            stop = len(event) - CRC_LENGTH * own.checksum
            try:
                previous = parse_previous_gtids(event[HEADER_LENGTH:stop])
            except LogError as e:
                raise e.at(file=file.name, position=offset) from None
            digest.update(event)
        length = offset + header.length
    if own is None or source is None:
        raise LogError(
            "the file does not begin with a whole FORMAT_DESCRIPTION event: it is cut or damaged",
            file=file.name,
            position=MAGIC_LENGTH,
            hint="fetch the file again from the server",
        )
    return FileHead(own, source, previous, digest.hexdigest(), length)


def _describe(file: RelayFile, offset: int, event: bytes) -> FormatDescription:
    try:
        description = parse_format_description(event)
    except LogError as e:
        raise e.at(file=file.name, position=offset) from None
    if description.is_mariadb:
        raise LogError(
            f"the log is MariaDB's ({description.server_version}): its format is another one"
            " and is not supported",
            file=file.name,
            position=offset,
            hint="only logs of MySQL and its forks with the same format are read",
        )
    return description


def _closed(event: bytes) -> bytes:
    """Return the event as it is after its file is closed; its checksum is computed for that
    form."""
    flags = event[_FLAGS_OFFSET] & ~EventFlag.IN_USE
    return event[:_FLAGS_OFFSET] + bytes([flags]) + event[_FLAGS_OFFSET + 1 :]


def _head_events(file: RelayFile) -> Iterator[tuple[Header, int, bytes]]:
    """Yield whole events up to the first one that does not belong to a file's head."""
    for i, (header, offset, event) in enumerate(events(file)):
        if i == 0 and header.type != EventType.FORMAT_DESCRIPTION:
            return
        artificial = header.type == EventType.ROTATE and header.flags & EventFlag.ARTIFICIAL
        described = header.type in (EventType.FORMAT_DESCRIPTION, EventType.PREVIOUS_GTIDS)
        if not artificial and not described:
            return
        yield header, offset, event


def head_complete(file: RelayFile) -> bool:
    """Return whether the file has its whole head.

    Servers before 5.6, and 5.6 without gtid_mode, write no PREVIOUS_GTIDS: their head is
    FORMAT_DESCRIPTION only.
    """
    with open(file.path, "rb") as stream:
        size = stream.seek(0, 2)
        end = stream.seek(MAGIC_LENGTH)
        for expected in (EventType.FORMAT_DESCRIPTION, EventType.PREVIOUS_GTIDS):
            if len(data := stream.read(HEADER_LENGTH)) < HEADER_LENGTH:
                return False
            header = parse_header(data)
            broken = end == MAGIC_LENGTH and header.length > _DESCRIPTION_BYTES_MAX
            if header.type != expected or broken:
                return True
            end = stream.seek(end + header.length)
            if end > size:
                return False
    return True


def events(file: RelayFile) -> Iterator[tuple[Header, int, bytes]]:
    """Yield (header, offset, whole event) until the file ends or the bytes are not an event."""
    with open(file.path, "rb") as stream:
        size = stream.seek(0, 2)
        offset = stream.seek(MAGIC_LENGTH)
        while len(data := stream.read(HEADER_LENGTH)) == HEADER_LENGTH:
            header = parse_header(data)
            if header.length < HEADER_LENGTH or offset + header.length > size:
                return
            event = data + stream.read(header.length - HEADER_LENGTH)
            if len(event) < header.length:
                return
            yield header, offset, event
            offset += header.length
