"""Binary JSON as a server may write it, from Python values."""

from __future__ import annotations

import struct
from typing import Any


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
