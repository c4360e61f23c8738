"""Columns of exact numbers, and columns that the server reads as numbers, as decimal256(76,
scale)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..tables.column import ColumnType
from .number_text import INTEGRAL
from .type_change import TypeChange, TypeFamily, by_distinct, family_of


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
