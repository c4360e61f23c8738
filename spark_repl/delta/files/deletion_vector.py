"""Deletion vectors as the Delta protocol writes them: the deleted rows of a file.

Protocol: section "Deletion Vectors". A file contains a version byte and then, for each vector, its
length (big-endian), the bytes (magic 1681511377 and a portable 64-bit roaring bitmap,
little-endian) and their CRC-32 (big-endian). ``joined`` adds rows to those already deleted.

A vector never changes. Each process keeps the last ones of object stores in memory, because the
next change of a file's rows needs its vector again, and a request takes some 20 ms.
"""

from __future__ import annotations

import array
import os
import struct
import threading
import uuid
import zlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap, BitMap64

from ...errors import TargetError
from ...runtime.target_uri import is_remote
from ..store.storage import data_file, inner_path, read_range
from .new_file import new_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..log.log_replay import Action

MAGIC = 1681511377
_ONE_PART = struct.pack("<IQI", MAGIC, 1, 0)
"""the first bytes of vectors of fewer than 2^32 rows: one bitmap of 32 bits follows"""
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"

Descriptor = dict[str, Any]


class KeptVectors:
    """The last vectors that were read from object stores or written there, by file and offset."""

    def __init__(self, bytes_max: int) -> None:
        self._vectors: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._bytes_max, self._size, self._lock = bytes_max, 0, threading.Lock()

    def get(self, path: str, offset: int) -> bytes | None:
        with self._lock:
            if (data := self._vectors.get((path, offset))) is not None:
                self._vectors.move_to_end((path, offset))
            return data

    def put(self, path: str, offset: int, data: bytes) -> None:
        if not is_remote(path):
            return
        with self._lock:
            self._size += len(data) - len(self._vectors.pop((path, offset), b""))
            self._vectors[path, offset] = data
            while self._size > self._bytes_max:
                self._size -= len(self._vectors.popitem(last=False)[1])


_kept = KeptVectors(16 << 20)


def read(folder: str, descriptor: Descriptor) -> BitMap:
    """Return the rows that a descriptor of a file in the table at ``folder`` marks. Raise
    TargetError if the vector is damaged."""
    path = path_of(folder, descriptor)
    if path is None:
        where = descriptor["pathOrInlineDv"]
        return _bitmap(_from_z85(where)[: descriptor["sizeInBytes"]], "inline")
    size, offset = descriptor["sizeInBytes"], descriptor.get("offset") or 0
    if (kept := _kept.get(path, offset)) is not None:
        return _bitmap(kept, path)
    stored = read_range(path, offset, size + 8)
    data = stored[4:-4]
    if stored != struct.pack(">I", size) + data + struct.pack(">I", zlib.crc32(data)):
        raise _damaged(path)
    _kept.put(path, offset, data)
    return _bitmap(data, path)


def bitmap_of(rows: npt.NDArray[np.int64]) -> BitMap:
    """Return the bitmap of rows in any order. Raise OverflowError for a row that it can't hold.

    A bitmap takes sorted rows six times as fast as others.
    """
    ordered = np.sort(rows)
    if len(ordered) and (ordered[0] < 0 or ordered[-1] >> 32):
        raise OverflowError(f"no deletion vector holds the rows {ordered[0]} to {ordered[-1]}")
    return BitMap(array.array("I", ordered.astype(np.uint32).tobytes()))


def rows_of(marked: BitMap) -> npt.NDArray[np.uint32]:
    """Return the rows of a bitmap, ascending."""
    return np.frombuffer(marked.to_array(), np.uint32)


def joined(folder: str, add: Action, rows: BitMap) -> BitMap:
    """Return the deleted rows of the file of ``add`` after ``rows`` are also deleted. Raise
    TargetError if one of them was already deleted: its writer did not see this version."""
    vector = add.get("deletionVector")
    dead = read(folder, vector) if vector else BitMap()
    if dead & rows:
        raise TargetError("a row was to be removed twice", file=add["path"])
    return dead | rows


def path_of(folder: str, descriptor: Descriptor) -> str | None:
    """Return the file that contains a vector; None if the descriptor itself contains it."""
    kind, where = descriptor["storageType"], descriptor["pathOrInlineDv"]
    if kind == "i":
        return None
    if kind == "p":
        return data_file(folder, where)
    return os.path.join(folder, _relative_path(where))


def inner_path_of(folder: str, descriptor: Descriptor) -> str | None:
    """Return the path, relative to the table's folder, of the file that contains a vector. Return
    None if the file is outside the folder, or if the descriptor itself contains the vector."""
    kind, where = descriptor["storageType"], descriptor["pathOrInlineDv"]
    if kind == "p":
        return inner_path(folder, where)
    return None if kind == "i" else _relative_path(where)


def write(folder: str, marked: Sequence[BitMap], inline_max: int = 0) -> list[Descriptor]:
    """Return a descriptor for each vector. Descriptors contain the vectors of at most
    ``inline_max`` bytes; write the others into one file, fsynced."""
    name, out = uuid.uuid4(), bytearray(b"\x01")
    path = os.path.join(folder, f"deletion_vector_{name}.bin")
    descriptors, written = list[Descriptor](), dict[int, bytes]()
    for rows in marked:
        data = _ONE_PART + rows.serialize()
        counts = {"sizeInBytes": len(data), "cardinality": len(rows)}
        if len(data) <= inline_max:
            text = _to_z85(data + bytes(-len(data) % 4))
            descriptors.append({"storageType": "i", "pathOrInlineDv": text, **counts})
            continue
        where = {"storageType": "u", "pathOrInlineDv": _to_z85(name.bytes), "offset": len(out)}
        descriptors.append({**where, **counts})
        written[len(out)] = data
        out += struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    if written:
        with new_file(path) as file:
            file.write(out)
    for offset, data in written.items():
        _kept.put(path, offset, data)
    return descriptors


def _damaged(path: str) -> TargetError:
    return TargetError("deletion vector is damaged", file=path, hint="restore the table")


def _bitmap(data: bytes, path: str) -> BitMap:
    if len(data) < len(_ONE_PART) - 4:  # not even the number of its bitmaps
        raise _damaged(path)
    if struct.unpack_from("<I", data)[0] != MAGIC:
        raise TargetError("deletion vector has an unknown format", file=path)
    try:
        if data.startswith(_ONE_PART):
            return BitMap.deserialize(data[len(_ONE_PART) :])
        wide = BitMap64.deserialize(data[4:])
        return BitMap(wide)  # files of ours and Delta's have fewer than 2^32 rows
    except (ValueError, IndexError, OverflowError) as error:
        raise _damaged(path) from error


def _relative_path(encoded: str) -> str:
    prefix, name = encoded[:-20], uuid.UUID(bytes=_from_z85(encoded[-20:]))
    return os.path.join(prefix, f"deletion_vector_{name}.bin")


def _to_z85(data: bytes) -> str:
    text = ""
    for (word,) in struct.iter_unpack(">I", data):
        part = ""
        for _ in range(5):
            part = _Z85[word % 85] + part
            word //= 85
        text += part
    return text


def _from_z85(text: str) -> bytes:
    out = bytearray()
    for at in range(0, len(text), 5):
        word = 0
        for char in text[at : at + 5]:
            word = word * 85 + _Z85.index(char)
        out += struct.pack(">I", word)
    return bytes(out)
