"""Kernels that print integers, as decimal digits."""

from __future__ import annotations

import numpy as np

from ..kernels.jit import Bytes, Int, jit


@jit
def put_digits(value: Int, width: Int, out: Bytes, to: Int) -> Int:
    """A number of at least ``width`` digits into a buffer with room; returns the bytes used."""
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
    """Prints the integer whose 64 bits ``value`` has, in up to 20 bytes."""
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
