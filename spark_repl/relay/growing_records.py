"""GrowingRecords: the index records of a file that is still being written, on disk and mapped.

A relay file of 1 GiB may hold millions of transactions, with records of 128 bytes each, and all
processes that follow the file have the records. They are therefore in an unnamed file beside the
stored indexes, and use memory only while they are being read. Records are written to the file, not
stored through the mapping, so that a full disk raises an error and does not kill the process.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from pathlib import Path
from typing import IO

import numpy as np

from .record import RECORD

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
        Raises OSError.
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
    """Release the memory of mapped records; they are read again when needed. No-op for other
    arrays."""
    mapping = _mapping(records)
    if mapping is not None:
        mapping.madvise(mmap.MADV_DONTNEED)


def _mapping(records: np.ndarray) -> mmap.mmap | None:
    base: object = records
    while isinstance(base, np.ndarray):
        base = base.base
    return base if isinstance(base, mmap.mmap) else None
