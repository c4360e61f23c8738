"""CRC32 of binary log events (zlib's polynomial), eight bytes a step, in compiled code.

Every event ends with the CRC32 of its bytes before it, little-endian. The FORMAT_DESCRIPTION
event's is computed with the flag IN_USE cleared, so a log that is still open verifies too.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from .kernels import jit

HEADER_LENGTH = 19
CRC_LENGTH = 4
_FORMAT_DESCRIPTION = 15
_FLAGS_OFFSET = 17


def _make_tables() -> np.ndarray[tuple[int, int], np.dtype[np.uint32]]:
    """uint32[8, 256]: row k holds the CRC of a byte followed by k zero bytes, without inversion."""
    table = np.zeros((8, 256), np.uint32)
    for value in range(256):
        crc = value
        for _ in range(8):
            crc = crc >> 1 ^ (0xEDB88320 if crc & 1 else 0)
        table[0, value] = crc
    for k in range(1, 8):
        table[k] = table[k - 1] >> np.uint32(8) ^ table[0][table[k - 1] & np.uint32(0xFF)]
    return table


_TABLES = _make_tables()
_T0, _T1, _T2, _T3, _T4, _T5, _T6, _T7 = (np.ascontiguousarray(row) for row in _TABLES)


@jit
def crc32_update(crc: Any, buf: np.ndarray, start: Any, end: Any) -> Any:
    """Continues ``crc`` (0 at the beginning) over uint8 ``buf[start:end]``; as zlib.crc32."""
    c = np.uint32(np.uint32(crc) ^ np.uint32(0xFFFFFFFF))
    i = start
    while i + 8 <= end:
        x = np.uint32(
            c
            ^ (
                np.uint32(buf[i])
                | np.uint32(buf[i + 1]) << np.uint32(8)
                | np.uint32(buf[i + 2]) << np.uint32(16)
                | np.uint32(buf[i + 3]) << np.uint32(24)
            )
        )
        c = np.uint32(
            _T7[x & np.uint32(0xFF)]
            ^ _T6[x >> np.uint32(8) & np.uint32(0xFF)]
            ^ _T5[x >> np.uint32(16) & np.uint32(0xFF)]
            ^ _T4[x >> np.uint32(24) & np.uint32(0xFF)]
            ^ _T3[buf[i + 4]]
            ^ _T2[buf[i + 5]]
            ^ _T1[buf[i + 6]]
            ^ _T0[buf[i + 7]]
        )
        i += 8
    while i < end:
        c = np.uint32(_T0[(c ^ np.uint32(buf[i])) & np.uint32(0xFF)] ^ c >> np.uint32(8))
        i += 1
    return np.int64(np.uint32(c ^ np.uint32(0xFFFFFFFF)))


@jit
def crc32(buf: np.ndarray, start: int, end: int) -> Any:
    """CRC32 of uint8 ``buf[start:end]`` as an int64 of 0..2**32-1."""
    return crc32_update(0, buf, start, end)


@jit
def event_crc_ok(buf: np.ndarray, start: Any, end: Any) -> Any:
    """Whether the event ``buf[start:end]`` (header, body, CRC; at least 23 bytes) has its CRC."""
    stop = end - CRC_LENGTH
    if buf[start + 4] == _FORMAT_DESCRIPTION and buf[start + _FLAGS_OFFSET] & 1:
        flag = np.empty(1, np.uint8)
        flag[0] = buf[start + _FLAGS_OFFSET] & 0xFE
        crc: Any = crc32_update(0, buf, start, start + _FLAGS_OFFSET)
        crc = crc32_update(crc, flag, 0, 1)
        crc = crc32_update(crc, buf, start + _FLAGS_OFFSET + 1, stop)
    else:
        crc = crc32_update(0, buf, start, stop)
    want = (
        np.int64(buf[stop])
        | np.int64(buf[stop + 1]) << 8
        | np.int64(buf[stop + 2]) << 16
        | np.int64(buf[stop + 3]) << 24
    )
    return crc == want


@jit
def verify_events(buf: np.ndarray, start: int, end: int) -> Any:
    """Offset of the first event of uint8 ``buf[start:end]`` whose CRC is wrong, or -1.

    An event too short for a header and a CRC, or reaching beyond ``end``, is a bad one too.
    """
    pos: Any = start
    while pos < end:
        if pos + HEADER_LENGTH + CRC_LENGTH > end:
            return pos
        length = (
            np.int64(buf[pos + 9])
            | np.int64(buf[pos + 10]) << 8
            | np.int64(buf[pos + 11]) << 16
            | np.int64(buf[pos + 12]) << 24
        )
        if length < HEADER_LENGTH + CRC_LENGTH or pos + length > end:
            return pos
        if not event_crc_ok(buf, pos, pos + length):
            return pos
        pos += length
    return -1


def event_crc(event: bytes) -> int:
    """The CRC32 a whole event, CRC included, should carry (for one event, without a kernel)."""
    head = bytearray(event[:-CRC_LENGTH])
    if head[4] == _FORMAT_DESCRIPTION:
        head[_FLAGS_OFFSET] &= 0xFE
    return zlib.crc32(head)
