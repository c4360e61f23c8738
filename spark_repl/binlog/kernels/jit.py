"""What the kernels share: array types, ``jit``, the codes they end with, reading of integers.

Bytes come as uint8[n], read-only (so that numba compiles each kernel once). No kernel reads
outside the event it works on; a damaged event ends with one of the codes below, never a guess.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

_compile: Any = None
_compile_allocating: Any = None
compiled = False
"""Whether kernels are machine code; as Python they give the same answers, slowly."""
checked = False
"""Whether they look at every index (NUMBA_BOUNDSCHECK=1)."""
try:
    import numba
    from numba.core import config as _numba_config

    from .cache import KernelCache, is_kernel_module
except ImportError:  # its compiler has no build for every machine
    pass
else:
    # Said aloud: else a kernel takes it from the one that has it compiled.
    _compile_allocating = numba.njit(nogil=True, _nrt=True)  # type: ignore[call-overload]
    _compile = numba.njit(nogil=True, _nrt=False)  # type: ignore[call-overload]
    # numba makes the attributes when it reads the environment, so mypy doesn't see them.
    compiled = not _numba_config.DISABLE_JIT  # type: ignore[attr-defined]
    checked = bool(_numba_config.BOUNDSCHECK)  # type: ignore[attr-defined]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Lengths = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]
# numba works in int64 throughout; run as Python a kernel mixes the two.
Int = int | np.int64
_A = TypeVar("_A", Bytes, Ints)
_F = TypeVar("_F", bound=Callable[..., Any])

# What a kernel ended with.
DONE, FULL, OUTSIDE, HEADER_CUT, BAD_CRC, BODY_CUT, NO_MAP, UNKNOWN_EVENT = range(8)
COMPRESSED, STATEMENT, PARTIAL_IMAGE, WIDTH, KEY_ABSENT, INCIDENT, MARIADB = range(8, 15)
WRITE, UPDATE, DELETE, PARTIAL_UPDATE = range(4)
# Columns of the row events' table.
BEGIN, END, KIND, MAP, TRANSACTION, QUERY, QUERY_END, FLAGS = range(8)
STATEMENT_END = 1
# Flags of a rows event, and of its TABLE_MAP (in FLAGS 16 bits higher).
NO_FOREIGN_KEY_CHECKS, USE_SQL_FOREIGN_KEY, REFERRED_FK_DB = 2, 16, 2 << 16


def jit(function: _F) -> _F:
    """Compiles a kernel at its first call and keeps the code on disk (``cache``).

    It makes no arrays, and returns none: so numba counts no references to those it is given, which
    was four fifths of the time of walking row images (an atomic addition whenever one kernel hands
    an array to another). Making one in it is refused when it is compiled, and assigning a slice to
    another makes one too; returning one that it was given is not refused, and wrong.
    Without numba, or with NUMBA_DISABLE_JIT=1, it runs as Python: the same answers, slowly.
    """
    return _kept(function, _compile)


def jit_allocating(function: _F) -> _F:
    """``jit`` for a kernel that makes arrays or returns them; best it calls those that loop."""
    return _kept(function, _compile_allocating)


def _kept(function: _F, compiler: Any) -> _F:
    if not compiled:
        return function
    kernel = compiler(function)
    if is_kernel_module(function.__module__):
        kernel._cache = KernelCache(function)
    return cast(_F, kernel)


@jit
def number(buffer: Bytes, at: Int, width: Int) -> Int:
    """Little-endian unsigned integer of ``width`` bytes, as int64."""
    value: Int = np.int64(0)
    for i in range(width):
        value |= np.int64(buffer[at + i]) << (8 * i)
    return value


@jit_allocating
def larger(array: _A, used: Int, size: Int) -> _A:
    """An array of twice ``size`` that begins with what is used of ``array``."""
    grown = np.empty(2 * size, array.dtype)
    grown[:used] = array[:used]
    return grown


@jit
def is_utf8(buffer: Bytes, at: Int, length: Int) -> bool:
    """Whether the bytes are text: no surrogates, nothing above U+10FFFF, nothing longer than need
    be."""
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
