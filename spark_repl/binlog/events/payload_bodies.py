"""Where the payloads of compressed transactions lie, and what their headers say: kernels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..event_types import CRC_LENGTH, HEADER_LENGTH, EventType
from ..kernels.crc import event_crc_ok
from ..kernels.jit import Bytes, Int, Ints, jit, jit_allocating, number
from ..kernels.zstd_frame import frame_end
from .payload import ZSTD, Head, head_of

# What ``payload_bodies`` gives instead of a place.
BAD_CRC, NO_PAYLOAD = -1, -2
_SIZE, _COMPRESSION, _UNCOMPRESSED = 1, 2, 3


@jit_allocating
def payload_bodies(buffer: Bytes, starts: Ints, ends: Ints, checksum: bool) -> Ints:
    """int64[n, 2]: begin and end of the body (no header, no CRC) of each transaction's
    TRANSACTION_PAYLOAD event in uint8 ``buffer[starts[i]:ends[i]]``, or twice one of the above."""
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
    """(value, bytes) of a length-encoded integer; 0 bytes when it is none of the usual size."""
    first = np.int64(buffer[at]) if at < end else np.int64(255)
    if first < 251:
        return first, 1
    width = 2 if first == 252 else (3 if first == 253 else 8)
    if first == 251 or first == 255 or at + 1 + width > end:
        return np.int64(0), 0
    return number(buffer, at + 1, width), 1 + width


@jit_allocating
def payload_heads(buffer: Bytes, bodies: Ints) -> Ints:
    """int64[n, 4]: the fields of each body's Head; zeros where it is not of the usual form."""
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
    """(bool[n], int64[n, 2]): which bodies ``payload.decompress_all`` may be given, and where in
    them it finds its bytes: one zstd frame that is all there is, of 1 to ``most`` bytes inside."""
    compression, size, uncompressed, length = heads.T
    fits = (length > 0) & (compression == ZSTD) & (uncompressed > 0) & (uncompressed <= most)
    fits &= bodies[:, 0] + length + size == bodies[:, 1]
    places = np.column_stack((bodies[:, 0] + length, bodies[:, 1]))
    whole_frames(buffer, places, fits)
    return fits, places


@jit
def whole_frames(buffer: Bytes, places: Ints, fits: npt.NDArray[np.bool_]) -> None:
    """Makes ``fits`` False where a place holds anything but one whole zstd frame."""
    for i in range(fits.size):
        if fits[i]:
            fits[i] = frame_end(buffer, places[i, 0], places[i, 1]) == places[i, 1]


def head_at(fields: list[int], body: bytes) -> Head:
    """The Head of the fields that ``payload_heads`` has found, or else of the body; DecodeError."""
    return Head(*fields) if fields[3] else head_of(body)
