"""Shared code for dates and times: the (proleptic) Gregorian calendar as days since 1970, and the
storage and printing of their integers and fractions."""

from __future__ import annotations

import numpy as np

from ..kernels.jit import Bytes, Int, jit

ZERO_DATES_HINT = (
    'zero_dates = "null" reads them as NULL; "string" keeps all dates as text, in a new target'
)
_DAYS_PER_MONTH = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], np.int64)


@jit
def is_date(year: Int, month: Int, day: Int) -> bool:
    if year < 1 or year > 9999 or month < 1 or month > 12 or day < 1:
        return False
    if month == 2 and day == 29:
        return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return bool(day <= _DAYS_PER_MONTH[month])


@jit
def days(year: Int, month: Int, day: Int) -> Int:
    """Return the days from 1970-01-01 to a date of the (proleptic) Gregorian calendar, year >=
    1."""
    year -= 1 if month <= 2 else 0
    era = year // 400
    year_of_era = year - era * 400
    day_of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * 146097 + day_of_era - 719468


@jit
def big_endian(buffer: Bytes, at: Int, width: Int) -> Int:
    value: Int = np.int64(0)
    for i in range(width):
        value = value << 8 | np.int64(buffer[at + i])
    return value


@jit
def microseconds(buffer: Bytes, at: Int, digits: Int) -> Int:
    """Return the fraction that is stored in (digits + 1) // 2 bytes, in microseconds."""
    width = (digits + 1) // 2
    value = big_endian(buffer, at, width)
    for _ in range(3 - width):
        value *= 100
    return value


@jit
def put_digits(out: Bytes, at: Int, value: Int, count: Int) -> Int:
    """Write ``count`` decimal digits of ``value``. Return where they end."""
    for i in range(count):
        out[at + count - 1 - i] = 48 + value % 10
        value //= 10
    return at + count
