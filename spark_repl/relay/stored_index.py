"""Stored indexes: the index of one log file as a file, which a later process reads instead of
scanning the log."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Container
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..runtime.part_files import remove_dead_parts
from .file_index import FileIndex
from .record import RECORD

if TYPE_CHECKING:
    from .split import Open

# 2: of a relay log's file only its own ROTATE, not the source's, says that it is closed.
# 3: the first transaction may have begun in files before.
VERSION = 3
SUFFIX = ".idx"
_MAGIC = b"SRIX"
# Magic, version, record size, count, scanned, fingerprint, checksum, closed, what was open before.
_HEAD = struct.Struct("<4sHHqq32s??6x32s")


def load(
    path: Path, number: int, fingerprint: str, size: int, before: Open | None = None
) -> FileIndex | None:
    """Return the stored index, with mapped records; None if none fits the log file and the
    transaction that earlier files leave open."""
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
    """Remove stored indexes of other files than ``names``, and the temporary files of killed
    writers.

    The other files were purged or belong to an earlier log. An index that is still needed is built
    again.
    """
    remove_dead_parts(folder)
    for path in folder.glob(f"*{SUFFIX}"):
        if path.name.removesuffix(SUFFIX) not in names:
            path.unlink(missing_ok=True)


def store(path: Path, index: FileIndex) -> np.ndarray:
    """Replace the stored index in one step; readers see the old or the new one. Return its records,
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
