"""Input rows: the rows that an expression is evaluated over, MySQL's type of each of their columns,
and its values as ``ValueType.arrow`` has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from ..binlog.charsets.charset import charset_of
from ..convert.number_text import exact
from ..convert.temporal import read_moments, read_times
from ..convert.type_change import TypeChange, TypeFamily, family_of
from ..errors import NotComputed
from ..sql.session import PAD_CHAR_TO_FULL_LENGTH
from ..tables.column import Column, ColumnType, Form
from .value_type import BIGINT, INTEGER_DIGITS, REAL_TYPE, UNKNOWN, ResultType, ValueType, uncertain

if TYPE_CHECKING:
    import numpy as np

    from ..sql.session import Session
    from .assignment import Convert

_T = ColumnType
_DIGITS = {_T.TINY: 3, _T.SHORT: 5, _T.INT24: 8, _T.LONG: 10, _T.LONGLONG: 19}
# utf8mb3_turkish_ci and similar ones have another letter as the other case of i.
_TURKISH = frozenset((30, 110, 137, 169, 201, 233, 265, 288))
_RESULTS = {
    TypeFamily.DATE: ResultType.DATE,
    TypeFamily.DATETIME: ResultType.DATETIME,
    TypeFamily.TIMESTAMP: ResultType.DATETIME,
    TypeFamily.TIME: ResultType.TIME,
    TypeFamily.BYTES: ResultType.BYTES,
    TypeFamily.JSON: ResultType.JSON,
}


@dataclass(frozen=True)
class InputRows:
    """The rows for which an expression is evaluated. ``array`` returns a column's values, by its
    number in ``columns``. ``convert`` makes the conversions of ALTER TABLE. ``places`` selects
    rows; None selects all."""

    count: int
    columns: tuple[Column, ...]
    array: Callable[[int], pa.Array]
    session: Session
    convert: Convert
    places: np.ndarray | None = None

    def at(self, places: np.ndarray) -> InputRows:
        """Return these rows, restricted to ``places``."""
        if len(places) == self.count:
            return self
        among = places if self.places is None else self.places[places]
        return replace(self, count=len(places), places=among)

    def stored(self, number: int) -> pa.Array:
        """Return a column's values in the table's form."""
        values = self.array(number)
        return values if self.places is None else values.take(pa.array(self.places))


def type_of(column: Column, session: Session, *, virtual: bool) -> ValueType:
    """Return the type of a column's values in expressions. Raise NotComputed if expressions with
    this type are not implemented, for this session or for a virtual column."""
    kind = family_of(column)
    if kind == TypeFamily.INTEGER:
        unsigned = column.unsigned
        digits = _DIGITS[_T(column.type)] + (unsigned and column.type == _T.LONGLONG)
        return ValueType(ResultType.INTEGER, unsigned, digits, source=_zerofill(column))
    if kind == TypeFamily.DECIMAL:
        digits, scale = column.precision, column.scale
        return ValueType(ResultType.DECIMAL, digits=digits, scale=scale, source=_zerofill(column))
    if kind == TypeFamily.REAL:
        return REAL_TYPE
    if kind in (TypeFamily.YEAR, TypeFamily.BIT):
        digits = 4 if kind == TypeFamily.YEAR else INTEGER_DIGITS
        return ValueType(ResultType.INTEGER, True, digits, source=kind.name)
    if kind in (TypeFamily.TEXT, TypeFamily.ENUM, TypeFamily.SET):
        return _text(column, kind, session)
    if kind == TypeFamily.TIMESTAMP and virtual:
        raise NotComputed(f"what {column.name} is depends on the time zone of who reads it")
    if kind not in _RESULTS:
        raise NotComputed(f"expressions of {column.type_name} are not computed here")
    scale = (
        column.meta if kind in (TypeFamily.DATETIME, TypeFamily.TIMESTAMP, TypeFamily.TIME) else 0
    )
    return ValueType(_RESULTS[kind], scale=scale)


def _zerofill(column: Column) -> str:
    return "ZEROFILL" if column.unsigned and column.detail != "" else ""


def _text(column: Column, kind: TypeFamily, session: Session) -> ValueType:
    if column.type == _T.STRING and session.sql_mode & PAD_CHAR_TO_FULL_LENGTH:
        raise NotComputed("CHAR with PAD_CHAR_TO_FULL_LENGTH is not computed here")
    source = "TURKISH" if column.collation in _TURKISH else ""
    if kind != TypeFamily.TEXT:
        return ValueType(ResultType.TEXT, charset=UNKNOWN, source="ENUM")
    charset = UNKNOWN if column.assumed else charset_of(column.collation)
    return ValueType(ResultType.TEXT, charset=charset, source=source)


def column_values(values: pa.Array, column: Column, session: Session) -> pa.Array:
    """Return a column's values in ``ValueType.arrow``. Raise Unconvertible for zero and impossible
    dates, and for values that the log does not show."""
    kind, change = family_of(column), TypeChange(column, column, session)
    if kind in (TypeFamily.DATE, TypeFamily.DATETIME, TypeFamily.TIMESTAMP):
        if values.null_count and not column.nullable:
            raise uncertain(f"{column.name} has zero dates that are kept as NULL")
        micros, missing = read_moments(values, change)
        return pa.array(micros, pa.timestamp("us"), mask=missing)
    if kind == TypeFamily.TIME:
        micros, missing = read_times(values, change)
        return pa.array(micros, mask=missing)
    if kind == TypeFamily.JSON and column.form == Form.VARIANT:
        raise uncertain("a VARIANT doesn't keep how the server prints it")
    if kind == TypeFamily.REAL:
        return values.cast(pa.float64())
    if kind == TypeFamily.DECIMAL:
        return exact(values, change).cast(pa.decimal256(column.precision, column.scale))
    if kind in (TypeFamily.INTEGER, TypeFamily.YEAR, TypeFamily.BIT):
        return exact(values, change).cast(BIGINT.arrow)
    return values
