"""FileIndex: the transactions of one log file as fixed-size records.

``GrowingRecords`` are the records of a file that is still being written. A relay file of 1 GiB may
hold millions of transactions, with records of 128 bytes each, and all processes that follow the
file have the records. They are therefore in an unnamed file beside the stored indexes, mapped, and
use memory only while they are being read. Records are written to the file, not stored through the
mapping, so that a full disk raises an error and does not kill the process.

A stored index is the index of one log file as a file (``.idx``). A later process reads it instead
of scanning the log.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
import tempfile
from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from ..binlog.events.transaction import Stop
from ..gtid import GtidSet
from ..runtime.part_files import remove_dead_parts
from .record import RECORD

if TYPE_CHECKING:
    import numpy as np

    from ..errors import LogError
    from .split_transactions import Open


Place = tuple[str, int, int]
"""Stem and number of a source's file, and an offset in it."""


@dataclass(frozen=True, slots=True)
class Received:
    """The transactions of earlier files, which a file may repeat: GTIDs, and anonymous transactions
    up to a source position (``place``).

    ``file``: the source's file with which the file begins. ``marked``: how many of its records were
    compared.
    """

    gtids: GtidSet = field(default_factory=GtidSet)
    place: Place | None = None
    file: str = ""
    marked: int = 0

    def __bool__(self) -> bool:
        return bool(self.gtids) or self.place is not None


@dataclass(frozen=True, slots=True)
class FileIndex:
    """The index of one file. ``records`` use the file's own number, without the history's base."""

    number: int
    fingerprint: str
    records: np.ndarray
    scanned: int
    """offset behind everything complete: the scan continues here"""
    checksum: bool
    """whether the events at ``scanned`` carry a CRC32"""
    closed: bool
    """whether the last event scanned is ROTATE or STOP"""
    size: int = 0
    """bytes of the file at the last scan"""
    stop: Stop = Stop.END
    bad: int = 0
    """offset of the event that stopped the scan"""
    damage: LogError | None = None
    """what more bytes can't mend; the records before it are good"""
    before: Open | None = None
    """the transaction that the files before leave open"""
    open: Open | None = None
    """the transaction that is open at the file's end, where a later file may continue with it"""
    lost_to: int = 0
    """behind the last event of a transaction whose beginning is in no file that is there"""
    earlier: Received | None = None
    """what files before hold and this one may repeat; None: that was not looked at"""
    growing: GrowingRecords | None = None
    """where ``records`` lie, once some were appended"""


_ROOM = 1024


class GrowingRecords:
    """Records in a file in ``folder``, or in memory if it is None. Not thread-safe."""

    def __init__(self, folder: Path | None) -> None:
        self._file: IO[bytes] = (
            open(os.memfd_create("records"), "r+b", buffering=0)  # noqa: SIM115
            if folder is None
            else tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
        )
        self._mapped: np.ndarray = np.zeros(0, RECORD)

    def append(self, records: np.ndarray, more: np.ndarray) -> np.ndarray:
        """Return ``records`` followed by ``more``, both RECORD[n].

        Records of an earlier call are not written again, and arrays that it returned do not change.
        Raise OSError.
        """
        count = len(records) + len(more)
        if _mapping(records) is None or _mapping(records) is not _mapping(self._mapped):
            self._write(records, 0)
        self._write(more, len(records))
        if count > len(self._mapped):
            room = max(2 * count, _ROOM)
            os.ftruncate(self._file.fileno(), room * RECORD.itemsize)
            self._mapped = np.memmap(self._file, RECORD, "r", shape=(room,))
        return self._mapped[:count]

    def _write(self, records: np.ndarray, at: int) -> None:
        data = np.ascontiguousarray(records).view(np.uint8).data
        offset = at * RECORD.itemsize
        while len(data):
            count = os.pwrite(self._file.fileno(), data, offset)
            data, offset = data[count:], offset + count


def forget_pages(records: np.ndarray) -> None:
    """Release the memory of mapped records, which are read again when needed. Do nothing for other
    arrays."""
    mapping = _mapping(records)
    if mapping is not None:
        mapping.madvise(mmap.MADV_DONTNEED)


def _mapping(records: np.ndarray) -> mmap.mmap | None:
    base: object = records
    while isinstance(base, np.ndarray):
        base = base.base
    return base if isinstance(base, mmap.mmap) else None


# 2: of a relay log's file only its own ROTATE, not the source's, says that it is closed.
# 3: the first transaction may have begun in files before.
VERSION = 3
SUFFIX = ".idx"
_MAGIC = b"SRIX"
# Magic, version, record size, count, scanned, fingerprint, checksum, closed, open transaction.
_HEAD = struct.Struct("<4sHHqq32s??6x32s")


def load(
    path: Path, number: int, fingerprint: str, size: int, before: Open | None = None
) -> FileIndex | None:
    """Return the stored index, with mapped records. Return None if no stored index matches the log
    file and the transaction that earlier files leave open."""
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD.size)
        *stored, count, scanned, digest, checksum, closed, begun = _HEAD.unpack(head)
        fits = (*stored, begun) == (_MAGIC, VERSION, RECORD.itemsize, _digest(before))
        whole = path.stat().st_size == _HEAD.size + count * RECORD.itemsize
    except (OSError, struct.error):
        return None
    headless = before is not None and before.lost
    if headless or not fits or not whole or digest.hex() != fingerprint or scanned > size:
        return None
    records: np.ndarray = np.zeros(0, RECORD)
    if count:
        records = np.memmap(path, RECORD, "r", _HEAD.size)
    return FileIndex(
        number, fingerprint, records, scanned, checksum, closed,
        before=before, open=None if count else before,
    )  # fmt: skip


def forget_others(folder: Path, names: Container[str]) -> None:
    """Remove the stored indexes of all files except ``names``, and the temporary files of killed
    writers.

    The other files were purged or belong to an earlier log. An index that is still needed is built
    again.
    """
    remove_dead_parts(folder)
    for path in folder.glob(f"*{SUFFIX}"):
        if path.name.removesuffix(SUFFIX) not in names:
            path.unlink(missing_ok=True)


def store(path: Path, index: FileIndex) -> np.ndarray:
    """Replace the stored index atomically: readers see the old or the new one. Return its records,
    mapped."""
    head = _HEAD.pack(
        _MAGIC, VERSION, RECORD.itemsize, len(index.records), index.scanned,
        bytes.fromhex(index.fingerprint), index.checksum, index.closed, _digest(index.before),
    )  # fmt: skip
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    with part.open("wb") as stream:
        stream.write(head)
        stream.write(np.ascontiguousarray(index.records).view(np.uint8).data)
    records = np.memmap(part, RECORD, "r", _HEAD.size) if len(index.records) else index.records
    part.replace(path)
    return records


def _digest(before: Open | None) -> bytes:
    """Return 32 bytes that identify the pieces of the open transaction; zeros for none."""
    if before is None:
        return bytes(32)
    pieces = [(Path(piece.path).name, piece.begin, piece.end) for piece in before.pieces]
    return hashlib.sha256(repr((pieces, before.lost, before.outline)).encode()).digest()
