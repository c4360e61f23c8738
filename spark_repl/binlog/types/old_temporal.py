"""TIME, DATETIME and TIMESTAMP of tables created before MySQL 5.6: decimal digits, no fraction."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ...errors import DecodeError
from ...tables.column import Column, ColumnType, Form
from ..kernels.jit import Bools, Ints, jit
from .civil_calendar import ZERO_DATES_HINT, days, is_date
from .column_values import Values, bitmap

_MICROSECONDS_PER_SECOND = 1_000_000
_HOURS_MAX = 838
_DAMAGED = "the log is damaged here: fetch it again, or check it with mysqlbinlog"


def old_moments(column: Column, values: Values, zero_dates: str) -> tuple[pa.Array, int]:
    """Return (microseconds since 1970, number of values replaced by NULL), as
    ``temporal_values.date_like`` does, but without fraction. Raise DecodeError for a date that no
    calendar has, unless ``zero_dates`` is "null"."""
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
    DecodeError for a value that is no time."""
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
    """Convert YYYYMMDDhhmmss to microseconds since 1970. Set ``real`` to False if no calendar has
    the date."""
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
