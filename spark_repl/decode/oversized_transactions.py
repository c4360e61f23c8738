"""Reading a transaction that may be larger than memory: its events, window by window."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from ..binlog.event_types import CRC_LENGTH, HEADER_LENGTH, EventType
from ..binlog.events.event import parse_header
from ..binlog.events.payload import Payload
from ..binlog.events.windows import read_exactly, windows
from ..errors import DecodeError

if TYPE_CHECKING:
    from ..binlog.kernels.jit import Bytes

_PIECE_BYTES = 1 << 20


def file_too_short() -> DecodeError:
    """Return the error of a file that lost bytes after it was indexed."""
    return DecodeError(
        "the file is shorter than when it was indexed",
        hint="was it truncated or replaced while the applier ran?",
    )


@dataclass(frozen=True)
class Extent:
    """The bytes ``file[start:end]`` of a transaction. ``checksum``: its events end with a CRC32."""

    start: int
    end: int
    checksum: bool


def plain_windows(file: BinaryIO, extent: Extent, size: int) -> Iterator[tuple[Bytes, bool]]:
    """Yield the events of an uncompressed transaction in windows of about ``size`` bytes.

    Yields (window, whether its events end with a CRC32).
    """
    start, end = extent.start, extent.end
    if file.seek(0, os.SEEK_END) < end:
        raise file_too_short()
    file.seek(start)
    for window in windows(file, end - start, size):
        yield window, extent.checksum


def payload_windows(file: BinaryIO, extent: Extent, size: int) -> Iterator[tuple[Bytes, bool]]:
    """Yield the events inside a compressed transaction in windows of about ``size`` bytes.

    Yields (window, False): events inside a payload have no CRC. The payload's own CRC32 is
    verified before anything is decompressed.
    """
    end, checksum = extent.end, extent.checksum
    if file.seek(0, os.SEEK_END) < end:
        raise file_too_short()
    at, tail = extent.start, CRC_LENGTH if checksum else 0
    while at + HEADER_LENGTH + tail <= end:
        file.seek(at)
        header = parse_header(file.read(HEADER_LENGTH))
        length = header.length
        if length < HEADER_LENGTH + tail or at + length > end:
            break
        if checksum:
            _verify(file, at, length - tail)
        if header.type == EventType.TRANSACTION_PAYLOAD:
            file.seek(at + HEADER_LENGTH)
            payload = Payload(file, length - HEADER_LENGTH - tail)
            for window in windows(payload, payload.uncompressed, size):
                yield window, False
            payload.check_end()
            return
        at += length
    raise DecodeError("a compressed transaction has no payload")


def _verify(file: BinaryIO, at: int, size: int) -> None:
    """Raise DecodeError if the CRC32 that follows the ``size`` bytes at ``at`` is wrong."""
    file.seek(at)
    crc, left = 0, size
    while left:
        piece = read_exactly(file, min(left, _PIECE_BYTES))
        crc, left = zlib.crc32(piece, crc), left - len(piece)
    if crc != int.from_bytes(file.read(CRC_LENGTH), "little"):
        raise DecodeError("an event's CRC32 is wrong")
