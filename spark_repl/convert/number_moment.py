"""Whole numbers -> dates and TIME, as ALTER TABLE reads their digits: YYYYMMDD, YYYYMMDDhhmmss,
both also with years of two digits, and hhmmss. What the server makes of others is not known
here."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from ..sql.temporal_literals import SECOND
from ..tables.column import Form
from .exact import exact
from .temporal import put_moment, time_array, zero_date
from .type_change import Converted, TypeFamily, by_distinct, family_of

if TYPE_CHECKING:
    from .type_change import TypeChange

_START = datetime.datetime(1970, 1, 1)
_TIME_MAX = 8_385_959
_SHORT, _LENGTHS = (6, 12), (6, 8, 12, 14)


def number_moments(values: pa.Array, change: TypeChange) -> Converted:
    """0 is 0000-00-00. Raises Unconvertible for other numbers that are no date, and for 0 unless
    the column keeps such dates."""
    if change.before.unsigned and not change.plain:
        raise change.refused("whether it has ZEROFILL, whose zeros are digits, is not known")
    numbers, kind = exact(values, change), family_of(change.after)
    missing = numbers.is_null().to_numpy(zero_copy_only=False)
    read = _time if kind == TypeFamily.TIME else _date if kind == TypeFamily.DATE else _moment
    done = by_distinct(numbers, lambda n: (read(n, change), True), pa.int64()).values
    micros = pc.fill_null(done, 0).to_numpy(zero_copy_only=False)
    if kind == TypeFamily.TIME:
        return Converted(time_array(micros, missing, change.after))
    zero = done.is_null().to_numpy(zero_copy_only=False) & ~missing
    if zero.any() and change.after.form != Form.TEXT:
        raise change.refused("the server stores 0000-00-00 for 0")
    put = put_moment(micros, missing | zero, change)
    if not zero.any():
        return put
    return Converted(pc.if_else(pa.array(zero), zero_date(change.after), put.values), put.unfit)


def _moment(number: object, change: TypeChange) -> int | None:
    """Microseconds since 1970 on the session's clock; None for 0000-00-00, and for NULL."""
    if not number:
        return None
    digits = str(number)
    try:
        if len(digits) not in _LENGTHS or not digits.isdecimal():
            raise ValueError(digits)
        if len(digits) in _SHORT:
            digits = ("20" if digits < "70" else "19") + digits
        moment = datetime.datetime.strptime(digits.ljust(14, "0"), "%Y%m%d%H%M%S")
    except ValueError as error:
        raise change.refused(f"what the server makes of {number} is not known") from error
    return (moment - _START) // datetime.timedelta(microseconds=1)


def _date(number: object, change: TypeChange) -> int | None:
    micros = _moment(number, change)
    return micros and micros - micros % (86_400 * SECOND)


def _time(number: object, change: TypeChange) -> int | None:
    """Microseconds; None for NULL."""
    if number is None:
        return None
    whole = int(str(number))
    size, sign = abs(whole), -1 if whole < 0 else 1
    hour, minute, second = size // 10_000, size // 100 % 100, size % 100
    if size > _TIME_MAX or minute > 59 or second > 59:
        raise change.refused(f"what the server makes of {number} is not known")
    return sign * ((hour * 60 + minute) * 60 + second) * SECOND
