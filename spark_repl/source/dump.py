"""The dump protocol without a socket: requests as bytes, and the source's answers.

The commands are those of MySQL source, sql/rpl_source.cc. Payloads are without the packet header.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..binlog.event_types import CRC_LENGTH, HEADER_LENGTH, EventType
from ..binlog.events.event import read_lenenc
from ..binlog.kernels.crc import event_crc
from ..errors import (
    BEGIN_AGAIN,
    LogError,
    NoTableError,
    PurgedError,
    SecretError,
    SourceError,
    SourceLostError,
    SparkReplError,
)
from .grants import EVERYTHING, grant, needed

if TYPE_CHECKING:
    from ..gtid import GtidSet

COM_BINLOG_DUMP, COM_REGISTER_REPLICA, COM_BINLOG_DUMP_GTID = 0x12, 0x15, 0x1E
_HEARTBEAT_V2, _THROUGH_GTID = 2, 4
_SEMI_SYNC_MAGIC = b"\xef"
_FIRST_POSITION = 4
_ER_NO_SUCH_TABLE, _ER_SOURCE_FATAL = 1146, 1236
# Errors of the network, of a shutdown, of too many connections or queries: they pass.
TEMPORARY = frozenset({1040, 1053, 1129, 1152, 1158, 1159, 1160, 1161, 1184, 1203, 1205, 1226, 1927,
                       2002, 2003, 2005, 2006, 2013, 2014, 2055, 3032, 3168, 4031})  # fmt: skip
# Errors of an account that logged in before: they pass when the change of its secret or of a
# certificate, or its creation again, is complete on both sides.
_ACCOUNT = frozenset({1045, 1130, 1698, 1820, 1862, 2026, 3118, 3955, 4020})
TRIED_AGAIN = "it is tried again"

LOST_LOGS = (
    'source.on_purged = "snapshot", and start again: run copies all tables again, beside the old'
    " ones; or add a server that still has these logs to source.hosts; raise"
    " binlog_expire_logs_seconds on the source"
)
"""what to do where the source has removed binary logs that are still needed"""
# What the source says in an error 1236 -> what to do about it. The first that fits counts.
_PURGED = ("purged required", "Could not find first log file")
_ADVICE = (
    ("purged required", LOST_LOGS),
    (
        "more GTIDs than the source",
        "the source was RESET, restored from a backup, or is another server that lacks these:"
        " point to the server that has them, or begin with a new target and relay folder",
    ),
    (
        "same server_uuid/server_id",
        "two receivers use one identity: give each a source.server_id and relay folder of its own",
    ),
    (
        "Could not find first log file",
        "the binary log where the receiver stopped is gone (purged or RESET): make a new copy, or"
        " use auto_position with GTIDs",
    ),
    (
        "position > file size",
        "the source's file became shorter: it crashed with sync_binlog other than 1, or was RESET;"
        " with GTIDs use auto_position, else make a new copy",
    ),
    ("max_allowed_packet", "raise max_allowed_packet on the source"),
    ("Binary log is not open", "start the source with log_bin"),
    (
        "anonymous transaction",
        "the source has transactions without GTIDs: set gtid_mode = ON there, or auto_position ="
        " false here",
    ),
    ("checksum that source", "set binlog_checksum to CRC32 or NONE on the source"),
    (
        "out of disk space",
        "the source's binary log is cut: make room there, then FLUSH BINARY LOGS",
    ),
    ("crc check", "the source's binary log is damaged: use a replica of it, or make a new copy"),
    ("bogus data", "the source's binary log is damaged: use a replica of it, or make a new copy"),
    (
        "could not find next log",
        "the source was RESET: point to the server that has its old logs, or take a new target"
        " and relay folder; or its index of binary logs was changed by hand: repair it there",
    ),
)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    file: str
    position: int
    """end of the last event sent or skipped; modulo 2**32 in a version 1 event"""


def register(server_id: int, host: str, port: int = 0) -> bytes:
    """Return COM_REGISTER_SLAVE, after which SHOW REPLICAS lists the receiver. It needs the
    privilege REPLICATION SLAVE."""
    name = host.encode()[:60]
    body = struct.pack("<BIB", COM_REGISTER_REPLICA, server_id, len(name)) + name
    return body + b"\0\0" + struct.pack("<HII", port & 0xFFFF, 0, 0)


def dump_gtid(server_id: int, have: GtidSet) -> bytes:
    """Return COM_BINLOG_DUMP_GTID, which requests everything that is not in ``have``."""
    data = have.encode()
    flags = _HEARTBEAT_V2 | _THROUGH_GTID
    head = struct.pack(
        "<BHIIQI", COM_BINLOG_DUMP_GTID, flags, server_id, 0, _FIRST_POSITION, len(data)
    )
    return head + data


def dump_file(server_id: int, file: str, position: int) -> bytes:
    """Return COM_BINLOG_DUMP, which requests everything after a position. ``file`` "": the source's
    first file.

    Raise SourceError for a position that the command can't hold.
    """
    if position >= 1 << 32:
        raise SourceError(
            f"{file}:{position} lies behind 4 GiB of its file: it can't be asked for by position",
            hint="go on by GTID (source.auto_position); or FLUSH BINARY LOGS on the source, and"
            f" {BEGIN_AGAIN}",
        )
    head = struct.pack("<BIHI", COM_BINLOG_DUMP, position, _HEARTBEAT_V2, server_id)
    return head + file.encode("utf-8", "surrogateescape")


def acknowledgement(file: str, position: int) -> bytes:
    """Return a semi-synchronous replica's acknowledgement: everything up to ``position`` is on
    disk."""
    name = file.encode("utf-8", "surrogateescape")
    return _SEMI_SYNC_MAGIC + struct.pack("<Q", position) + name


def has_checksum(event: bytes) -> bool:
    """Return whether the event ends with its CRC32.

    Events that the source creates while it sends (ROTATE, HEARTBEAT) follow its current setting,
    not the file's, so only their own last bytes show it.
    """
    check = int.from_bytes(event[-CRC_LENGTH:], "little")
    return len(event) >= HEADER_LENGTH + CRC_LENGTH and event_crc(event) == check


def parse_heartbeat(event: bytes) -> Heartbeat:
    """Return the place in a HEARTBEAT or HEARTBEAT_V2 event. Raise LogError for a damaged one."""
    end = len(event) - CRC_LENGTH * has_checksum(event)
    body = event[HEADER_LENGTH:end]
    position = int.from_bytes(event[13:17], "little")
    if event[4] == EventType.HEARTBEAT:
        return Heartbeat(body.decode("utf-8", "surrogateescape"), position)
    name, at = "", 0
    try:
        while body[at] != 0:
            kind, (length, data) = body[at], read_lenenc(body, at + 1)
            if kind == 1:
                name = body[data : data + length].decode("utf-8", "surrogateescape")
            elif kind == 2:
                position = read_lenenc(body, data)[0]
            at = data + length
    except IndexError as error:
        raise LogError("Unexpected source's heartbeat data: it is cut", number=13118) from error
    return Heartbeat(name, position)


def refusal(payload: bytes) -> SourceError:
    """Return the error that an error packet or an EOF packet reports."""
    if payload[:1] != b"\xff":
        return SourceLostError("the source ended the stream", hint="it is asked again")
    number = int.from_bytes(payload[1:3], "little")
    text = payload[3:].decode("utf-8", "replace")
    return error_of(number, text[6:] if text.startswith("#") else text)


def is_temporary(error: SparkReplError, *, reconnect: bool) -> bool:
    """Return whether another attempt may succeed. ``reconnect``: the account has logged in before.
    In that case a password, key or certificate that is refused may be replaced soon."""
    if isinstance(error, SourceLostError):
        return True
    return reconnect and (isinstance(error, SecretError) or error.number in _ACCOUNT)


def error_of(number: int, text: str, account: str = "CURRENT_USER()") -> SourceError:
    """Return a server's error for ``account``, with a remedy: SourceLostError if it may be
    temporary, NoTableError if a statement may have removed the table."""
    if number in TEMPORARY:
        return SourceLostError(text, number=number, hint=TRIED_AGAIN)
    if number == _ER_NO_SUCH_TABLE:
        return NoTableError(text, number=number, hint="it was renamed or dropped there")
    hint = "see the source's error log"
    if number == _ER_SOURCE_FATAL:
        text = f"Got fatal error 1236 from source when reading data from binary log: '{text}'"
        hint = next((advice for words, advice in _ADVICE if words in text), hint)
        if any(words in text for words in _PURGED):
            return PurgedError(text, number=number, hint=hint)
    elif number == 1227:
        privilege = needed(text, "REPLICATION SLAVE")
        hint = f"{grant(privilege, [EVERYTHING], account)}, on the source"
    elif number in (1044, 1045, 1698):
        hint = "check source.user and its password, and the host that the account may come from"
    elif number in (1820, 1862, 3118, 3955, 4020):
        hint = "unlock the account or renew its password on the source"
    elif number in (1130, 3159):
        hint = 'let the account connect from this host, or with source.tls = "required"'
    return SourceError(text, number=number, hint=hint)
