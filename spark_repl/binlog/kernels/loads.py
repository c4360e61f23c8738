"""Little-endian integers from anywhere in a uint8 array, comparing and copying of bytes.

numba's own ``buffer[at]`` looks at the sign of every index, which keeps the compiler from making
one load of four bytes; these take ``at`` as it is. So whoever calls them has compared it with the
event's end. With NUMBA_BOUNDSCHECK=1 (the fuzz tests) they index byte by byte and are checked.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from .jit import Bytes, Int, checked, compiled, jit

_Load = Callable[[Bytes, Int], Int]
u8: _Load
u16: _Load
u32: _Load
u64: _Load
"""int64, so that 2**63 and more are negative"""
copy: Callable[[Bytes, Int, Int, Bytes, Int], None]
"""copy(buffer, at, length, out, to): out[to:to + length] = buffer[at:at + length]"""
prefetch: Callable[[Bytes, Int], None]
"""has the cache line of buffer[at] fetched, of any ``at``; changes nothing but the time"""

if compiled and not checked and sys.byteorder == "little":
    from . import unchecked

    u8, u16, u32, u64 = unchecked.u8, unchecked.u16, unchecked.u32, unchecked.u64
    copy, prefetch = unchecked.copy, unchecked.prefetch
else:

    def _u8(buffer: Bytes, at: Int) -> Int:
        return np.int64(buffer[at])

    def _u16(buffer: Bytes, at: Int) -> Int:
        return np.int64(buffer[at]) | np.int64(buffer[at + 1]) << 8

    u8, u16 = jit(_u8), jit(_u16)

    def _u32(buffer: Bytes, at: Int) -> Int:
        return u16(buffer, at) | u16(buffer, at + 2) << 16

    u32 = jit(_u32)

    def _u64(buffer: Bytes, at: Int) -> Int:
        return np.int64(u32(buffer, at)) | np.int64(u32(buffer, at + 4)) << 32

    def _copy(buffer: Bytes, at: Int, length: Int, out: Bytes, to: Int) -> None:
        for i in range(length):
            out[to + i] = buffer[at + i]

    def _prefetch(buffer: Bytes, at: Int) -> None:
        return

    u64, copy, prefetch = jit(_u64), jit(_copy), jit(_prefetch)


@jit
def short(buffer: Bytes, at: Int, size: Int) -> Int:
    """An integer of 1 to 4 bytes. ``jit.number`` reads any, but its loop isn't inlined, which made
    wide rows 7 % slower."""
    if size == 1:
        return u8(buffer, at)
    if size == 2:
        return u16(buffer, at)
    if size == 4:
        return u32(buffer, at)
    return u16(buffer, at) | u8(buffer, at + 2) << 16


@jit
def same(buffer: Bytes, a: Int, b: Int, length: Int) -> bool:
    i = 0
    while i + 8 <= length:
        if u64(buffer, a + i) != u64(buffer, b + i):
            return False
        i += 8
    while i < length:
        if u8(buffer, a + i) != u8(buffer, b + i):
            return False
        i += 1
    return True
