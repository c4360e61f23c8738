"""DATE, DATETIME, TIMESTAMP and TIME (the formats since MySQL 5.6) -> Arrow.

Tables created before MySQL 5.6 hold TIME, DATETIME and TIMESTAMP as decimal digits, without a
fraction.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ...errors import DecodeError
from ...tables.column import Column, ColumnType, Form
from ..kernels.jit import Bools, Bytes, Int, Ints, Lengths, jit
from .civil_calendar import ZERO_DATES_HINT, big_endian, days, is_date, microseconds, put_digits
from .column_values import Values, bitmap

_MICROSECONDS_PER_SECOND = 1_000_000


def date_like(column: Column, values: Values, zero_dates: str) -> tuple[pa.Array, int]:
    """Return the values as numbers since 1970, and the number of values replaced by NULL. DATE is
    in days, DATETIME and TIMESTAMP are in microseconds.

    A zero or impossible date (0000-00-00, a month or day of 0, 31 February, the year 0) becomes
    NULL if ``zero_dates`` is "null". Otherwise raise DecodeError.
    """
    kernel = {ColumnType.DATE: dates, ColumnType.DATETIME: datetimes}.get(
        ColumnType(column.type), timestamps
    )
    out = np.empty(len(values), np.int64)
    real = np.empty(len(values), np.bool_)
    replaced = kernel(values.buffer, values.offset, values.length, column.meta, out, real)
    if replaced and zero_dates != "null":
        raise DecodeError(
            f"{replaced} zero or partial dates, the first {_first(column, values, real)}",
            hint=ZERO_DATES_HINT,
        )
    if column.type == ColumnType.DATE:
        out = out.astype(np.int32)
    nulls = len(real) - int(np.count_nonzero(real))
    validity = bitmap(real) if nulls else None
    buffers = [validity, pa.py_buffer(out)]
    return pa.Array.from_buffers(column.arrow_type, len(values), buffers, nulls), int(replaced)


def _first(column: Column, values: Values, real: Bools) -> str:
    """Return the first invalid date as the server prints it (without the time of day)."""
    row = int(np.argmax(~real & (values.length >= 0)))
    at, size = int(values.offset[row]), int(values.length[row])
    raw = values.buffer[at : at + size].tobytes()
    if column.type == ColumnType.TIMESTAMP:
        return "0000-00-00"
    if column.type == ColumnType.DATE:
        packed = int.from_bytes(raw, "little")
        year, month, day = packed >> 9, packed >> 5 & 15, packed & 31
    else:
        packed = int.from_bytes(raw[:5], "big") - (1 << 39) >> 17
        year, month, day = (packed >> 5) // 13, (packed >> 5) % 13, packed & 31
    return f"{year:04d}-{month:02d}-{day:02d}"


def time_text(column: Column, values: Values) -> pa.Array:
    """Return TIME as the server prints it: -838:59:59.000000 with the column's digits of
    fraction."""
    digits = column.meta
    out = np.empty(len(values) * (11 + digits), np.uint8)
    offsets = np.empty(len(values) + 1, np.int32)
    size = times(values.buffer, values.offset, values.length, digits, offsets, out)
    buffers = [values.validity, pa.py_buffer(offsets), pa.py_buffer(out[:size].copy())]
    return pa.Array.from_buffers(pa.string(), len(values), buffers, values.null_count)


def time_microseconds(column: Column, values: Values) -> pa.Array:
    """Return TIME as signed microseconds, int64."""
    out = np.empty(len(values), np.int64)
    durations(values.buffer, values.offset, values.length, column.meta, out)
    return values.array(pa.int64(), out)


@jit
def dates(buffer: Bytes, offset: Ints, length: Lengths, digits: Int, out: Ints, real: Bools) -> Int:
    """Convert DATE to days since 1970. Set ``real`` to False for NULL and for zero or partial
    dates. Return the number of such dates, without NULLs."""
    unreal = 0
    for r in range(offset.size):
        out[r] = 0
        real[r] = False
        if length[r] < 0:
            continue
        at = offset[r]
        packed = (
            np.int64(buffer[at]) | np.int64(buffer[at + 1]) << 8 | np.int64(buffer[at + 2]) << 16
        )
        year, month, day = packed >> 9, packed >> 5 & 15, packed & 31
        if is_date(year, month, day):
            out[r] = days(year, month, day)
            real[r] = True
        else:
            unreal += 1
    return unreal


@jit
def datetimes(
    buffer: Bytes, offset: Ints, length: Lengths, digits: Int, out: Ints, real: Bools
) -> Int:
    """Do what ``dates`` does for DATETIME(digits), in microseconds since 1970."""
    unreal = 0
    for r in range(offset.size):
        out[r] = 0
        real[r] = False
        if length[r] < 0:
            continue
        at = offset[r]
        packed = big_endian(buffer, at, 5) - (1 << 39)
        date, time = packed >> 17, packed & 0x1FFFF
        month_of_all = date >> 5
        year, month, day = month_of_all // 13, month_of_all % 13, date & 31
        hour, minute, second = time >> 12, time >> 6 & 63, time & 63
        if packed >= 0 and is_date(year, month, day):
            seconds = ((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second
            out[r] = seconds * _MICROSECONDS_PER_SECOND + microseconds(buffer, at + 5, digits)
            real[r] = True
        else:
            unreal += 1
    return unreal


@jit
def timestamps(
    buffer: Bytes, offset: Ints, length: Lengths, digits: Int, out: Ints, real: Bools
) -> Int:
    """Do what ``datetimes`` does for TIMESTAMP(digits). The value 0 is the zero date."""
    unreal = 0
    for r in range(offset.size):
        out[r] = 0
        real[r] = False
        if length[r] < 0:
            continue
        seconds = big_endian(buffer, offset[r], 4)
        fraction = microseconds(buffer, offset[r] + 4, digits)
        if seconds:
            out[r] = seconds * _MICROSECONDS_PER_SECOND + fraction
            real[r] = True
        else:
            unreal += 1
    return unreal


@jit
def times(
    buffer: Bytes, offset: Ints, length: Lengths, digits: Int, offsets: Lengths, out: Bytes
) -> Int:
    """Write the text of TIME(digits) to ``out``, and its bounds to ``offsets`` int32[n + 1]. Return
    the bytes written."""
    width = (digits + 1) // 2
    to: Int = 0
    offsets[0] = 0
    for r in range(offset.size):
        if length[r] >= 0:
            packed = big_endian(buffer, offset[r], 3 + width) - (0x800000 << (8 * width))
            if packed < 0:
                out[to] = 45
                to += 1
                packed = -packed
            whole = packed >> (8 * width)
            fraction = packed & ((1 << (8 * width)) - 1)
            hour = whole >> 12 & 1023
            to = put_digits(out, to, hour, 3 if hour > 99 else 2)
            out[to] = 58
            to = put_digits(out, to + 1, whole >> 6 & 63, 2)
            out[to] = 58
            to = put_digits(out, to + 1, whole & 63, 2)
            if digits:
                out[to] = 46
                to = put_digits(out, to + 1, fraction // (10 if digits & 1 else 1), digits)
        offsets[r + 1] = to
    return to


@jit
def durations(buffer: Bytes, offset: Ints, length: Lengths, digits: Int, out: Ints) -> None:
    """Convert TIME(digits) to microseconds; 0 for NULL."""
    width = (digits + 1) // 2
    for r in range(offset.size):
        out[r] = 0
        if length[r] < 0:
            continue
        packed = big_endian(buffer, offset[r], 3 + width) - (0x800000 << (8 * width))
        size: Int = -packed if packed < 0 else packed
        whole, fraction = size >> (8 * width), size & ((1 << (8 * width)) - 1)
        for _ in range(3 - width):
            fraction *= 100
        seconds = ((whole >> 12 & 1023) * 60 + (whole >> 6 & 63)) * 60 + (whole & 63)
        total = seconds * _MICROSECONDS_PER_SECOND + fraction
        out[r] = -total if packed < 0 else total


_HOURS_MAX = 838
_DAMAGED = "the log is damaged here: fetch it again, or check it with mysqlbinlog"


def old_moments(column: Column, values: Values, zero_dates: str) -> tuple[pa.Array, int]:
    """Return (microseconds since 1970, number of values replaced by NULL), as
    ``temporal_values.date_like`` does, but without fraction. Raise DecodeError for a zero or
    impossible date, unless ``zero_dates`` is "null"."""
    raw = values.little_endian()
    out, real = np.zeros(len(raw), np.int64), values.length >= 0
    if column.type == ColumnType.TIMESTAMP_OLD:
        real &= raw != 0
        out[real] = raw[real] * _MICROSECONDS_PER_SECOND
    else:
        moments(raw, real, out)
    replaced = len(raw) - values.null_count - int(np.count_nonzero(real))
    if replaced and zero_dates != "null":
        first = f"{int(raw[np.argmax(~real & (values.length >= 0))]):014d}"
        raise DecodeError(
            f"{replaced} zero or partial dates, the first {first[:4]}-{first[4:6]}-{first[6:8]}",
            hint=ZERO_DATES_HINT,
        )
    nulls = len(real) - int(np.count_nonzero(real))
    buffers = [bitmap(real) if nulls else None, pa.py_buffer(out)]
    return pa.Array.from_buffers(column.arrow_type, len(raw), buffers, nulls), replaced


def old_times(column: Column, values: Values) -> pa.Array:
    """Return TIME in the column's form. The stored values are +-hhmmss in 24 bits. Raise
    DecodeError for a value that is not a time."""
    raw = values.little_endian() << 40 >> 40
    size = np.abs(raw)
    hours, minutes, seconds = size // 10000, size // 100 % 100, size % 100
    if ((hours > _HOURS_MAX) | (minutes > 59) | (seconds > 59)).any():
        raise DecodeError("a TIME value that is no time", hint=_DAMAGED)
    if column.form == Form.MICROSECONDS:
        total = (hours * 3600 + minutes * 60 + seconds) * _MICROSECONDS_PER_SECOND
        return values.array(pa.int64(), np.where(raw < 0, -total, total))
    distinct, index = np.unique(raw, return_inverse=True)
    texts = [_text(int(value)) for value in distinct]
    return pa.array(texts, pa.string()).take(values.array(pa.int64(), index.astype(np.int64)))


def _text(value: int) -> str:
    size = abs(value)
    clock = f"{size // 10000:02d}:{size // 100 % 100:02d}:{size % 100:02d}"
    return f"-{clock}" if value < 0 else clock


@jit
def moments(raw: Ints, real: Bools, out: Ints) -> None:
    """Convert YYYYMMDDhhmmss to microseconds since 1970. Set ``real`` to False for a zero or
    impossible date."""
    for r in range(raw.size):
        if not real[r]:
            continue
        date, time = raw[r] // 1_000_000, raw[r] % 1_000_000
        year, month, day = date // 10_000, date // 100 % 100, date % 100
        hour, minute, second = time // 10_000, time // 100 % 100, time % 100
        if raw[r] < 0 or not is_date(year, month, day) or hour > 23 or minute > 59 or second > 59:
            real[r] = False
            continue
        seconds = ((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second
        out[r] = seconds * 1_000_000
