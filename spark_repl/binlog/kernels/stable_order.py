"""Stable order of integers: a radix sort. It takes half of NumPy's time for random integers, and a
sixth if they are in a small range. NumPy takes less for a few ascending runs, which it merges."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from . import jit
from .jit import jit_allocating

_BITS = 11
_FEW, _RUN = 2048, 16
"""NumPy is faster for fewer than ``_FEW`` integers, and for runs that are longer than ``_RUN`` on
average"""


def stable_order(integers: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return int64[n], the indexes that sort ``integers`` [n], which are signed. Equal ones keep
    their order."""
    assert integers.dtype.kind == "i"
    if len(integers) < _FEW or not jit.compiled or _runs(integers) * _RUN < len(integers):
        return np.argsort(integers, kind="stable")
    keys = integers.astype(np.int64).view(np.uint64)
    keys ^= np.uint64(1 << 63)
    order: npt.NDArray[np.int64] = _order(keys)
    return order


def _runs(integers: npt.NDArray[Any]) -> int:
    """Return the number of ascending runs, or of descending ones if these are fewer."""
    falls = int(np.count_nonzero(integers[1:] < integers[:-1]))
    return 1 + min(falls, len(integers) - 1 - falls)


@jit_allocating
def _order(keys: Any) -> Any:
    """Sort by 11 bits at a time, the lowest first, and leave out bits in which all keys agree.
    ``keys`` is overwritten."""
    n = keys.size
    differ = np.uint64(0)
    for i in range(1, n):
        differ |= keys[i] ^ keys[0]
    order, other, other_keys = np.arange(n), np.empty(n, np.int64), np.empty(n, np.uint64)
    place = np.empty(1 << _BITS, np.int64)
    mask = np.uint64((1 << _BITS) - 1)
    for shift in range(0, 64, _BITS):
        by = np.uint64(shift)
        if (differ >> by) & mask == 0:
            continue
        place[:] = 0
        for i in range(n):
            place[np.int64((keys[i] >> by) & mask)] += 1
        before = np.int64(0)
        for digit in range(place.size):
            before, place[digit] = before + place[digit], before
        for i in range(n):
            of_key = np.int64((keys[i] >> by) & mask)
            at = place[of_key]
            place[of_key] = at + 1
            other[at], other_keys[at] = order[i], keys[i]
        order, other = other, order
        keys, other_keys = other_keys, keys
    return order
