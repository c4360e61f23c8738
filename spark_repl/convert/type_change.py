"""TypeChange: one column before and after ALTER TABLE. Converted: the result of its conversion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ..binlog.charsets.charset import charset_of
from ..errors import Unconvertible, UnknownZone
from ..sql.charsets import collation
from ..sql.session import PAD_CHAR_TO_FULL_LENGTH, TIME_TRUNCATE_FRACTIONAL
from ..tables.column import BINARY, CHARACTER_TYPES, Column, ColumnType

if TYPE_CHECKING:
    from ..sql.session import Session

_T = ColumnType
_HINT = "copy the table again"


class TypeFamily(Enum):
    """Families of types whose values convert in the same way."""

    INTEGER, DECIMAL, REAL, YEAR, BIT, ENUM, SET = (auto() for _ in range(7))
    TEXT, BYTES, DATE, DATETIME, TIMESTAMP, TIME = (auto() for _ in range(6))
    JSON, GEOMETRY, VECTOR = (auto() for _ in range(3))


_F = TypeFamily
_FAMILIES = {
    _T.TINY: _F.INTEGER, _T.SHORT: _F.INTEGER, _T.INT24: _F.INTEGER, _T.LONG: _F.INTEGER,
    _T.LONGLONG: _F.INTEGER, _T.DECIMAL: _F.DECIMAL, _T.FLOAT: _F.REAL,
    _T.DOUBLE: _F.REAL, _T.YEAR: _F.YEAR, _T.BIT: _F.BIT, _T.ENUM: _F.ENUM,
    _T.SET: _F.SET, _T.DATE: _F.DATE, _T.DATETIME: _F.DATETIME,
    _T.DATETIME_OLD: _F.DATETIME, _T.TIMESTAMP: _F.TIMESTAMP,
    _T.TIMESTAMP_OLD: _F.TIMESTAMP, _T.TIME: _F.TIME, _T.TIME_OLD: _F.TIME,
    _T.JSON: _F.JSON, _T.GEOMETRY: _F.GEOMETRY, _T.VECTOR: _F.VECTOR,
}  # fmt: skip


def family_of(column: Column) -> TypeFamily | None:
    """Return the family; None for a type that no column has had since MySQL 5.0."""
    if column.type in CHARACTER_TYPES:
        return TypeFamily.BYTES if column.collation == BINARY else TypeFamily.TEXT
    return _FAMILIES.get(column.type)  # type: ignore[call-overload,no-any-return]


@dataclass(frozen=True, slots=True)
class TypeChange:
    """A column before and after ALTER TABLE. ``plain``: the caller knows that neither column has a
    property that changes values but is not recorded in ``Column``: ZEROFILL, FLOAT(M,D),
    DOUBLE(M,D), YEAR(2), or a VECTOR with another number of dimensions."""

    before: Column
    after: Column
    session: Session
    plain: bool = False

    @property
    def truncates(self) -> bool:
        """Return whether fractions of seconds are truncated instead of rounded."""
        return bool(self.session.sql_mode & TIME_TRUNCATE_FRACTIONAL)

    @property
    def pads(self) -> bool:
        """Return whether CHAR is read with padding, by a column that may keep the spaces."""
        before, after = self.before, self.after
        is_char = before.type == _T.STRING and family_of(before) == TypeFamily.TEXT
        cut = after.type == _T.STRING and family_of(after) == TypeFamily.TEXT
        wanted = bool(self.session.sql_mode & PAD_CHAR_TO_FULL_LENGTH)
        return wanted and is_char and not cut

    def refused(self, reason: str) -> Unconvertible:
        return Unconvertible(self._said(reason), hint=_HINT)

    def refused_zone(self, reason: str) -> UnknownZone:
        return UnknownZone(self._said(reason), hint=_HINT)

    def _said(self, reason: str) -> str:
        types = f"{described(self.after)} from {described(self.before)}"
        return f"column {self.after.name} becomes {types}: {reason}"


@dataclass(frozen=True, slots=True)
class Converted:
    """Converted values. ``unfit`` marks values that a strict server refuses (None: there are none);
    for these, ``values`` has what a server stores that is not strict. ``why`` is the reason in
    words."""

    values: pa.Array
    unfit: pa.Array | None = None
    why: str = "is out of range"

    def cast_to(self, kind: pa.DataType) -> Converted:
        return Converted(self.values.cast(kind), self.unfit, self.why)


def either(first: pa.Array | None, second: pa.Array | None) -> pa.Array | None:
    if first is None or second is None:
        return second if first is None else first
    return pc.or_(first, second)


def by_distinct(
    values: pa.Array, function: Callable[[Any], tuple[Any, bool]], kind: pa.DataType
) -> Converted:
    """Apply ``function`` to each distinct value; it returns the result, and whether it fits."""
    raw = values.view(pa.int64()) if pa.types.is_float64(values.type) else values
    encoded = raw.dictionary_encode()
    distinct = encoded.dictionary
    if raw is not values:  # 0.0 and -0.0 are two values
        distinct = distinct.view(values.type)
    results = [function(value) for value in distinct.to_pylist()]
    converted = pa.array([value for value, _ in results], kind)
    unfit = pa.array([not fits for _, fits in results], pa.bool_())
    return Converted(converted.take(encoded.indices), unfit.take(encoded.indices))


def longest_character(column: Column) -> int:
    """Return how many bytes the longest character in the column's character set has."""
    return collation(charset_of(column.collation))[1]


def characters(column: Column) -> int:
    """Return how many characters CHAR(n) and VARCHAR(n) hold."""
    return column.meta // longest_character(column)


def bytes_max(column: Column) -> int:
    """Return how many bytes a column of characters or bytes holds."""
    return int(256**column.meta - 1) if column.type == _T.BLOB else column.meta


def described(column: Column) -> str:
    """Return the type for a message, in nearly the form of SQL."""
    kind, name = family_of(column), column.type_name
    if kind == TypeFamily.TEXT and column.type != _T.BLOB:
        name += f"({characters(column)})"
    elif kind == TypeFamily.DECIMAL:
        name += f"({column.precision},{column.scale})"
    elif kind in (_F.BIT, _F.TIME, _F.DATETIME, _F.TIMESTAMP, _F.BYTES) and column.meta:
        name += f"({column.meta})"
    if kind == TypeFamily.TEXT:
        name += f" CHARACTER SET {charset_of(column.collation)}"
    return name + (" UNSIGNED" if column.unsigned and kind != TypeFamily.YEAR else "")
