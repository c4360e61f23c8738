"""GeneratedLog: a binary log as a 9.7 server writes it, so that a benchmark needs no server.

It holds statements, and rows of one form.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..binlog.event_types import CRC_LENGTH, HEADER, HEADER_LENGTH, EventType
from ..binlog.events.event import MAGIC
from ..receiver.own_events import with_checksum

_SOURCE = uuid.UUID("11111111-2222-3333-4444-555555555555")
_EPOCH = 1_700_000_000
_ROW = np.dtype([("nulls", "u1"), ("id", "<i4"), ("a", "<i4"), ("length", "u1"), ("v", "S16")])
_EVENT_ROWS = 5_000
ROWS_COLUMNS = "id INT PRIMARY KEY, a INT, v VARCHAR(40)"
"""the columns of a table that ``insert`` fills"""


class GeneratedLog:
    """Appends transactions to the one file of ``folder``. Call ``close`` after the last one."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / "binlog.000001").open("wb")
        self._file.write(MAGIC)
        self._number = 0
        version = b"9.7.0".ljust(50, b"\0")
        described = struct.pack("<H50sIB", 4, version, _EPOCH, HEADER_LENGTH) + bytes(41) + b"\x01"
        self._event(EventType.FORMAT_DESCRIPTION, described)
        self._event(EventType.PREVIOUS_GTIDS, struct.pack("<Q", 0))

    def statement(self, text: str) -> None:
        """Append a DDL statement, in the database ``t``."""
        self._transaction([(EventType.QUERY, _query(text))])

    def insert(self, table: str, first: int, count: int) -> None:
        """Append a transaction that inserts ``count`` rows, with ids from ``first``, into a table
        of ROWS_COLUMNS."""
        events = [(EventType.QUERY, _query("BEGIN"))]
        for begin in range(first, first + count, _EVENT_ROWS):
            rows = min(_EVENT_ROWS, first + count - begin)
            events += [
                (EventType.TABLE_MAP, _table_map(table)),
                (EventType.WRITE_ROWS, _rows(table, begin, rows)),
            ]
        self._transaction([*events, (EventType.XID, struct.pack("<Q", self._number + 1))])

    def close(self) -> None:
        self._file.close()

    def _transaction(self, events: Sequence[tuple[int, bytes]]) -> None:
        self._number += 1
        number = self._number
        body = struct.pack("<B16sqBqq", 0, _SOURCE.bytes, number, 2, number - 1, number)
        body += ((_EPOCH + number) * 1_000_000).to_bytes(7, "little")
        size = HEADER_LENGTH + len(body) + 13 + CRC_LENGTH
        size += sum(HEADER_LENGTH + len(data) + CRC_LENGTH for _, data in events)
        body += b"\xfe" + struct.pack("<QI", size, 90700)
        for kind, data in [(int(EventType.GTID), body), *events]:
            self._event(kind, data)

    def _event(self, kind: int, body: bytes) -> None:
        at, length = self._file.tell(), HEADER_LENGTH + len(body) + CRC_LENGTH
        head = HEADER.pack(_EPOCH + self._number, kind, 1, length, at + length, 0)
        self._file.write(with_checksum(head + body))


def _query(text: str) -> bytes:
    return struct.pack("<IIBHH", 1, 0, 1, 0, 0) + b"t\0" + text.encode()


def _table_id(table: str) -> int:
    return 64 + zlib.crc32(table.encode()) % 1_000_000


def _table_map(table: str) -> bytes:
    name = table.encode()
    out = struct.pack("<IHH", _table_id(table), 0, 1) + b"\x01t\0" + bytes([len(name)]) + name
    out += b"\0\x03" + bytes([3, 3, 15]) + b"\x02" + struct.pack("<H", 160) + b"\x06"
    metadata = [(4, b"\x02id\x01a\x01v"), (1, b"\0"), (2, b"\xfc\xff\0"), (8, b"\0")]
    return out + b"".join(bytes([tag, len(data)]) + data for tag, data in metadata)


def _rows(table: str, first: int, count: int) -> bytes:
    rows: Any = np.zeros(count, _ROW)
    rows["id"] = np.arange(first, first + count)
    rows["a"], rows["length"] = rows["id"] % 1000, 16
    rows["v"] = np.char.zfill(rows["id"].astype("S16"), 16)
    head = struct.pack("<IHHH", _table_id(table), 0, 1, 2) + b"\x03\x07"
    return bytes(head + rows.tobytes())
