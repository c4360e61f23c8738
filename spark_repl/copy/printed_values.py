"""Integers, dates and times of the text protocol, parsed in compiled code.

Arrow's casts need an array of texts first, and take longer. If a value is not in MySQL's usual
form, such as a zero date, there is no result, and the caller uses Arrow's casts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ..binlog.kernels.jit import Bytes, Int, Ints, Lengths, jit
from ..binlog.types.civil_calendar import days, is_date

if TYPE_CHECKING:
    from ..binlog.types.column_values import Values

_DATE, _DATETIME = 10, 19
_FRACTION_MAX = 6
_DIGITS_MAX = 19


def printed_values(values: Values, kind: pa.DataType) -> pa.Array | None:
    """Return an array of a type of integers, dates, or timestamps in microseconds. Return None for
    other types, and if a value is not in the usual form of the type."""
    out = np.empty(len(values), np.int64)
    places = values.buffer, values.offset, values.length
    if pa.types.is_integer(kind):
        bounds: Any = np.iinfo(kind.to_pandas_dtype())
        if not parse_integers(*places, int(bounds.min), int(bounds.max), out):
            return None
        return values.array(kind, out.astype(bounds.dtype))
    if pa.types.is_date32(kind):
        is_usual = parse_moments(*places, _DATE, out)
        return values.array(kind, out.astype(np.int32)) if is_usual else None
    if pa.types.is_timestamp(kind):
        return values.array(kind, out) if parse_moments(*places, _DATETIME, out) else None
    return None


@jit
def parse_integers(
    buffer: Bytes, offset: Ints, length: Lengths, low: Int, high: Int, out: Ints
) -> bool:
    """Write the integers to ``out``, 0 for NULL. Return False at the first value that is not an
    integer between ``low`` and ``high``."""
    least = np.int64(-(2**63))
    for r in range(offset.size):
        size = np.int64(length[r])
        out[r] = 0
        if size < 0:
            continue
        at = np.int64(offset[r])
        end = at + size
        negative = size > 0 and buffer[at] == 45
        at += np.int64(negative)
        if at == end or end - at > _DIGITS_MAX:
            return False
        value: Int = np.int64(0)  # negative, because -2**63 has no positive counterpart
        for i in range(at, end):
            digit = np.int64(buffer[i]) - 48
            if digit < 0 or digit > 9 or value < -922337203685477580:
                return False
            value = value * 10
            if value < least + digit:
                return False
            value -= digit
        if not negative:
            if value == least:
                return False
            value = -value
        if value < low or value > high:
            return False
        out[r] = value
    return True


@jit
def two_digits(buffer: Bytes, at: Int) -> Int:
    """Return the value of two ASCII digits, or -10000 if a byte is not a digit."""
    tens, ones = np.int64(buffer[at]) - 48, np.int64(buffer[at + 1]) - 48
    if tens < 0 or tens > 9 or ones < 0 or ones > 9:
        return np.int64(-10000)
    return tens * 10 + ones


@jit
def parse_moments(buffer: Bytes, offset: Ints, length: Lengths, least: Int, out: Ints) -> bool:
    """Write values to ``out``: days since 1970-01-01 if ``least`` is 10, microseconds since then if
    it is 19, and 0 for NULL. Return False at the first value of another form."""
    for r in range(offset.size):
        size, at = np.int64(length[r]), np.int64(offset[r])
        out[r] = 0
        if size < 0:
            continue
        if size < least or buffer[at + 4] != 45 or buffer[at + 7] != 45:
            return False
        year = two_digits(buffer, at) * 100 + two_digits(buffer, at + 2)
        month, day = two_digits(buffer, at + 5), two_digits(buffer, at + 8)
        if not is_date(year, month, day):
            return False
        value = days(year, month, day)
        if least == _DATE:
            if size != _DATE:
                return False
            out[r] = value
            continue
        if buffer[at + 10] != 32 or buffer[at + 13] != 58 or buffer[at + 16] != 58:
            return False
        hour, minute = two_digits(buffer, at + 11), two_digits(buffer, at + 14)
        second = two_digits(buffer, at + 17)
        if hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 59:
            return False
        digits = size - _DATETIME - 1
        if size != _DATETIME and (digits < 1 or digits > _FRACTION_MAX or buffer[at + 19] != 46):
            return False
        fraction: Int = np.int64(0)
        for i in range(_FRACTION_MAX):
            digit = np.int64(buffer[at + 20 + i]) - 48 if i < digits else np.int64(0)
            if digit < 0 or digit > 9:
                return False
            fraction = fraction * 10 + digit
        seconds = ((value * 24 + hour) * 60 + minute) * 60 + second
        out[r] = seconds * 1_000_000 + fraction
    return True
