"""The types of binary log events and the layout that all events share.

Kernels use the same table as the code that reads single events. Source:
libs/mysql/binlog/event/binlog_event.h of MySQL.
"""

from __future__ import annotations

import struct
from enum import IntEnum, IntFlag

# Bytes.
HEADER_LENGTH, CRC_LENGTH = 19, 4
HEADER = struct.Struct("<IBIIIH")
"""seconds, type, server_id, length, end_log_pos, flags"""


class EventType(IntEnum):
    UNKNOWN = 0
    QUERY = 2
    STOP = 3
    ROTATE = 4
    INTVAR = 5
    LOAD = 6
    SLAVE = 7
    CREATE_FILE = 8
    APPEND_BLOCK = 9
    EXEC_LOAD = 10
    DELETE_FILE = 11
    NEW_LOAD = 12
    RAND = 13
    USER_VAR = 14
    FORMAT_DESCRIPTION = 15
    XID = 16
    BEGIN_LOAD_QUERY = 17
    EXECUTE_LOAD_QUERY = 18
    TABLE_MAP = 19
    PRE_GA_WRITE_ROWS = 20
    PRE_GA_UPDATE_ROWS = 21
    PRE_GA_DELETE_ROWS = 22
    WRITE_ROWS_V1 = 23
    UPDATE_ROWS_V1 = 24
    DELETE_ROWS_V1 = 25
    INCIDENT = 26
    HEARTBEAT = 27
    IGNORABLE = 28
    ROWS_QUERY = 29
    WRITE_ROWS = 30
    UPDATE_ROWS = 31
    DELETE_ROWS = 32
    GTID = 33
    ANONYMOUS_GTID = 34
    PREVIOUS_GTIDS = 35
    TRANSACTION_CONTEXT = 36
    VIEW_CHANGE = 37
    XA_PREPARE = 38
    PARTIAL_UPDATE_ROWS = 39
    TRANSACTION_PAYLOAD = 40
    HEARTBEAT_V2 = 41
    GTID_TAGGED = 42
    LARGE_TRANSACTION_HEADER = 43


STATEMENT_TYPES = tuple(
    int(kind)
    for kind in EventType
    if EventType.LOAD <= kind <= EventType.NEW_LOAD
    or EventType.BEGIN_LOAD_QUERY <= kind <= EventType.EXECUTE_LOAD_QUERY
    or EventType.PRE_GA_WRITE_ROWS <= kind <= EventType.PRE_GA_DELETE_ROWS
)
"""types that hold rows as statements, as files, or in the formats of MySQL 5.1's first betas: not
decoded"""
MARIADB_FIRST, MARIADB_LAST = 160, 171
"""the types that only MariaDB uses"""


class EventFlag(IntFlag):
    IN_USE = 0x1
    THREAD_SPECIFIC = 0x4
    SUPPRESS_USE = 0x8
    ARTIFICIAL = 0x20
    RELAY_LOG = 0x40
    IGNORABLE = 0x80


def type_name(code: int) -> str:
    """Return MySQL's name of the event type, or ``UNKNOWN(code)``. Does not raise for an unknown
    type."""
    try:
        return EventType(code).name
    except ValueError:
        return f"UNKNOWN({code})"
