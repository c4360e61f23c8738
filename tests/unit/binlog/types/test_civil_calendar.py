"""Which dates there are, against Python's own calendar; SET values that no member has."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest

from spark_repl.binlog.rows.decode_column import decode_column
from spark_repl.binlog.types.column_values import Values
from spark_repl.binlog.types.forms import USUAL
from spark_repl.binlog.types.temporal_values import days, is_date
from spark_repl.errors import DecodeError
from spark_repl.tables.column import Column, ColumnType

_YEARS = (1, 4, 100, 400, 1582, 1600, 1700, 1899, 1900, 1904, 1970, 2000, 2100, 2400, 9999)


def real(year: int, month: int, day: int) -> bool:
    try:
        date(year, month, day)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("year", [0, *_YEARS])
def test_dates_are_those_of_the_calendar(year):
    """Century years are leap years every fourth time only: 1900-02-29 is no date."""
    for month in range(14):
        for day in range(33):
            assert is_date(year, month, day) == real(year, month, day), (year, month, day)


@pytest.mark.parametrize("year", _YEARS)
def test_days_since_1970_are_those_of_pythons_calendar(year):
    first = date(1970, 1, 1).toordinal()
    for month in range(1, 13):
        for day in (1, 28):
            assert days(year, month, day) == date(year, month, day).toordinal() - first


def sets(bits: list[int], members: int) -> list[str]:
    column = Column("s", ColumnType.SET, 1, True, literals=tuple("abcdefgh"[:members]))
    data = np.array(bits, np.uint8)
    values = Values(data, np.arange(len(bits), dtype=np.int64), np.ones(len(bits), np.int32))
    found: list[str] = decode_column(column, values, USUAL)[0].to_pylist()
    return found


def test_set_bits_without_a_member_are_an_error():
    assert sets([0, 1, 5, 7], 3) == ["", "a", "a,c", "a,b,c"]
    with pytest.raises(DecodeError, match="SET value 0x8 of 3 members"):
        sets([1, 8], 3)
