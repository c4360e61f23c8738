"""TRANSACTION_PAYLOAD events: a transaction's events compressed into one (mysql.md 1.9).

The events inside carry no CRC; the payload event's own CRC covers them.
"""

from __future__ import annotations

from dataclasses import dataclass

import zstandard

from ..errors import DecodeError
from .packed import Packed

_END, _PAYLOAD_SIZE, _COMPRESSION, _UNCOMPRESSED_SIZE = range(4)
_ZSTD, _NONE = 0, 255
# A server compresses transactions up to 1 GiB; above that a size is damage, not data.
_LARGEST = 1 << 31
_HINT = "the log is damaged here; fetch it again, or check it with mysqlbinlog"


@dataclass(frozen=True, slots=True)
class _Payload:
    compression: int
    uncompressed: int
    data: memoryview


def decompress(body: bytes) -> bytes:
    """The concatenated inner events of a payload event's body (no 19-byte header, no CRC)."""
    payload = _parse(body)
    if payload.compression == _NONE:
        return bytes(payload.data)
    if payload.compression != _ZSTD:
        raise DecodeError(
            f"transaction payload has the unknown compression {payload.compression}", hint=_HINT
        )
    try:
        reader = zstandard.ZstdDecompressor().stream_reader(payload.data, read_across_frames=True)
        events = reader.read(payload.uncompressed + 1)
    except zstandard.ZstdError as error:
        raise DecodeError(f"transaction payload: {error}", hint=_HINT) from error
    if len(events) != payload.uncompressed:
        raise DecodeError(
            f"transaction payload holds {'at least ' * (len(events) > payload.uncompressed)}"
            f"{len(events)} bytes, its header says {payload.uncompressed}",
            hint=_HINT,
        )
    return events


def payload_size(body: bytes) -> int:
    """Bytes of the inner events, by the payload's header; ``body`` may end after the header."""
    return _parse(body, whole=False).uncompressed


def _parse(body: bytes, *, whole: bool = True) -> _Payload:
    packed = Packed(body, "TRANSACTION_PAYLOAD event")
    fields: dict[int, int] = {}
    while (tag := packed.number()) != _END:
        value = Packed(packed.take(packed.number()), "TRANSACTION_PAYLOAD field")
        if tag in (_PAYLOAD_SIZE, _COMPRESSION, _UNCOMPRESSED_SIZE):
            fields[tag] = value.number()
    size = fields.get(_PAYLOAD_SIZE, -1)
    # MySQL writes no uncompressed size when nothing is compressed.
    uncompressed = fields.get(_UNCOMPRESSED_SIZE, size)
    if _COMPRESSION not in fields or size < 0 or uncompressed > _LARGEST:
        raise DecodeError(f"transaction payload with the fields {fields}", hint=_HINT)
    if whole and packed.left != size:
        raise DecodeError(
            f"transaction payload of {packed.left} bytes, its header says {size}", hint=_HINT
        )
    data = memoryview(body)[len(body) - packed.left :]
    return _Payload(fields[_COMPRESSION], uncompressed, data)
