"""The server's text of a number, and the digits of exact numbers. Conversions hold exact numbers as
decimal256(76, scale).

``exact`` returns columns of numbers, and columns that the server reads as numbers, in that form.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..binlog.json.double import insert_doubles
from ..tables.column import ColumnType
from .type_change import TypeChange, TypeFamily, by_distinct, family_of

_FLOAT_WIDTH, _DOUBLE_WIDTH, _DOUBLE_EXPONENT_WIDTH = 12, 22, 27
DIGITS = 76
INTEGRAL = pa.decimal256(DIGITS, 0)


def real_text(number: pa.Array, change: TypeChange) -> pa.Array:
    """Return FLOAT with six digits and DOUBLE with as many digits as identify it. Numbers that are
    longer than the server's width for a column have an exponent. Raise Unconvertible if the
    server's short form is not known."""
    values = pc.fill_null(number.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
    is_float = change.before.type == ColumnType.FLOAT
    if is_float:
        values = np.array([float(f"{value:.5e}") for value in values], np.float64)
    ones, bits = np.arange(len(values) + 1), np.ascontiguousarray(values).view(np.int64)
    digits, offsets = insert_doubles(np.zeros(len(values), np.uint8), ones, ones[:-1], bits)
    buffers = pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(digits)
    texts = pa.StringArray.from_buffers(len(values), *buffers)
    # JSON prints a fractional digit always, SQL only if it is not zero.
    texts = pc.replace_substring_regex(texts, r"\.0$", "")
    width = _FLOAT_WIDTH if is_float else _DOUBLE_WIDTH
    if pc.any(pc.greater(pc.binary_length(texts), width)).as_py():
        texts = by_distinct(texts, _with_exponent(width, change), pa.string()).values
    return pc.if_else(number.is_null(), pa.scalar(None, pa.string()), texts)


def _with_exponent(width: int, change: TypeChange) -> Callable[[str], tuple[str, bool]]:
    def shorten(text: str) -> tuple[str, bool]:
        if len(text) <= width:
            return text, True
        sign, digits, exponent = Decimal(text).normalize().as_tuple()
        plain = "".join(map(str, digits))
        point = "." if len(plain) > 1 else ""
        power = int(exponent) + len(plain) - 1
        short = f"{'-' * sign}{plain[0]}{point}{plain[1:]}e{power}"
        # The server prints some slightly longer DOUBLEs without an exponent.
        between = width == _DOUBLE_WIDTH and len(text) < _DOUBLE_EXPONENT_WIDTH
        if len(short) > width or between:
            raise change.refused(f"how the server shortens {text} is not known")
        return short, True

    return shorten


def plain_text(number: pa.Array) -> pa.Array:
    """Return the digits of decimals with all fractional digits, never with an exponent."""
    scale = number.type.scale
    wide = number if pa.types.is_decimal256(number.type) else number.cast(pa.decimal256(76, scale))
    buffers = wide.buffers()
    whole = pa.Array.from_buffers(
        pa.decimal256(76, 0), len(wide), buffers, wide.null_count, wide.offset
    )
    digits = whole.cast(pa.string())
    if scale == 0:
        return digits
    sign = pc.if_else(pc.starts_with(digits, "-"), "-", "")
    padded = pc.utf8_lpad(pc.utf8_ltrim(digits, "-"), scale + 1, "0")
    front = pc.utf8_slice_codeunits(padded, 0, -scale)
    fraction = pc.utf8_slice_codeunits(padded, -scale)
    return pc.binary_join_element_wise(sign, front, ".", fraction, "").cast(pa.string())


def exact(values: pa.Array, change: TypeChange) -> pa.Array:
    """Return the values as numbers; those of ENUM and SET as their members' numbers. Raise
    Unconvertible if the number of a member is not known."""
    kind = family_of(change.before)
    if kind in (TypeFamily.ENUM, TypeFamily.SET):
        return _numbers_of(values, change)
    if kind == TypeFamily.DECIMAL:
        return values.cast(pa.decimal256(76, change.before.scale))
    if kind == TypeFamily.BIT and not pa.types.is_boolean(values.type):
        return _of_bytes(values, (change.before.meta + 7) // 8)
    whole = values if pa.types.is_decimal(values.type) else values.cast(pa.int64())
    return whole.cast(INTEGRAL)


def _numbers_of(values: pa.Array, change: TypeChange) -> pa.Array:
    """Return the number of each ENUM (its place in the list, from 1) or SET (its bits). Raise
    Unconvertible for an empty string, which may be a member or the value of an error."""
    column = change.before
    if "" in column.literals and pc.any(pc.equal(values, "")).as_py():
        raise change.refused("'' may be one of the members or the value of an error")
    if column.type == ColumnType.ENUM:
        place = pc.index_in(values, pa.array(column.literals, pa.string()))
        number = pc.add(pc.fill_null(place, -1), 1)
        number = pc.if_else(values.is_null(), pa.scalar(None, pa.int32()), number)
        return number.cast(pa.decimal256(76, 0))
    bits = {literal: 1 << i for i, literal in enumerate(column.literals)}

    def number_of(value: str | None) -> tuple[int | None, bool]:
        return (
            None if value is None else sum(bits[member] for member in value.split(",") if member)
        ), True

    return by_distinct(values, number_of, pa.decimal128(20, 0)).values.cast(pa.decimal256(76, 0))


def _of_bytes(values: pa.Array, width: int) -> pa.Array:
    """Return numbers from big-endian bytes, ``width`` for each value."""
    filled = pc.fill_null(values, b"\0" * width).cast(pa.binary(width))
    raw = np.zeros((len(values), 8), np.uint8)
    data = np.frombuffer(filled.buffers()[1], np.uint8)[filled.offset * width :]
    raw[:, 8 - width :] = data[: len(values) * width].reshape(-1, width)
    numbers = raw.view(">u8").ravel().astype(np.uint64)
    missing = values.is_null().to_numpy(zero_copy_only=False)
    return pa.array(numbers, mask=missing).cast(INTEGRAL)
