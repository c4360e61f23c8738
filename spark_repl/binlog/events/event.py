"""The events that are parsed one at a time: bytes in, frozen dataclasses out.

The layout is in the MySQL source, libs/mysql/binlog/event. ``body`` is an event without its 19-byte
header and without its checksum. Damaged input raises LogError, to which the caller adds file and
position. No parser reads beyond the given bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from ...errors import LogError
from ...gtid import GtidSet, format_gtid, read_varint
from ..event_types import CRC_LENGTH, HEADER, HEADER_LENGTH, EventFlag, EventType, type_name
from . import query_status

MAGIC = b"\xfebin"
ENCRYPTED_MAGIC = b"\xfdbin"
MAGIC_LENGTH = 4

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Header:
    timestamp: int
    """seconds since 1970"""
    type: int
    server_id: int
    length: int
    """bytes of the whole event, header and checksum included"""
    end_log_pos: int
    """modulo 2**32; 0 in artificial events"""
    flags: int

    @property
    def name(self) -> str:
        return type_name(self.type)


@dataclass(frozen=True, slots=True)
class FormatDescription:
    server_version: str
    checksum: bool
    """whether the following events carry a CRC32"""
    created: int
    server_id: int
    flags: int = 0

    @property
    def is_mariadb(self) -> bool:
        return "mariadb" in self.server_version.lower()

    @property
    def has_inline_keys(self) -> bool:
        """Whether REFERENCES in a column's definition creates a foreign key."""
        return _version(self.server_version) >= (9,)

    @property
    def rounds_quotients(self) -> bool:
        """Whether a quotient of exact numbers is rounded to the digits that the server displays
        (seen on 9.7.4)."""
        return _version(self.server_version) >= (9, 7)

    @property
    def keeps_row_id(self) -> bool:
        """Whether an invisible my_row_id stays the first column, regardless of the order in ALTER
        TABLE."""
        return _version(self.server_version) >= (8, 0, 30)

    @property
    def in_use(self) -> bool:
        return bool(self.flags & EventFlag.IN_USE)

    @property
    def is_relay_log(self) -> bool:
        return bool(self.flags & EventFlag.RELAY_LOG)


@dataclass(frozen=True, slots=True)
class Gtid:
    """A GTID, ANONYMOUS_GTID or GTID_TAGGED event. Fields that an older server did not write are
    0."""

    uuid: bytes
    tag: str
    gno: int
    """0 for an anonymous transaction"""
    last_committed: int = 0
    sequence_number: int = 0
    immediate_commit_timestamp: int = 0
    """microseconds since 1970"""
    original_commit_timestamp: int = 0
    transaction_length: int = 0
    """bytes of the whole transaction in this file, this event included"""
    immediate_server_version: int = 0
    original_server_version: int = 0
    flags: int = 0
    commit_group_ticket: int = 0

    def __str__(self) -> str:
        return format_gtid(self.uuid, self.tag, self.gno) or "ANONYMOUS"


@dataclass(frozen=True, slots=True)
class Query:
    thread_id: int
    execution_seconds: int
    error: int
    database: str
    statement: bytes
    """in the client's character set, which ``status`` names"""
    status: bytes
    """undecoded status variables"""
    timestamp: int = 0
    """seconds since 1970 when the statement began, from the event's header"""

    @property
    def at(self) -> int:
        """The value of NOW(6) in microseconds since 1970; whole seconds if the statement did not
        use the fraction."""
        return self.timestamp * 1_000_000 + query_status.microseconds(self.status)

    @property
    def time_zone(self) -> str:
        """The session's time zone; '' if the statement did not depend on it."""
        return query_status.time_zone(self.status)

    @property
    def server_collation(self) -> int:
        """Id of collation_server; 0 if the event does not contain it."""
        return query_status.server_collation(self.status)

    @property
    def utf8mb4_collation(self) -> int:
        """Id of the default collation of utf8mb4; 0 if the event does not contain it."""
        return query_status.utf8mb4_collation(self.status)

    @property
    def explicit_timestamps(self) -> bool | None:
        """explicit_defaults_for_timestamp; None if the event does not contain it."""
        return query_status.explicit_timestamps(self.status)

    @property
    def text(self) -> str:
        return query_status.statement_text(self.statement, self.status)

    @property
    def character_sets(self) -> tuple[str, str]:
        """character_set_client and character_set_connection; '' for one that the event does not
        contain, or that MySQL 9.7 lacks."""
        return query_status.character_sets(self.status)

    @property
    def sql_mode(self) -> int:
        """The session's sql_mode. The meaning of quotes and backslashes in ``text`` depends on
        it."""
        return query_status.sql_mode(self.status)

    @property
    def made_nothing(self) -> bool:
        """Whether a CREATE TABLE IF NOT EXISTS found an existing table; False before 8.0."""
        return query_status.made_nothing(self.status)


@dataclass(frozen=True, slots=True)
class Rotate:
    position: int
    name: str


@dataclass(frozen=True, slots=True)
class XaPrepare:
    one_phase: bool
    format_id: int
    gtrid: bytes
    bqual: bytes

    def __str__(self) -> str:
        return f"X'{self.gtrid.hex()}',X'{self.bqual.hex()}',{self.format_id}"


@dataclass(frozen=True, slots=True)
class Incident:
    number: int
    message: str


def parse_header(data: bytes, offset: int = 0) -> Header:
    if len(data) < offset + HEADER_LENGTH:
        raise LogError("event header is cut")
    return Header(*HEADER.unpack_from(data, offset))


def _guarded(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that converts reads beyond the end of the bytes, and undecodable names,
    into a LogError that names the event."""

    def wrap(parse: Callable[P, R]) -> Callable[P, R]:
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return parse(*args, **kwargs)
            except (struct.error, IndexError, UnicodeDecodeError) as e:
                raise LogError(f"a {name} event is damaged: {e}") from e

        guarded.__doc__ = parse.__doc__
        guarded.__name__ = parse.__name__
        return guarded

    return wrap


@_guarded("FORMAT_DESCRIPTION")
def parse_format_description(event: bytes) -> FormatDescription:
    """Parse the whole event, header and checksum included: it describes its own file. Raise
    LogError for a damaged event and for a format other than 4."""
    header = parse_header(event)
    if len(event) < header.length:
        raise IndexError("it is cut")
    body = event[HEADER_LENGTH : header.length]
    version, name, created, header_length = struct.unpack_from("<H50sIB", body, 0)
    server_version = name.split(b"\0", 1)[0].decode("latin-1")
    if version != 4 or header_length != HEADER_LENGTH:
        raise LogError(
            f"binary log format {version} (event headers of {header_length} bytes) of server"
            f" {server_version} is not supported",
            hint="logs of MySQL 5.0 and later have format 4",
        )
    # Servers before 5.6.1 have neither the algorithm byte nor a checksum.
    checksum = _version(server_version) >= (5, 6, 1) and body[-CRC_LENGTH - 1] == 1
    return FormatDescription(server_version, checksum, created, header.server_id, header.flags)


@_guarded("GTID")
def parse_gtid(event_type: int, body: bytes) -> Gtid:
    if event_type == EventType.GTID_TAGGED:
        return _parse_tagged(body)
    flags, uuid, gno = struct.unpack_from("<B16sq", body, 0)
    if len(body) < 42 or body[25] != 2:
        return Gtid(uuid, "", gno, flags=flags)
    last_committed, sequence_number = struct.unpack_from("<qq", body, 26)
    if len(body) < 49:
        return Gtid(uuid, "", gno, last_committed, sequence_number, flags=flags)
    immediate, original, at = _pair(body, 42, 7)
    length, at = read_lenenc(body, at) if at < len(body) else (0, at)
    version, source_version, at = _pair(body, at, 4) if at + 4 <= len(body) else (0, 0, at)
    ticket = int.from_bytes(body[at : at + 8], "little")
    return Gtid(
        uuid, "", gno, last_committed, sequence_number, immediate, original, length, version,
        source_version, flags, ticket,
    )  # fmt: skip


@_guarded("QUERY")
def parse_query(body: bytes) -> Query:
    thread, seconds, db_length, error, status_length = struct.unpack_from("<IIBHH", body, 0)
    db = 13 + status_length
    text = db + db_length + 1
    if text > len(body):
        raise IndexError("database name beyond the end")
    database = body[db : db + db_length].decode("utf-8", "surrogateescape")
    return Query(thread, seconds, error, database, bytes(body[text:]), bytes(body[13:db]))


@_guarded("ROTATE")
def parse_rotate(body: bytes) -> Rotate:
    (position,) = struct.unpack_from("<Q", body, 0)
    return Rotate(position, body[8:].decode("utf-8", "surrogateescape"))


@_guarded("XA_PREPARE")
def parse_xa_prepare(body: bytes) -> XaPrepare:
    one_phase, format_id, gtrid, bqual = struct.unpack_from("<BIII", body, 0)
    if gtrid > 64 or bqual > 64 or 13 + gtrid + bqual > len(body):
        raise IndexError("XID beyond the end")
    xid = bytes(body[13 : 13 + gtrid + bqual])
    return XaPrepare(bool(one_phase), format_id, xid[:gtrid], xid[gtrid:])


@_guarded("INCIDENT")
def parse_incident(body: bytes) -> Incident:
    number, length = struct.unpack_from("<HB", body, 0)
    return Incident(number, body[3 : 3 + length].decode("utf-8", "replace"))


def parse_previous_gtids(body: bytes) -> GtidSet:
    return GtidSet.decode(body)


def read_lenenc(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return (value, offset after it) of MySQL's packed integer. Raise IndexError if it is
    truncated."""
    first = data[at]
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(first, 0)
    if size == 0:
        return first, at + 1
    if at + 1 + size > len(data):
        raise IndexError("packed integer beyond the end")
    return int.from_bytes(data[at + 1 : at + 1 + size], "little"), at + 1 + size


def _version(text: str) -> tuple[int, ...]:
    numbers = []
    for part in text.split(".")[:3]:
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        numbers.append(int(digits or 0))
    return tuple(numbers)


def _pair(body: bytes, at: int, size: int) -> tuple[int, int, int]:
    """Return (immediate value, original value, offset after both). The original value follows only
    if the top bit of the immediate one is set; otherwise both are equal. Raise IndexError if it is
    truncated."""
    top = 1 << 8 * size - 1
    immediate = int.from_bytes(body[at : at + size], "little")
    if not immediate & top:
        return immediate, immediate, at + size
    if at + 2 * size > len(body):
        raise IndexError("value beyond the end")
    original = int.from_bytes(body[at + size : at + 2 * size], "little")
    return immediate & ~top, original, at + 2 * size


def _parse_tagged(body: bytes) -> Gtid:
    version, at = read_varint(body, 0)
    size, at = read_varint(body, at)
    last_required, at = read_varint(body, at)
    if version != 1 or size > len(body):
        raise IndexError("unknown serialization")
    uuid, tag, values = bytes(16), "", dict[int, int]()
    while at < size:
        field, at = read_varint(body, at)
        if field == 1:
            parts = bytearray()
            for _ in range(16):
                value, at = read_varint(body, at)
                parts.append(value & 0xFF)
            uuid = bytes(parts)
        elif field == 3:
            length, at = read_varint(body, at)
            tag = body[at : at + length].decode("ascii")
            at += length
        elif field <= 11:
            values[field], at = read_varint(body, at)
        elif field <= last_required:
            raise LogError(
                "Unrecognized event format. The event appears to originate from a future server"
                " version", hint="a newer version of spark_repl may know it",
            )  # fmt: skip
        else:
            break
    gno, last_committed, sequence_number = (_zigzag(values.get(i, 0)) for i in (2, 4, 5))
    immediate, server = values.get(6, 0), values.get(9, 0)
    return Gtid(
        uuid, tag, gno, last_committed, sequence_number, immediate, values.get(7, immediate),
        values.get(8, 0), server, values.get(10, server), values.get(0, 0), values.get(11, 0),
    )  # fmt: skip


def _zigzag(value: int) -> int:
    return value >> 1 ^ -(value & 1)
