"""The published end of a relay log: one small record that readers of other processes follow.

The writer replaces the record in one write, after the bytes before the end are on disk, and only at
the end of a whole transaction (WL#5721's binlog_end_pos). Readers take no lock: a checksum shows a
reader that it met a write in progress, and then it reads again.

A reader reads the end *first* and the list of files after it. A file before the end's file is
finished, and counts to its last byte. Bytes that are written between a reader's end and a rotation
become visible with the next end.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

from .. import formats
from ..errors import LogError
from ..position import RelayPosition
from ..runtime.private_files import FILE_MODE

NAME = "relay.end"
_RECORD = struct.Struct("<4s16sqqI")
_MAGIC = b"SREN"
_FORMAT = 1
# A later format has its number where this one has the N.
_LATER = re.compile(rb"SRE([2-9])")
_ATTEMPTS = 100


@dataclass(frozen=True, slots=True)
class End:
    log_id: str
    """hex digits of the log's UUID"""
    position: RelayPosition
    """``file_no`` is the number in the file's name"""
    transactions: int
    """whole transactions that this writer has published since it was started"""


class EndWriter:
    """Publishes the log's end. The writer's lock ensures that only one process does."""

    def __init__(self, folder: Path) -> None:
        self._fd = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, FILE_MODE)

    def publish(self, end: End) -> None:
        os.pwrite(self._fd, _pack(end), 0)

    def close(self) -> None:
        os.close(self._fd)


def read_end(folder: str | Path) -> End | None:
    """Return the published end; None if the log has none (a recorded log).

    Raise LogError if the record is damaged (the receiver repairs it at its start), and FormatError
    for a record of a later version.
    """
    path = Path(folder) / NAME
    try:
        stream = path.open("rb", buffering=0)
    except FileNotFoundError:
        return None
    with stream:
        for _ in range(_ATTEMPTS):
            stream.seek(0)
            data = stream.read(_RECORD.size)
            if not data:
                return None
            if later := _LATER.match(data):
                formats.check(int(later[1]), _FORMAT, "this relay log", path)
            with contextlib.suppress(struct.error):
                end = _unpack(data)
                if end is not None:
                    return end
            time.sleep(0.001)
    raise LogError(
        "the record of the published end is damaged", file=str(path),
        hint="start the receiver again: it finds the end in the files",
    )  # fmt: skip


def is_followed(folder: str | Path) -> bool:
    """Return whether a receiver writes this folder, even if it has not published an end yet. Such a
    folder is not a recorded log."""
    return (Path(folder) / NAME).exists()


def _pack(end: End) -> bytes:
    fields = (_MAGIC, bytes.fromhex(end.log_id), end.position.packed, end.transactions)
    return _RECORD.pack(*fields, zlib.crc32(_RECORD.pack(*fields, 0)))


def _unpack(data: bytes) -> End | None:
    magic, log_id, packed, transactions, check = _RECORD.unpack(data)
    if magic != _MAGIC or check != zlib.crc32(data[: _RECORD.size - 4] + bytes(4)):
        return None
    return End(log_id.hex(), RelayPosition.unpack(packed), transactions)
