"""DECIMAL(p, s): groups of nine digits, big-endian (MySQL source, strings/decimal.cc) ->
decimal128, or text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ...errors import DecodeError
from ...tables.column import DECIMAL128_DIGITS, Column
from ..kernels.jit import Bytes, Int, Ints, Lengths, jit

if TYPE_CHECKING:
    from .column_values import Values

_DIGIT_BYTES = np.array([0, 1, 1, 2, 2, 3, 3, 4, 4, 4], np.int64)
_POWERS = np.array([10**i for i in range(10)], np.int64)
_LOW = 0xFFFFFFFF


def decode(column: Column, values: Values) -> pa.Array:
    """Return decimal128(p, s) for up to 38 digits, otherwise the text that the server prints. Raise
    DecodeError for damaged values."""
    groups = _groups(column.precision - column.scale, column.scale)
    if column.precision > DECIMAL128_DIGITS:
        return _text(column, values, groups)
    out = np.empty((len(values), 2), np.int64)
    if to_decimal128(values.buffer, values.offset, values.length, groups, out):
        raise _damaged(column)
    return values.array(column.arrow_type, out)


def _groups(whole: int, scale: int) -> Ints:
    """Return the number of digits of each stored group, in order."""
    sizes = [whole % 9] + [9] * (whole // 9) + [9] * (scale // 9) + [scale % 9]
    return np.array([size for size in sizes if size], np.int64)


def _text(column: Column, values: Values, groups: Ints) -> pa.Array:
    out = np.empty(len(values) * (column.precision + 3), np.uint8)
    digits = np.empty(column.precision, np.uint8)
    offsets = np.empty(len(values) + 1, np.int64)
    size = to_digits(
        values.buffer, values.offset, values.length, groups, column.scale, digits, offsets, out
    )
    if size < 0:
        raise _damaged(column)
    if size > np.iinfo(np.int32).max:
        raise DecodeError(
            f"{size} bytes of one column do not fit into one Arrow array",
            hint="make the groups smaller (group_max_bytes), or decode fewer entries at once",
        )
    places = pa.py_buffer(offsets.astype(np.int32))
    buffers = [values.validity, places, pa.py_buffer(out[:size].copy())]
    return pa.Array.from_buffers(pa.string(), len(values), buffers, values.null_count)


def _damaged(column: Column) -> DecodeError:
    return DecodeError(
        f"bytes that are no DECIMAL({column.precision},{column.scale})",
        hint="the log is damaged here: fetch it again, or check it with mysqlbinlog",
    )


@jit
def group_value(buffer: Bytes, at: Int, width: Int, flip: Int, first: bool) -> Int:
    """Return one group as an integer. ``flip`` is 255 for a negative number. The ``first`` group
    contains the sign."""
    value: Int = np.int64(0)
    for i in range(width):
        byte = np.int64(buffer[at + i]) ^ flip
        if first and i == 0:
            byte ^= 0x80
        value = value << 8 | byte
    return value


@jit
def to_decimal128(buffer: Bytes, offset: Ints, length: Lengths, groups: Ints, out: Ints) -> Int:
    """Write the unscaled values to ``out`` int64[n, 2]: low and high half. Return the number of
    damaged values."""
    bad = 0
    for r in range(offset.size):
        out[r, 0] = 0
        out[r, 1] = 0
        if length[r] < 0:
            continue
        at = offset[r]
        flip = 0 if buffer[at] & 0x80 else 255
        # Four limbs of 32 bits: a limb times 10**9 plus a carry stays below 2**63.
        a: Int = np.int64(0)
        b: Int = np.int64(0)
        c: Int = np.int64(0)
        d: Int = np.int64(0)
        for g in range(groups.size):
            size = groups[g]
            width = _DIGIT_BYTES[size]
            value = group_value(buffer, at, width, flip, g == 0)
            bad += value >= _POWERS[size]
            at += width
            power = _POWERS[size]
            a = a * power + value
            b = b * power + (a >> 32)
            c = c * power + (b >> 32)
            d = d * power + (c >> 32)
            a &= _LOW
            b &= _LOW
            c &= _LOW
            d &= _LOW
        low = b << 32 | a
        high = d << 32 | c
        if flip:
            low = -low
            high = ~high + (1 if low == 0 else 0)
        out[r, 0] = low
        out[r, 1] = high
    return bad


@jit
def to_digits(
    buffer: Bytes,
    offset: Ints,
    length: Lengths,
    groups: Ints,
    scale: Int,
    digits: Bytes,
    offsets: Ints,
    out: Bytes,
) -> Int:
    """Write the text of each value to ``out``. Return the bytes written, or -1 if a value is
    damaged."""
    to: Int = np.int64(0)
    offsets[0] = 0
    for r in range(offset.size):
        if length[r] >= 0:
            at = offset[r]
            flip = 0 if buffer[at] & 0x80 else 255
            n = 0
            for g in range(groups.size):
                width = _DIGIT_BYTES[groups[g]]
                value = group_value(buffer, at, width, flip, g == 0)
                if value >= _POWERS[groups[g]]:
                    return -1
                at += width
                for i in range(groups[g]):
                    digits[n + groups[g] - 1 - i] = value % 10
                    value //= 10
                n += groups[g]
            if flip:
                out[to] = 45
                to += 1
            first = 0
            while first < n - scale - 1 and digits[first] == 0:
                first += 1
            for i in range(first, n):
                if i == n - scale:
                    out[to] = 46
                    to += 1
                out[to] = 48 + digits[i]
                to += 1
        offsets[r + 1] = to
    return to
