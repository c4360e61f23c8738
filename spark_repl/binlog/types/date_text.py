"""DATE, DATETIME and TIMESTAMP as the server prints them (in UTC), including 0000-00-00 and partial
dates.

Used for ``zero_dates = "string"``: every stored value has a text, so no value is lost or refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ...errors import DecodeError
from ...tables.column import Column, ColumnType
from ..kernels.jit import Bools, Bytes, Int, Ints, Lengths, jit
from .civil_calendar import big_endian, microseconds, put_digits

if TYPE_CHECKING:
    from .column_values import Values

_T = ColumnType
_DATE, _DATETIME, _TIMESTAMP, _DATETIME_OLD, _TIMESTAMP_OLD = range(5)
_KINDS = {
    _T.DATE: _DATE,
    _T.DATETIME: _DATETIME,
    _T.TIMESTAMP: _TIMESTAMP,
    _T.DATETIME_OLD: _DATETIME_OLD,
    _T.TIMESTAMP_OLD: _TIMESTAMP_OLD,
}
_DAMAGED = "the log is damaged here: fetch it again, or check it with mysqlbinlog"


def date_text(column: Column, values: Values) -> pa.Array:
    """Return the values as a StringArray. Raise DecodeError for bytes that the server never writes
    (a month of 13)."""
    kind = _KINDS[ColumnType(column.type)]
    width = 10 if kind == _DATE else 19 + (column.meta + 1 if column.meta else 0)
    raw = values.little_endian()  # used by the old formats, which have up to 8 bytes
    present = values.length >= 0
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(np.where(present, width, 0), out=offsets[1:])
    out = np.empty(int(offsets[-1]), np.uint8)
    bad = print_dates(kind, column.meta, values.buffer, values.offset, raw, present, offsets, out)
    if bad >= 0:
        raise DecodeError(f"a {column.type_name} value that is no date", hint=_DAMAGED)
    buffers = [values.validity, pa.py_buffer(offsets), pa.py_buffer(out)]
    return pa.Array.from_buffers(pa.string(), len(values), buffers, values.null_count)


@jit
def civil(days: Int) -> tuple[Int, Int, Int]:
    """Return (year, month, day) of days since 1970-01-01: the inverse of
    ``civil_calendar.days``."""
    days += 719468
    era = days // 146097
    of_era = days - era * 146097
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year + era * 400 + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1


@jit
def date_parts(kind: Int, buffer: Bytes, at: Int, raw: Int) -> tuple[Int, Int, Int, Int]:
    """Return (year, month, day, hour << 12 | minute << 6 | second) of one value."""
    if kind == _DATE:
        packed: Int = (
            np.int64(buffer[at]) | np.int64(buffer[at + 1]) << 8 | np.int64(buffer[at + 2]) << 16
        )
        return packed >> 9, packed >> 5 & 15, packed & 31, np.int64(0)
    if kind == _DATETIME:
        packed = big_endian(buffer, at, 5) - (1 << 39)
        months = packed >> 22
        return months // 13, months % 13, packed >> 17 & 31, packed & 0x1FFFF
    if kind == _DATETIME_OLD:
        date, time = raw // 1_000_000, raw % 1_000_000
        clock = time // 10_000 << 12 | time // 100 % 100 << 6 | time % 100
        return date // 10_000, date // 100 % 100, date % 100, clock
    seconds = big_endian(buffer, at, 4) if kind == _TIMESTAMP else raw
    if seconds == 0:
        return np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    year, month, day = civil(seconds // 86400)
    second = seconds % 86400
    return year, month, day, second // 3600 << 12 | second // 60 % 60 << 6 | second % 60


@jit
def print_dates(
    kind: Int,
    digits: Int,
    buffer: Bytes,
    offset: Ints,
    raw: Ints,
    present: Bools,
    offsets: Lengths,
    out: Bytes,
) -> Int:
    """Write the text of each value, starting at offsets[r]. Return the first row that is not a
    date, or -1."""
    for r in range(offset.size):
        if not present[r]:
            continue
        at = offset[r]
        year, month, day, clock = date_parts(kind, buffer, at, raw[r])
        hour, minute, second = clock >> 12, clock >> 6 & 63, clock & 63
        if year < 0 or year > 9999 or month > 12 or day > 31:
            return r
        if hour > 23 or minute > 59 or second > 59:
            return r
        to: Int = put_digits(out, np.int64(offsets[r]), year, 4)
        out[to] = 45
        to = put_digits(out, to + 1, month, 2)
        out[to] = 45
        to = put_digits(out, to + 1, day, 2)
        if kind == _DATE:
            continue
        out[to] = 32
        to = put_digits(out, to + 1, hour, 2)
        out[to] = 58
        to = put_digits(out, to + 1, minute, 2)
        out[to] = 58
        to = put_digits(out, to + 1, second, 2)
        if digits:
            fraction = microseconds(buffer, at + (5 if kind == _DATETIME else 4), digits)
            out[to] = 46
            for _ in range(6 - digits):
                fraction //= 10
            to = put_digits(out, to + 1, fraction, digits)
    return -1
