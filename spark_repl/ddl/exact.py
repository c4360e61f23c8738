"""Columns of exact numbers, and of what the server counts as numbers, as decimal256(76, scale)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .decimal_text import INTEGRAL
from .members import numbers_of
from .type_change import TypeChange, TypeFamily, family_of


def exact(values: pa.Array, change: TypeChange) -> pa.Array:
    """The values themselves; those of ENUM and SET as their members' numbers. Raises
    Unconvertible."""
    kind = family_of(change.before)
    if kind in (TypeFamily.ENUM, TypeFamily.SET):
        return numbers_of(values, change)
    if kind == TypeFamily.DECIMAL:
        return values.cast(pa.decimal256(76, change.before.scale))
    if kind == TypeFamily.BIT and not pa.types.is_boolean(values.type):
        return _of_bytes(values, (change.before.meta + 7) // 8)
    whole = values if pa.types.is_decimal(values.type) else values.cast(pa.int64())
    return whole.cast(INTEGRAL)


def _of_bytes(values: pa.Array, width: int) -> pa.Array:
    """Big-endian bytes, ``width`` of each value."""
    filled = pc.fill_null(values, b"\0" * width).cast(pa.binary(width))
    raw = np.zeros((len(values), 8), np.uint8)
    data = np.frombuffer(filled.buffers()[1], np.uint8)[filled.offset * width :]
    raw[:, 8 - width :] = data[: len(values) * width].reshape(-1, width)
    numbers = raw.view(">u8").ravel().astype(np.uint64)
    missing = values.is_null().to_numpy(zero_copy_only=False)
    return pa.array(numbers, mask=missing).cast(INTEGRAL)
