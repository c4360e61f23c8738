"""Kernels that find the payloads of compressed transactions and parse their headers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..event_types import CRC_LENGTH, HEADER_LENGTH, EventType
from ..kernels.crc import event_crc_ok
from ..kernels.jit import Bytes, Int, Ints, jit, jit_allocating, number
from ..kernels.zstd_frame import frame_end
from .payload import ZSTD, Head, head_of

# ``payload_bodies`` returns these instead of an offset.
BAD_CRC, NO_PAYLOAD = -1, -2
_SIZE, _COMPRESSION, _UNCOMPRESSED = 1, 2, 3


@jit_allocating
def payload_bodies(buffer: Bytes, starts: Ints, ends: Ints, checksum: bool) -> Ints:
    """Find the body (no header, no CRC) of each transaction's TRANSACTION_PAYLOAD event.
    Transaction i is uint8 ``buffer[starts[i]:ends[i]]``. Return int64[n, 2]: begin and end of the
    body, or one of the two codes above in both."""
    tail = CRC_LENGTH if checksum else 0
    bodies = np.full((starts.size, 2), NO_PAYLOAD, np.int64)
    for i in range(starts.size):
        at = starts[i]
        while at + HEADER_LENGTH + tail <= ends[i]:
            length = number(buffer, at + 9, 4)
            if length < HEADER_LENGTH + tail or at + length > ends[i]:
                break
            if checksum and not event_crc_ok(buffer, at, at + length):
                bodies[i, 0] = bodies[i, 1] = BAD_CRC
                break
            if buffer[at + 4] == EventType.TRANSACTION_PAYLOAD:
                bodies[i, 0], bodies[i, 1] = at + HEADER_LENGTH, at + length - tail
                break
            at += length
    return bodies


@jit
def _packed(buffer: Bytes, at: Int, end: Int) -> tuple[Int, Int]:
    """Return (value, bytes) of a length-encoded integer. The bytes are 0 if its size is not one of
    the usual ones."""
    first = np.int64(buffer[at]) if at < end else np.int64(255)
    if first < 251:
        return first, 1
    width = 2 if first == 252 else (3 if first == 253 else 8)
    if first == 251 or first == 255 or at + 1 + width > end:
        return np.int64(0), 0
    return number(buffer, at + 1, width), 1 + width


@jit_allocating
def payload_heads(buffer: Bytes, bodies: Ints) -> Ints:
    """Return int64[n, 4]: the fields of each body's Head. They are zeros if the header has not the
    usual form."""
    heads = np.zeros((bodies.shape[0], 4), np.int64)
    for i in range(bodies.shape[0]):
        at, end = bodies[i, 0], bodies[i, 1]
        seen = 0
        while 0 <= at < end - 2 and 1 <= buffer[at] <= 3:
            value, width = _packed(buffer, at + 2, end)
            if width == 0 or buffer[at + 1] != width or value < 0:
                break
            seen |= 1 << buffer[at]
            heads[i, 0 if buffer[at] == _COMPRESSION else (1 if buffer[at] == _SIZE else 2)] = value
            at += 2 + width
        if seen == 14 and at < end and buffer[at] == 0:
            heads[i, 3] = at + 1 - bodies[i, 0]
        else:
            heads[i] = 0
    return heads


def small_frames(
    buffer: Bytes, bodies: Ints, heads: Ints, most: int
) -> tuple[npt.NDArray[np.bool_], Ints]:
    """Select the bodies that ``payload.decompress_all`` accepts. Such a body is exactly one zstd
    frame after its header, and decompresses to 1 to ``most`` bytes. Return (bool[n]: whether the
    body is accepted, int64[n, 2]: begin and end of its frame)."""
    compression, size, uncompressed, length = heads.T
    fits = (length > 0) & (compression == ZSTD) & (uncompressed > 0) & (uncompressed <= most)
    fits &= bodies[:, 0] + length + size == bodies[:, 1]
    places = np.column_stack((bodies[:, 0] + length, bodies[:, 1]))
    whole_frames(buffer, places, fits)
    return fits, places


@jit
def whole_frames(buffer: Bytes, places: Ints, fits: npt.NDArray[np.bool_]) -> None:
    """Set ``fits`` to False where a place holds anything but one whole zstd frame."""
    for i in range(fits.size):
        if fits[i]:
            fits[i] = frame_end(buffer, places[i, 0], places[i, 1]) == places[i, 1]


def head_at(fields: list[int], body: bytes) -> Head:
    """Return the Head that ``payload_heads`` found. If it found none, parse the body. Raise
    DecodeError if the body's header is damaged."""
    return Head(*fields) if fields[3] else head_of(body)
