"""decode_column: the values of one column, given as places in a buffer -> Arrow array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ...errors import DecodeError
from ...tables.column import BINARY, CHARACTER_TYPES, OLD_MOMENTS, Column, ColumnType, Form
from ..charsets.charset import REPLACEMENT, TEXT_ERRORS_HINT
from ..types import decimals, geometry_vector, temporal_values, text_values
from ..types.column_values import Values, bitmap
from ..types.date_text import date_text

if TYPE_CHECKING:
    from ..kernels.jit import Ints
    from ..types.forms import Forms

_T = ColumnType
_INTEGER_BITS = {_T.TINY: 8, _T.SHORT: 16, _T.INT24: 24, _T.LONG: 32, _T.LONGLONG: 64}


def decode_column(column: Column, values: Values, forms: Forms) -> tuple[pa.Array, int]:
    """Return the array of the column's Arrow type, for all types except JSON, and the number of
    values that were replaced: dates by NULL, characters by U+FFFD. Raise DecodeError for values
    that can't be decoded."""
    kind = column.type
    if column.form == Form.TEXT:
        return date_text(column, values), 0
    if kind in CHARACTER_TYPES:
        return _character(column, values, forms.text_errors)
    if kind in _INTEGER_BITS or kind == _T.YEAR:
        return _integer(column, values), 0
    if kind in (_T.DATE, _T.DATETIME, _T.TIMESTAMP):
        return temporal_values.date_like(column, values, forms.zero_dates)
    if kind in OLD_MOMENTS:
        return temporal_values.old_moments(column, values, forms.zero_dates)
    if kind == _T.TIME:
        micros = column.form == Form.MICROSECONDS
        return (temporal_values.time_microseconds if micros else temporal_values.time_text)(
            column, values
        ), 0
    if kind == _T.TIME_OLD:
        return temporal_values.old_times(column, values), 0
    if kind == _T.DECIMAL:
        return decimals.decode(column, values), 0
    if kind in (_T.FLOAT, _T.DOUBLE):
        return _float(column, values), 0
    if kind == _T.BIT:
        return _bit(column, values), 0
    if kind == _T.ENUM:
        return _enum(column, values, forms.text_errors)
    if kind == _T.SET:
        return _set(column, values, forms.text_errors)
    if kind == _T.GEOMETRY:
        return geometry_vector.geometry(column, values), 0
    if kind == _T.VECTOR:
        return geometry_vector.vector(values), 0
    raise DecodeError(f"type {column.type_name} is not decoded by this version")


def first_refused(decode: Callable[[Values], object], values: Values) -> int:
    """Return the first row that can't be decoded. ``decode`` must have refused at least one."""
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        part = Values(values.buffer, values.offset[low:middle], values.length[low:middle])
        try:
            decode(part)
            low = middle
        except DecodeError:
            high = middle
    return low


def _character(column: Column, values: Values, text_errors: str) -> tuple[pa.Array, int]:
    if column.collation != BINARY:
        return text_values.decode(values, column.collation, text_errors)
    if column.type == _T.STRING:
        return text_values.padded(values, column.meta), 0
    return text_values.gather(values, pa.binary()), 0


def _integer(column: Column, values: Values) -> pa.Array:
    kind = column.arrow_type
    if pa.types.is_decimal(kind):
        wide = np.zeros((len(values), 2), np.int64)
        wide[:, 0] = values.little_endian()
        return values.array(kind, wide)
    if column.type == _T.YEAR:
        year = values.little_endian(np.int16)
        return values.array(kind, np.where(year == 0, np.int16(0), year + np.int16(1900)))
    bits = 64 if column.unsigned else _INTEGER_BITS[ColumnType(column.type)]
    return values.array(kind, values.little_endian(f"i{kind.byte_width}", bits))


def _float(column: Column, values: Values) -> pa.Array:
    whole = np.uint32 if column.type == _T.FLOAT else np.int64
    return values.array(column.arrow_type, values.little_endian(whole))


def _bit(column: Column, values: Values) -> pa.Array:
    """Decode BIT(1) as bool, and BIT(n) as its stored big-endian bytes."""
    if column.meta != 1:
        return text_values.gather(values, pa.binary())
    buffers = [values.validity, bitmap(values.little_endian() == 1)]
    return pa.Array.from_buffers(pa.bool_(), len(values), buffers, values.null_count)


def _enum(column: Column, values: Values, text_errors: str) -> tuple[pa.Array, int]:
    """Return the literal of each index, and the number of replaced texts. Index 0, an invalid
    value, is the empty string. Raise DecodeError for an index without a literal."""
    index = values.little_endian()
    if len(index) and index.max() > len(column.literals):
        raise DecodeError(
            f"ENUM index {index.max()} of {len(column.literals)} values",
            hint="the log is damaged here: fetch it again, or check it with mysqlbinlog",
        )
    texts = ("", *column.literals)
    count = _replaced_members(texts, index, values, text_errors)
    return pa.array(texts, pa.string()).take(values.array(pa.int64(), index)), count


def _set(column: Column, values: Values, text_errors: str) -> tuple[pa.Array, int]:
    """Return the members of each value as a comma-separated list, and the number of replaced texts.
    Decode each distinct bitmap once, in Python. Raise DecodeError for a bit without a member."""
    distinct, index = np.unique(values.little_endian().view(np.uint64), return_inverse=True)
    if len(distinct) and int(distinct[-1]) >> len(column.literals):
        raise DecodeError(
            f"SET value {int(distinct[-1]):#x} of {len(column.literals)} members",
            hint="the log is damaged here: fetch it again, or check it with mysqlbinlog",
        )
    names = [
        ",".join(name for i, name in enumerate(column.literals) if int(bits) >> i & 1)
        for bits in distinct
    ]
    count = _replaced_members(names, index.astype(np.int64), values, text_errors)
    places = values.array(pa.int64(), index.astype(np.int64))
    return pa.array(names, pa.string()).take(places), count


def _replaced_members(texts: Sequence[str], index: Ints, values: Values, text_errors: str) -> int:
    """Return how many values have a text, ``texts[index[i]]``, with a member that has bytes without
    a character: the table's definition contains U+FFFD for them. Raise DecodeError for the first
    such value if ``text_errors`` is "error"."""
    faulty = [number for number, name in enumerate(texts) if REPLACEMENT in name]
    if not faulty:
        return 0
    rows = np.flatnonzero(np.isin(index, faulty) & (values.length >= 0))
    if len(rows) and text_errors == "error":
        name = texts[int(index[rows[0]])]
        raise DecodeError(
            f"the value {name!r} has bytes that are not text in the column's character set",
            hint=TEXT_ERRORS_HINT,
        ).of_row(int(rows[0]))
    return len(rows)
