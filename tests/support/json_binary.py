"""Binary JSON as a server may write it, from Python values."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from spark_repl.errors import DecodeError

RECORDED = json.loads((Path(__file__).parents[1] / "fixtures/json/documents.json").read_text())
"""[binary in hex, text] of each document, as a server had them"""


def item(one: Any) -> bytes:
    """A type byte and the value in binary JSON, its containers large ones."""
    if isinstance(one, bytes):
        return one
    if isinstance(one, str):
        data = one.encode()
        return b"\x0c" + varlen(len(data)) + data
    if isinstance(one, int):
        return b"\x09" + struct.pack("<q", one)
    names, parts = list[bytes](), one
    if isinstance(one, dict):
        names = sorted((key.encode() for key in one), key=lambda key: (len(key), key))
        parts = [one[name.decode()] for name in names]
    at = 8 + 6 * len(names) + 5 * len(parts)
    heads, entries, bodies = b"", b"", b""
    for name in names:
        heads += struct.pack("<IH", at, len(name))
        at += len(name)
    for part in map(item, parts):
        entries += part[:1] + struct.pack("<I", at + len(bodies))
        bodies += part[1:]
    kind = b"\x01" if isinstance(one, dict) else b"\x03"
    size = at + len(bodies)
    return kind + struct.pack("<II", len(parts), size) + heads + entries + b"".join(names) + bodies


def varlen(size: int) -> bytes:
    out = b""
    while size > 127:
        out += bytes([size & 127 | 128])
        size >>= 7
    return out + bytes([size])


def laid_out(documents: tuple[bytes | None, ...], around: bytes) -> tuple[Any, Any, Any]:
    """(buffer, offset, length) of the documents, None being NULL, with ``around`` between them."""
    buffer, offset, length = bytearray(around), [], []
    for document in documents:
        offset.append(len(buffer))
        length.append(-1 if document is None else len(document))
        buffer += (document or b"") + around
    return np.frombuffer(bytes(buffer), np.uint8), np.array(offset), np.array(length)


def damaged() -> Iterator[bytes]:
    """Recorded documents, cut and changed."""
    random = np.random.default_rng(4)
    small = [bytes.fromhex(binary) for binary, _ in RECORDED if binary and len(binary) < 700]
    for document in small:
        yield from [document[: random.integers(len(document))] for _ in range(4)]
        for _ in range(12):
            other = bytearray(document)
            other[random.integers(len(other))] = random.integers(256)
            yield bytes(other)


def outcomes(convert: Callable[..., Any], document: bytes) -> set[str]:
    """Results and errors with other bytes around the document."""
    found = set()
    for around in (b"", b"\0" * 40, b"\xff" * 40):
        try:
            found.add(repr(convert(document, around=around)))
        except DecodeError as error:
            found.add(error.message)
    return found
