"""CRC32 of binary log events (zlib's polynomial), 8 or 16 bytes a step, in compiled code.

Every event ends with the little-endian CRC32 of its preceding bytes. The server computes the CRC of
FORMAT_DESCRIPTION with the flag IN_USE cleared, so a log that is still open also verifies.

``folded_crc`` does 16 bytes a step, if the processor has the instructions.
"""

from __future__ import annotations

import platform
import zlib
from typing import Any

import numpy as np

from ..event_types import CRC_LENGTH, HEADER_LENGTH, EventType
from .jit import checked, compiled, jit


def _has_instruction() -> bool:
    if not compiled or checked or platform.machine() not in ("x86_64", "AMD64"):
        return False
    from llvmlite import binding
    from numba.core import config

    # Of the processor that numba compiles for; LLVM ends the process if it lacks an instruction.
    given: str | None = config.CPU_FEATURES  # type: ignore[attr-defined]
    features = binding.get_host_cpu_features().flatten() if given is None else given
    return {"+pclmul", "+ssse3"} <= set(features.split(","))


AVAILABLE = _has_instruction()

if AVAILABLE:
    from .folded_crc import FOLDED_BYTES_MIN, folded_crc

_FLAGS_OFFSET = 17


def _make_tables() -> np.ndarray[tuple[int, int], np.dtype[np.uint32]]:
    """Return uint32[8, 256]: row k holds the CRC of a byte followed by k zero bytes, without
    inversion."""
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
def _step(low: Any, high: Any) -> Any:
    """Return the CRC, not inverted, of eight bytes. The CRC of the preceding bytes is already XORed
    into ``low``."""
    return np.uint32(
        _T7[low & np.uint32(0xFF)]
        ^ _T6[low >> np.uint32(8) & np.uint32(0xFF)]
        ^ _T5[low >> np.uint32(16) & np.uint32(0xFF)]
        ^ _T4[low >> np.uint32(24)]
        ^ _T3[high & np.uint32(0xFF)]
        ^ _T2[high >> np.uint32(8) & np.uint32(0xFF)]
        ^ _T1[high >> np.uint32(16) & np.uint32(0xFF)]
        ^ _T0[high >> np.uint32(24)]
    )


@jit
def _four(buf: np.ndarray, at: Any) -> Any:
    return np.uint32(
        np.uint32(buf[at])
        | np.uint32(buf[at + 1]) << np.uint32(8)
        | np.uint32(buf[at + 2]) << np.uint32(16)
        | np.uint32(buf[at + 3]) << np.uint32(24)
    )


@jit
def _by_tables(c: Any, buf: np.ndarray, start: Any, end: Any) -> Any:
    i = start
    while i + 8 <= end:
        c = _step(np.uint32(c ^ _four(buf, i)), _four(buf, i + 4))
        i += 8
    while i < end:
        c = np.uint32(_T0[(c ^ np.uint32(buf[i])) & np.uint32(0xFF)] ^ c >> np.uint32(8))
        i += 1
    return c


@jit
def _by_folding(c: Any, buf: np.ndarray, start: Any, end: Any) -> Any:
    if end - start < FOLDED_BYTES_MIN:
        return _by_tables(c, buf, start, end)
    return folded_crc(c, buf, start, end)


_continued = _by_folding if AVAILABLE else _by_tables


@jit
def crc32_update(crc: Any, buf: np.ndarray, start: Any, end: Any) -> Any:
    """Continue ``crc`` (0 at the beginning) over uint8 ``buf[start:end]``, as zlib.crc32 does."""
    c = _continued(np.uint32(np.uint32(crc) ^ np.uint32(0xFFFFFFFF)), buf, start, end)
    return np.int64(np.uint32(c ^ np.uint32(0xFFFFFFFF)))


@jit
def _crc32_byte(crc: Any, byte: Any) -> Any:
    c = np.uint32(np.uint32(crc) ^ np.uint32(0xFFFFFFFF))
    c = np.uint32(_T0[(c ^ np.uint32(byte)) & np.uint32(0xFF)] ^ c >> np.uint32(8))
    return np.int64(np.uint32(c ^ np.uint32(0xFFFFFFFF)))


@jit
def crc32(buf: np.ndarray, start: int, end: int) -> Any:
    """Return the CRC32 of uint8 ``buf[start:end]`` as an int64 of 0..2**32-1."""
    return crc32_update(0, buf, start, end)


@jit
def event_crc_ok(buf: np.ndarray, start: Any, end: Any) -> Any:
    """Return whether the event ``buf[start:end]`` (header, body, CRC; at least 23 bytes) has its
    CRC."""
    stop = end - CRC_LENGTH
    if buf[start + 4] == EventType.FORMAT_DESCRIPTION and buf[start + _FLAGS_OFFSET] & 1:
        crc: Any = crc32_update(0, buf, start, start + _FLAGS_OFFSET)
        crc = _crc32_byte(crc, buf[start + _FLAGS_OFFSET] & 0xFE)
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
    """Return the offset of the first event of uint8 ``buf[start:end]`` whose CRC is wrong, or -1.

    An event that is too short for a header and a CRC, or that reaches beyond ``end``, also counts
    as wrong.
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
    """Return the correct CRC32 of a complete event that includes a CRC. Use it only for single
    events: it is not compiled."""
    head = bytearray(event[:-CRC_LENGTH])
    if head[4] == EventType.FORMAT_DESCRIPTION:
        head[_FLAGS_OFFSET] &= 0xFE
    return zlib.crc32(head)
