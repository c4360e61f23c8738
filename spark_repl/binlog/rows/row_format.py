"""RowFormat: the widths of a table's values in a row image, for the kernels that walk images."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...errors import DecodeError
from ...tables.column import ColumnType

if TYPE_CHECKING:
    from ...tables.source_table import SourceTable
    from ..kernels.jit import Ints, Lengths

SKIP, PREFIX, MARK = range(3)
"""columns of ``RowFormat.steps``, which describe an image without NULLs"""

_T = ColumnType
_FIXED = {
    _T.TINY: 1,
    _T.SHORT: 2,
    _T.INT24: 3,
    _T.LONG: 4,
    _T.LONGLONG: 8,
    _T.FLOAT: 4,
    _T.DOUBLE: 8,
    _T.YEAR: 1,
    _T.DATE: 3,
    _T.NULL: 0,
    _T.NEWDATE: 3,
    _T.TIMESTAMP_OLD: 4,
    _T.TIME_OLD: 3,
    _T.DATETIME_OLD: 8,
}
FLOATS = frozenset((_T.FLOAT, _T.DOUBLE))
_FRACTIONAL = {_T.TIME: 3, _T.DATETIME: 5, _T.TIMESTAMP: 4}
_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


class RowFormat(NamedTuple):
    """The widths of the values in a table's row images, and the position of its key in them.
    Without ``bounds`` the kernels locate images but not their keys."""

    wire: Lengths
    """int32[columns]: bytes of a value, or minus the bytes of its length prefix"""
    bounds: Ints
    """int64[2 * runs]: begin and end of each run of adjacent key columns, ascending; a FLOAT or
    DOUBLE is a run of its own"""
    steps: Ints
    """int64[k, 3]: how to walk an image without NULLs. First skip SKIP bytes. Then store the offset
    as bound MARK, unless it is -1. Then skip a value with PREFIX bytes of length, unless PREFIX is
    0"""


@lru_cache(1024)
def row_format(definition: SourceTable, *, keys: bool = True) -> RowFormat:
    """Return the table's RowFormat, without ``bounds`` unless ``keys`` is set. Raise DecodeError
    for a type that this version does not decode."""
    wire = np.array([_wire(c.type, c.meta) for c in definition.columns], np.int32)
    bounds = _key_bounds(definition) if keys else np.zeros(0, np.int64)
    return RowFormat(wire, bounds, _steps(wire.tolist(), bounds.tolist()))


def _wire(kind: int, meta: int) -> int:
    if kind in _FIXED:
        return _FIXED[ColumnType(kind)]
    if kind in _FRACTIONAL:
        return _FRACTIONAL[ColumnType(kind)] + (meta + 1) // 2
    if kind in (_T.ENUM, _T.SET):
        return meta
    if kind == _T.BIT:
        return (meta + 7) // 8
    if kind == _T.DECIMAL:
        whole, scale = (meta >> 8) - (meta & 255), meta & 255
        digits = _DIGIT_BYTES[whole % 9] + _DIGIT_BYTES[scale % 9]
        return digits + 4 * (whole // 9 + scale // 9)
    if kind in (_T.STRING, _T.VARCHAR, _T.VAR_STRING):
        return -1 if meta <= 255 else -2
    if kind in (_T.BLOB, _T.JSON, _T.GEOMETRY, _T.VECTOR) and 1 <= meta <= 4:
        return -meta
    raise DecodeError(f"a column of wire type {kind} has the metadata {meta}")


def _key_bounds(definition: SourceTable) -> Ints:
    inside = np.zeros(len(definition.columns) + 2, np.int8)
    inside[1 + np.array(definition.primary_key, np.int64)] = 1
    edges = np.flatnonzero(np.diff(inside)).tolist()
    floats = [c for c in definition.primary_key if definition.columns[c].type in FLOATS]
    alone = [edge for c in floats for edge in (c, c + 1) if inside[edge] and inside[edge + 1]]
    return np.array(sorted([*edges, *(2 * sorted(set(alone)))]), np.int64)


def _steps(wire: list[int], bounds: list[int]) -> Ints:
    steps, skip = [], 0
    for column in range(len(wire) + 1):
        for i in (i for i, bound in enumerate(bounds) if bound == column):
            steps.append((skip, 0, i))
            skip = 0
        if column == len(wire):
            steps.append((skip, 0, -1))
        elif wire[column] >= 0:
            skip += wire[column]
        else:
            steps.append((skip, -wire[column], -1))
            skip = 0
    return np.array(steps, np.int64)
