"""The (proleptic) Gregorian calendar: which dates there are, and their days since 1970."""

from __future__ import annotations

import numpy as np

from ..kernels.jit import Int, jit

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
    """Days from 1970-01-01 to a date of the (proleptic) Gregorian calendar, year >= 1."""
    year -= 1 if month <= 2 else 0
    era = year // 400
    year_of_era = year - era * 400
    day_of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * 146097 + day_of_era - 719468
