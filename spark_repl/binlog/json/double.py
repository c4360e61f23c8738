"""Doubles inside JSON text: shortest digits from Arrow, formatted as the server's my_gcvt does."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..kernels.jit import Bytes, Int, Ints, copy, jit, put_digits

# strings/dtoa.cc: a number whose decimal point is outside this range is printed with an exponent.
# The exception is a number with digits after the point (17 digits, the point before the last one).
_POINT_MAX, _POINT_MIN = 15, -14
_LONGEST = 40


def insert_doubles(text: Bytes, offsets: Ints, places: Ints, bits: Ints) -> tuple[Bytes, Ints]:
    """Return ``text`` with double i in place of the byte ``places[i]``, and the rows' new
    offsets."""
    numbers = pc.cast(pa.array(bits.view(np.float64)), pa.string())
    edges = np.frombuffer(numbers.buffers()[1], np.int32)[: len(numbers) + 1]
    digits = np.frombuffer(numbers.buffers()[2], np.uint8)
    out = np.empty(text.size + _LONGEST * bits.size, np.uint8)
    moved = np.zeros_like(offsets)
    plain = np.empty(_LONGEST, np.uint8)
    used = _insert(text, offsets, places, digits, edges.astype(np.int64), plain, out, moved)
    return out[:used], moved


@jit
def _insert(
    text: Bytes,
    offsets: Ints,
    places: Ints,
    digits: Bytes,
    edges: Ints,
    plain: Bytes,
    out: Bytes,
    moved: Ints,
) -> Int:
    """Do what ``insert_doubles`` does with the printed ``digits`` of all doubles, whose bounds are
    ``edges``. Return the bytes used of ``out``. ``plain`` is a buffer for the digits of one
    number."""
    copied: Int = np.int64(0)
    to: Int = np.int64(0)
    row = 0
    for i in range(places.size + 1):
        place = places[i] if i < places.size else np.int64(text.size)
        while row < offsets.size and offsets[row] <= place:
            moved[row] = to + offsets[row] - copied
            row += 1
        copy(text, copied, place - copied, out, to)
        to += place - copied
        copied = place + 1
        if i < places.size:
            to = _double(digits[edges[i] : edges[i + 1]], plain, out, to)
    return to


@jit
def _double(source: Bytes, plain: Bytes, out: Bytes, to: Int) -> Int:
    """Convert Arrow's format (-1.5e+20) to the server's. Return the bytes used of ``out``."""
    size, zeros, point, exponent, sign, at = 0, 0, -1, 0, 1, 0
    if source[0] == 45:
        out[to] = 45
        to += 1
        at = 1
    while at < source.size and source[at] != 101:
        if source[at] == 46:
            point = size + zeros
        elif size == 0 and source[at] == 48:
            zeros += 1
        else:
            plain[size] = source[at]
            size += 1
        at += 1
    point = (size if point < 0 else point - zeros) if size else 1
    for i in range(at + 1, source.size):
        if source[i] == 45:
            sign = -1
        elif source[i] != 43:
            exponent = exponent * 10 + int(source[i]) - 48
    point += sign * exponent
    while size > 0 and plain[size - 1] == 48:
        size -= 1
    if _POINT_MIN <= point <= max(_POINT_MAX, size - 1):
        return _with_point(plain, size, point, out, to)
    out[to] = plain[0]
    to += 1
    if size > 1:
        out[to] = 46
        copy(plain, 1, size - 1, out, to + 1)
        to += size
    out[to] = 101
    to += 1
    if point < 1:
        out[to] = 45
        to += 1
    return put_digits(abs(point - 1), 1, out, to)


@jit
def _with_point(plain: Bytes, size: Int, point: Int, out: Bytes, to: Int) -> Int:
    """Print ``size`` digits with the decimal point after ``point`` of them, and at least one digit
    on either side. Return the bytes used of ``out``."""
    for i in range(min(point - 1, 0), max(size, point + 1)):
        out[to] = plain[i] if 0 <= i < size else 48
        to += 1
        if i == point - 1:
            out[to] = 46
            to += 1
    return to
