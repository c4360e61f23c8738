"""The parts that kernels share: array types, ``jit``, error codes, and functions that read,
compare, copy and print bytes and integers.

Bytes are uint8[n], read-only (so that numba compiles each kernel once). No kernel reads outside the
event that it processes. For a damaged event it returns one of the codes below, and never guesses.

In numba, ``buffer[at]`` checks the sign of every index, so the compiler can't combine four bytes
into one load. ``u8`` to ``u64``, and the functions that use them, do not check ``at``: their caller
must compare it with the event's end. Nor does ``folded_crc``, which is not used if indexes are
checked. With NUMBA_BOUNDSCHECK=1 (the fuzz tests) they index byte by
byte and are checked.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ...user_cache import cache_folder

_compile: Any = None
_compile_inlined: Any = None
_compile_allocating: Any = None
compiled = False
"""whether kernels are machine code; as Python they return the same results, slowly"""
checked = False
"""whether kernels check every index (NUMBA_BOUNDSCHECK=1)"""
try:
    import numba
    from numba.core import config as _numba_config

    from .cache import KernelCache, is_kernel_module
except ImportError:  # numba's compiler has no build for every machine
    pass
else:
    # _nrt is explicit because a kernel otherwise inherits it from the kernel that triggers its
    # compilation.
    _compile_allocating = numba.njit(nogil=True, _nrt=True)  # type: ignore[call-overload]
    _compile = numba.njit(nogil=True, _nrt=False)  # type: ignore[call-overload]
    _compile_inlined = numba.njit(nogil=True, _nrt=False, forceinline=True)  # type: ignore[call-overload]
    # numba creates the attributes when it reads the environment, so mypy doesn't see them.
    compiled = not _numba_config.DISABLE_JIT  # type: ignore[attr-defined]
    checked = bool(_numba_config.BOUNDSCHECK)  # type: ignore[attr-defined]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Lengths = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]
# numba uses int64 throughout; a kernel that runs as Python mixes the two types.
Int = int | np.int64
_A = TypeVar("_A", Bytes, Ints)
_F = TypeVar("_F", bound=Callable[..., Any])

# Codes that kernels return.
DONE, FULL, OUTSIDE, HEADER_CUT, BAD_CRC, BODY_CUT, NO_MAP, UNKNOWN_EVENT = range(8)
COMPRESSED, STATEMENT, PARTIAL_IMAGE, WIDTH, KEY_ABSENT, INCIDENT, MARIADB = range(8, 15)
WRITE, UPDATE, DELETE, PARTIAL_UPDATE = range(4)
# Columns of the row events' table.
BEGIN, END, KIND, MAP, TRANSACTION, QUERY, QUERY_END, FLAGS = range(8)
STATEMENT_END = 1
# Flags of a rows event, and of its TABLE_MAP (in FLAGS 16 bits higher).
NO_FOREIGN_KEY_CHECKS, USE_SQL_FOREIGN_KEY, REFERRED_FK_DB = 2, 16, 2 << 16


def jit(function: _F) -> _F:
    """Compile a kernel at its first call and store the code on disk (``cache``).

    The kernel must not create or return arrays. numba then need not count references to its
    arguments, which takes an atomic addition whenever one kernel passes an array to another. That
    was four fifths of the time of walking row images.

    The compiler refuses a kernel that creates an array, also by assigning a slice to another. It
    does not refuse a kernel that returns one of its arguments, but that is an error.

    Without numba, or with NUMBA_DISABLE_JIT=1, the kernel runs as Python, with the same results,
    but slowly.
    """
    return _kept(function, _compile)


def jit_inlined(function: _F) -> _F:
    """Compile a part of a kernel's loop like ``jit``, and inline it where it is called. A call
    passes seven words for each array. With one call per change, walking row images took 50 %
    longer."""
    return _kept(function, _compile_inlined)


def jit_allocating(function: _F) -> _F:
    """Compile a kernel that creates or returns arrays. Let it call other kernels for its loops."""
    return _kept(function, _compile_allocating)


def _kept(function: _F, compiler: Any) -> _F:
    if not compiled:
        return function
    kernel = compiler(function)
    if is_kernel_module(function.__module__):
        kernel._cache = KernelCache(function, cache_folder)
    return cast(_F, kernel)


_Load = Callable[[Bytes, Int], Int]
u8: _Load
u16: _Load
u32: _Load
u64: _Load
"""int64, so 2**63 and more are negative"""
copy: Callable[[Bytes, Int, Int, Bytes, Int], None]
"""copy(buffer, at, length, out, to): out[to:to + length] = buffer[at:at + length]"""
prefetch: Callable[[Bytes, Int], None]
"""prefetches the cache line of buffer[at]; any ``at`` is allowed; has no effect except on speed"""

if compiled and not checked and sys.byteorder == "little":
    from . import intrinsics

    u8, u16, u32, u64 = intrinsics.u8, intrinsics.u16, intrinsics.u32, intrinsics.u64
    copy, prefetch = intrinsics.copy, intrinsics.prefetch
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
    """Return an integer of 1 to 4 bytes. ``number`` reads any width, but its loop isn't inlined,
    which made wide rows 7 % slower."""
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


@jit
def number(buffer: Bytes, at: Int, width: Int) -> Int:
    """Return the little-endian unsigned integer of ``width`` bytes, as int64."""
    value: Int = np.int64(0)
    for i in range(width):
        value |= np.int64(buffer[at + i]) << (8 * i)
    return value


@jit
def varlen(buffer: Bytes, at: Int, limit: Int) -> tuple[Int, Int]:
    """Return (value, offset after it) of an integer with 7 bits a byte, low bits first. The value
    is -1 if it is truncated or too long."""
    value: Int = np.int64(0)
    for i in range(5):
        if at + i >= limit:
            return np.int64(-1), at
        byte = np.int64(buffer[at + i])
        value |= (byte & 127) << (7 * i)
        if byte < 128:
            return value, at + i + 1
    return np.int64(-1), at


@jit
def put_digits(value: Int, width: Int, out: Bytes, to: Int) -> Int:
    """Print a number with at least ``width`` digits. The buffer must be large enough. Return the
    bytes used."""
    size = width
    power = 10**width
    while size < 19 and value >= power:
        size += 1
        power *= 10
    for i in range(size):
        out[to + size - 1 - i] = 48 + value % 10
        value //= 10
    return to + size


@jit
def put_integer(value: Int, signed: bool, out: Bytes, to: Int) -> Int:
    """Print the integer whose 64 bits are ``value``, in up to 20 bytes. Return the bytes used."""
    rest = np.uint64(value)
    if signed and value < 0:
        out[to] = 45
        to += 1
        rest = np.uint64(-(value + 1)) + np.uint64(1)
    size = 1
    left = rest // np.uint64(10)
    while left:
        size += 1
        left = left // np.uint64(10)
    for i in range(size):
        out[to + size - 1 - i] = np.uint8(48) + np.uint8(rest % np.uint64(10))
        rest = rest // np.uint64(10)
    return to + size


@jit_allocating
def larger(array: _A, used: Int, size: Int) -> _A:
    """Return an array of twice ``size`` that begins with the ``used`` elements of ``array``."""
    grown = np.empty(2 * size, array.dtype)
    grown[:used] = array[:used]
    return grown


@jit
def is_utf8(buffer: Bytes, at: Int, length: Int) -> bool:
    """Return whether the bytes are valid UTF-8: no surrogates, nothing above U+10FFFF, no overlong
    forms."""
    end = at + length
    while at < end:
        byte = buffer[at]
        at += 1
        if byte < 0x80:
            continue
        more = 1 + (byte >= 0xE0) + (byte >= 0xF0)
        if byte < 0xC2 or byte > 0xF4 or at + more > end:
            return False
        second = buffer[at]
        low = 0xA0 if byte == 0xE0 else (0x90 if byte == 0xF0 else 0x80)
        high = 0x9F if byte == 0xED else (0x8F if byte == 0xF4 else 0xBF)
        if second < low or second > high:
            return False
        for i in range(1, more):
            if buffer[at + i] & 0xC0 != 0x80:
                return False
        at += more
    return True
