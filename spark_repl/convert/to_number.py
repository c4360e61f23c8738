"""Convert numbers and text to a column of numbers: the value that the server stores, and whether it
fits.

Exact numbers are decimal256(76, scale). They are rounded half away from zero, doubles to the
nearest even integer, as the server's C code does. In text, spaces before the number and everything
after it are dropped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..tables.column import DECIMAL128_DIGITS, Column, ColumnType
from .number_text import DIGITS, INTEGRAL, plain_text
from .type_change import Converted, TypeChange, TypeFamily, by_distinct, either, family_of

_T = ColumnType
_BITS = {_T.TINY: 8, _T.SHORT: 16, _T.INT24: 24, _T.LONG: 32, _T.LONGLONG: 64}
_LONGLONG = (-(1 << 63), (1 << 63) - 1)
_FLOAT_MAX = float(np.finfo(np.float32).max)
_DOUBLE_MAX = float(np.finfo(np.float64).max)
_WIDE = Context(prec=400)
_DECIMAL_SCALE_MAX = 30
_OF_64_BITS = pa.decimal256(22, 0)
_SPACE = r"[ \t\n\v\f\r]*"
_NUMBER = re.compile(_SPACE + r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))([eE][+-]?[0-9]+)?", re.ASCII)
_EMPTY = re.compile(_SPACE)
_WHOLE = rf"^{_SPACE}[+-]?[0-9]{{1,18}}{_SPACE}$"
_DIGITS_MAX, _EXPONENT_MAX, _SCALE = 40, 30, 30
_HALF_AND_MORE = pa.decimal256(76, _SCALE)
_context = Context(prec=200)
_YEAR = re.compile(r"[0-9]{1,4}", re.ASCII)


def integer_range(column: Column) -> tuple[int, int]:
    bits = _BITS[ColumnType(column.type)]
    return (0, (1 << bits) - 1) if column.unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)


def store_exact(number: pa.Array, change: TypeChange) -> Converted:
    """Store exact numbers in a column of any numeric type. For a target other than DECIMAL and
    floats, a DECIMAL is first converted to a signed integer of 64 bits. Raise Unconvertible if the
    result is not known."""
    kind = ColumnType(change.after.type)
    if kind == _T.DECIMAL:
        return _to_decimal(number, change.after)
    if kind in (_T.FLOAT, _T.DOUBLE):
        return store_real(number.cast(pa.string()).cast(pa.float64()), change)
    whole, beyond = rounded(number, 0), None
    if change.before.type == _T.DECIMAL:
        whole, beyond = _clamped(whole, *_LONGLONG)
    stored = _store_whole(whole, change)
    return Converted(stored.values, either(stored.unfit, beyond))


def store_integer(whole: pa.Array, after: Column) -> Converted:
    """Store integers of 64 bits in a column of integers, as ``store_exact`` does, but without
    decimals."""
    low, high = integer_range(after)
    least, most = max(low, _LONGLONG[0]), min(high, _LONGLONG[1])
    under, over = pc.less(whole, least), pc.greater(whole, most)
    unfit = pc.or_(under, over)
    if pc.any(unfit).as_py():
        whole = pc.if_else(under, least, pc.if_else(over, most, whole))
    return Converted(whole.cast(after.arrow_type), unfit)


def _store_whole(whole: pa.Array, change: TypeChange) -> Converted:
    if change.after.type == _T.YEAR:
        return _to_year(whole)
    if change.after.type == _T.BIT:
        return _to_bit(whole, change)
    low, high = integer_range(change.after)
    clamped, unfit = _clamped(whole, low, high)
    return Converted(clamped.cast(change.after.arrow_type), unfit)


def store_real(number: pa.Array, change: TypeChange) -> Converted:
    """Store doubles in a column of any numeric type. Raise Unconvertible if the result is not
    known. For FLOAT(M,D) and DOUBLE(M,D), it is known only for the plain form."""
    after = change.after
    if after.type not in (_T.FLOAT, _T.DOUBLE):
        if after.type == _T.DECIMAL:
            return by_distinct(number, _decimal_of(change), pa.string()).cast_to(after.arrow_type)
        return _through_longlong(number, change)
    if not change.plain:
        raise change.refused("whether it rounds to a number of digits is not known")
    limit = _FLOAT_MAX if after.type == _T.FLOAT else _DOUBLE_MAX
    values = number.to_numpy(zero_copy_only=False)
    stored = np.clip(np.where(np.isnan(values), 0, values), 0 if after.unsigned else -limit, limit)
    # An unsigned -0.0 keeps its sign.
    stored = np.where(values == 0, values, stored)
    unfit = stored != values
    kind = np.float32 if after.type == _T.FLOAT else np.float64
    missing = number.is_null().to_numpy(zero_copy_only=False)
    return Converted(pa.array(stored.astype(kind), mask=missing), pa.array(unfit, mask=missing))


def rounded(number: pa.Array, scale: int) -> pa.Array:
    """Return decimal256(76, scale); the type must have room for the integer digits."""
    if scale < number.type.scale:
        number = pc.round(number, scale, "half_towards_infinity")
    return number.cast(pa.decimal256(DIGITS, scale))


def _limit(value: Decimal | int, kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(Decimal(value), kind)


def _clamped(number: pa.Array, low: int, high: int) -> tuple[pa.Array, pa.Array]:
    least, most = _limit(low, number.type), _limit(high, number.type)
    under, over = pc.less(number, least), pc.greater(number, most)
    return pc.if_else(under, least, pc.if_else(over, most, number)), pc.or_(under, over)


def _to_year(whole: pa.Array) -> Converted:
    """Store years: 1 to 69 are 2001 to 2069, 70 to 99 are 1970 to 1999."""
    small, _ = _clamped(whole, -1, 10_000)
    year = small.cast(pa.int64())
    year = pc.if_else(
        pc.and_(pc.greater(year, 0), pc.less(year, 100)),
        pc.add(year, pc.if_else(pc.less(year, 70), 2000, 1900)),
        year,
    )
    unfit = pc.and_(pc.not_equal(year, 0), pc.or_(pc.less(year, 1901), pc.greater(year, 2155)))
    return Converted(pc.if_else(unfit, 0, year).cast(pa.int16()), unfit)


def _to_bit(whole: pa.Array, change: TypeChange) -> Converted:
    """Store BIT: a negative number as its two's complement of 64 bits. Raise Unconvertible for a
    number of more than 64 bits."""
    low, high = _LONGLONG[0], (1 << 64) - 1
    _, beyond = _clamped(whole, low, high)
    if pc.any(beyond).as_py():
        raise change.refused("what BIT makes of a number of more than 64 bits is not known")
    bits = change.after.meta
    full = (1 << bits) - 1
    whole = whole.cast(_OF_64_BITS)
    negative = pc.less(whole, _limit(0, whole.type))
    shifted = pc.add(whole, _limit(1 << 64, whole.type)).cast(_OF_64_BITS)
    unsigned = pc.if_else(negative, shifted, whole)
    stored, unfit = _clamped(unsigned, 0, full)
    return Converted(bit_array(stored, bits), unfit)


def bit_array(number: pa.Array, bits: int) -> pa.Array:
    """Return the Arrow array of BIT(bits): BooleanArray, or big-endian bytes."""
    if bits == 1:
        return pc.not_equal(number, _limit(0, number.type))
    width = (bits + 7) // 8
    missing = number.is_null()
    raw = np.asarray(pc.fill_null(number.cast(pa.decimal128(20, 0)), 0).cast(pa.uint64()))
    data = raw.astype(">u8").view(np.uint8).reshape(-1, 8)[:, 8 - width :]
    array = pa.Array.from_buffers(
        pa.binary(width), len(number), [None, pa.py_buffer(np.ascontiguousarray(data))]
    ).cast(pa.binary())
    return pc.if_else(missing, pa.scalar(None, pa.binary()), array)


def _to_decimal(number: pa.Array, after: Column) -> Converted:
    precision, scale = after.precision, after.scale
    whole = precision - scale
    unfit, most = None, Decimal(10**precision - 1).scaleb(-scale, _WIDE)
    least = Decimal(0) if after.unsigned else most.copy_negate()
    cut = rounded(number, min(scale, number.type.scale))
    under = over = None
    if whole + cut.type.scale < DIGITS:
        edge = _limit(10**whole, cut.type)
        over = pc.greater_equal(cut, edge)
        under = pc.less_equal(cut, _limit(-(10**whole), cut.type))
    if after.unsigned:
        under = pc.less(number, _limit(0, number.type))
    unfit = either(under, over)
    if unfit is not None:
        cut = pc.if_else(unfit, _limit(0, cut.type), cut)
    stored = cut.cast(pa.decimal256(DIGITS, scale))
    if over is not None:
        stored = pc.if_else(over, _limit(most, stored.type), stored)
    if under is not None:
        stored = pc.if_else(under, _limit(least, stored.type), stored)
    return Converted(decimal_array(stored, after), unfit)


def decimal_array(number: pa.Array, column: Column) -> pa.Array:
    """Return the Arrow array of a DECIMAL column of this scale: decimal128, or text."""
    if column.precision > DECIMAL128_DIGITS:
        return plain_text(number)
    return number.cast(column.arrow_type)


def _decimal_of(change: TypeChange) -> Any:
    """Return a function from a double to the text of the DECIMAL that the server makes of its
    shortest digits. The function raises Unconvertible if the direction of rounding is not known."""
    after = change.after
    most = Decimal(10**after.precision - 1).scaleb(-after.scale, _WIDE)
    unit, fine = (Decimal(1).scaleb(-n) for n in (after.scale, _DECIMAL_SCALE_MAX))

    def store(value: float | None) -> tuple[str | None, bool]:
        if value is None:
            return None, True
        exact = Decimal(repr(value))
        number = exact.quantize(unit, ROUND_HALF_UP, _WIDE)
        twice = exact.quantize(fine, ROUND_HALF_UP, _WIDE).quantize(unit, ROUND_HALF_UP, _WIDE)
        if number != twice:
            raise change.refused(f"which way {value!r} is rounded is not known")
        if after.unsigned and exact < 0:
            return f"{unit - unit:f}", False
        if abs(number) > most:
            return f"{most.copy_sign(number):f}", False
        return f"{abs(number) if number == 0 else number:f}", True

    return store


def _through_longlong(number: pa.Array, change: TypeChange) -> Converted:
    """Store doubles by way of a signed integer of 64 bits. Raise Unconvertible for a FLOAT beyond
    64 bits."""
    values = np.rint(number.to_numpy(zero_copy_only=False))
    missing = number.is_null().to_numpy(zero_copy_only=False)
    values = np.where(missing, 0, values)
    beyond = np.abs(values) >= 2.0**63
    if beyond.any() and change.before.type == _T.FLOAT:
        raise change.refused("what a FLOAT beyond 64 bits becomes depends on the server's machine")
    whole = np.where(beyond, 0, values).astype(np.int64)
    whole = np.where(beyond, np.where(values > 0, _LONGLONG[1], _LONGLONG[0]), whole)
    stored = store_exact(pa.array(whole, mask=missing).cast(INTEGRAL), change)
    return Converted(stored.values, either(stored.unfit, pa.array(beyond, mask=missing)))


def store_number_text(texts: pa.Array, change: TypeChange) -> Converted:
    """Store text in a column of any numeric type. Raise Unconvertible if the server's reading is
    not known."""
    kind = change.after.type
    if kind in (ColumnType.YEAR, ColumnType.BIT):
        texts = by_distinct(texts, _only_digits(change), pa.string()).values
    elif kind in (ColumnType.FLOAT, ColumnType.DOUBLE):
        doubles = by_distinct(texts, _double(change), pa.float64())
        return _joined(doubles, store_real(doubles.values, change))
    if pc.all(pc.match_substring_regex(texts, _WHOLE)).as_py() is not False:
        bare = pc.ascii_trim(texts, "+ \t\n\v\f\r")
        if family_of(change.after) == TypeFamily.INTEGER:
            return store_integer(bare.cast(pa.int64()), change.after)
        return store_exact(bare.cast(pa.int64()).cast(pa.decimal256(76, 0)), change)
    doubles = by_distinct(texts, _exact(change), _HALF_AND_MORE)
    return _joined(doubles, store_exact(doubles.values, change))


def _joined(read: Converted, stored: Converted) -> Converted:
    return Converted(stored.values, either(read.unfit, stored.unfit), "is no such number")


def _exact(change: TypeChange) -> Callable[[str | None], tuple[Decimal | None, bool]]:
    """Return a function from text to a decimal of 30 fractional digits, truncated. The function
    raises Unconvertible if the server's reading is not known."""
    integral = change.after.type != ColumnType.DECIMAL
    zero = Decimal(0)

    def read(text: str | None) -> tuple[Decimal | None, bool]:
        if text is None:
            return None, True
        match = _NUMBER.match(text)
        if not match:
            return zero, False
        exponent = match[2] or ("e99" if _half_exponent(text, match.end()) else "e0")
        if (integral and exponent != "e0") or abs(int(exponent[1:])) > _EXPONENT_MAX:
            raise change.refused(f"how the server reads the exponent of {text!r} is not known")
        if len(match[1]) > _DIGITS_MAX:
            raise change.refused(f"how the server reads the digits of {text!r} is not known")
        number = Decimal(match[0].strip())
        cut = number.quantize(Decimal(1).scaleb(-_SCALE), "ROUND_DOWN", _context)
        if abs(number) >= 10**45 or (change.after.scale == _SCALE and cut != number):
            raise change.refused(f"how the server reads a number as large as {text!r} is not known")
        return cut, _rest_is_empty(text, match.end())

    return read


def _half_exponent(text: str, end: int) -> bool:
    return text[end : end + 1] in ("e", "E")


def _rest_is_empty(text: str, end: int) -> bool:
    return bool(_EMPTY.fullmatch(text, end))


def _double(change: TypeChange) -> Callable[[str | None], tuple[float | None, bool]]:
    def read(text: str | None) -> tuple[float | None, bool]:
        if text is None:
            return None, True
        match = _NUMBER.match(text)
        if not match:
            return 0.0, False
        if len(match[1]) > _DIGITS_MAX:
            raise change.refused(f"how the server reads the digits of {text!r} is not known")
        value = float(match[0])
        if value == 0 and match[1].strip("+-0."):
            raise change.refused(f"{text!r} is too near to 0")
        if math.isinf(value):
            return value, False
        return value, _rest_is_empty(text, match.end())

    return read


def _only_digits(change: TypeChange) -> Callable[[str | None], tuple[str | None, bool]]:
    """Return a function that accepts plain digits only: YEAR and BIT read other text in their own
    ways. The function raises Unconvertible for other text."""
    is_year = change.after.type == ColumnType.YEAR

    def read(text: str | None) -> tuple[str | None, bool]:
        if text is None:
            return None, True
        plain = _YEAR.fullmatch(text) if is_year else re.fullmatch(r"-?[0-9]{1,18}", text, re.ASCII)
        if not plain or (is_year and int(text) < 100 and not (len(text) < 3 and int(text))):
            raise change.refused(f"how the server reads {text!r} is not known")
        return text, True

    return read
