"""Kernels that find the values, and the keys, of row images that were walked before."""

from __future__ import annotations

import numpy as np

from ..kernels.jit import Bytes, Int, Ints, Lengths, copy, jit, jit_allocating, short, u8
from .images import AHEAD, fetch, has_null

# The processor has detected the access pattern by this length, and prefetches the lines after it.
_FETCHED_BYTES = 192


@jit
def locate(
    buffer: Bytes,
    image: Ints,
    cursor: Ints,
    wire: Lengths,
    first: Int,
    last: Int,
    offset: Ints,
    length: Lengths,
) -> None:
    """Locate the values of the columns [first, last) in images that were walked before. All values
    are NULL if there is no image (-1).

    ``cursor`` int64[n]: where column ``first`` begins; it is moved to column ``last``. Results:
    ``offset`` int64[(last - first) * n], column by column, and ``length`` int32 of the same shape,
    -1 for NULL.
    """
    n = image.size
    for r in range(n):
        at: Int = cursor[r]
        begin = image[r]
        if r + AHEAD < n:
            fetch(buffer, cursor[r + AHEAD], cursor[r + AHEAD] + _FETCHED_BYTES)
        nulls = begin < 0 or has_null(buffer, begin, wire.size)
        cell = r
        for c in range(first, last):
            size: Int = np.int64(wire[c])
            if nulls and (begin < 0 or u8(buffer, begin + (c >> 3)) >> (c & 7) & 1):
                offset[cell], length[cell] = at, -1
                cell += n
                continue
            if size < 0:
                width = -size
                size = short(buffer, at, width)
                at += width
            offset[cell], length[cell] = at, size
            at += size
            cell += n
        cursor[r] = at


@jit_allocating
def key_offsets(key: Ints) -> Ints:
    """Return int64[n + 1]: where each entry's key begins in the concatenation of all keys."""
    out = np.empty(key.shape[0] + 1, np.int64)
    total: Int = np.int64(0)
    out[0] = 0
    for r in range(key.shape[0]):
        for i in range(0, key.shape[1], 2):
            total += key[r, i + 1] - key[r, i]
        out[r + 1] = total
    return out


@jit
def key_bytes(buffer: Bytes, key: Ints, out: Bytes) -> None:
    at = 0
    for r in range(key.shape[0]):
        for i in range(0, key.shape[1], 2):
            length = key[r, i + 1] - key[r, i]
            copy(buffer, key[r, i], length, out, at)
            at += length


@jit
def unsigned_zeros(key: Ints, run: Int, offsets: Ints, out: Bytes) -> None:
    """Replace -0.0 by 0.0 in one range, a FLOAT or DOUBLE, of the keys in ``out``."""
    for r in range(key.shape[0]):
        at: Int = offsets[r]
        for i in range(0, 2 * run, 2):
            at += key[r, i + 1] - key[r, i]
        last = at + key[r, 2 * run + 1] - key[r, 2 * run] - 1
        rest = 0
        for i in range(at, last):
            rest |= out[i]
        if rest == 0 and out[last] == 0x80:
            out[last] = 0
