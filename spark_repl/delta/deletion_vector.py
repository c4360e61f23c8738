"""Deletion vectors as the Delta protocol writes them: which rows of a file are gone.

Protocol: section "Deletion Vectors". A file holds a version byte and then, for each vector, its
length (big-endian), the bytes (magic 1681511377 and a portable 64-bit roaring bitmap,
little-endian) and their CRC-32 (big-endian). ``joined`` adds rows to those that are gone.
"""

from __future__ import annotations

import os
import struct
import uuid
import zlib
from typing import TYPE_CHECKING, Any

from pyroaring import BitMap, BitMap64

from ..errors import TargetError
from .new_file import new_file
from .storage import data_file, inner_path, read_range

if TYPE_CHECKING:
    from .log_replay import Action

MAGIC = 1681511377
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"

Descriptor = dict[str, Any]


def read(folder: str, descriptor: Descriptor) -> BitMap:
    """The rows that a descriptor of a file in the table at ``folder`` marks."""
    path = path_of(folder, descriptor)
    if path is None:
        where = descriptor["pathOrInlineDv"]
        return _bitmap(_from_z85(where)[: descriptor["sizeInBytes"]], "inline")
    size = descriptor["sizeInBytes"]
    stored = read_range(path, descriptor.get("offset") or 0, size + 8)
    data = stored[4:-4]
    if stored != struct.pack(">I", size) + data + struct.pack(">I", zlib.crc32(data)):
        raise TargetError("deletion vector is damaged", file=path, hint="restore the table")
    return _bitmap(data, path)


def joined(folder: str, add: Action, rows: BitMap) -> BitMap:
    """The rows of the file that ``add`` names that are gone when ``rows`` go, too. Raises
    TargetError when one of them was gone already: whoever marked it didn't see this version."""
    vector = add.get("deletionVector")
    dead = read(folder, vector) if vector else BitMap()
    if dead & rows:
        raise TargetError("a row was to be removed twice", file=add["path"])
    return dead | rows


def path_of(folder: str, descriptor: Descriptor) -> str | None:
    """The file that a vector lies in; None: it lies in the descriptor itself."""
    kind, where = descriptor["storageType"], descriptor["pathOrInlineDv"]
    if kind == "i":
        return None
    if kind == "p":
        return data_file(folder, where)
    return os.path.join(folder, _relative_path(where))


def inner_path_of(folder: str, descriptor: Descriptor) -> str | None:
    """Return the path, relative to the table's folder, of the file that a vector lies in. Return
    None if it is outside of the folder, or if the vector lies in the descriptor itself."""
    kind, where = descriptor["storageType"], descriptor["pathOrInlineDv"]
    if kind == "p":
        return inner_path(folder, where)
    return None if kind == "i" else _relative_path(where)


def write(folder: str, marked: list[BitMap]) -> list[Descriptor]:
    """Writes the vectors into one file, fsynced; returns a descriptor for each."""
    name = uuid.uuid4()
    out, descriptors = bytearray(b"\x01"), []
    for rows in marked:
        data = struct.pack("<IQI", MAGIC, 1, 0) + rows.serialize()
        descriptors.append(
            {
                "storageType": "u",
                "pathOrInlineDv": _to_z85(name.bytes),
                "offset": len(out),
                "sizeInBytes": len(data),
                "cardinality": len(rows),
            }
        )
        out += struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    with new_file(os.path.join(folder, f"deletion_vector_{name}.bin")) as file:
        file.write(out)
    return descriptors


def _bitmap(data: bytes, path: str) -> BitMap:
    if struct.unpack_from("<I", data)[0] != MAGIC:
        raise TargetError("deletion vector has an unknown format", file=path)
    wide = BitMap64.deserialize(data[4:])
    return BitMap(wide)  # files of ours and Delta's have fewer than 2^32 rows


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
