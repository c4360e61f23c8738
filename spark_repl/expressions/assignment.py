"""Store an expression's values in its column. The conversions are those of ALTER TABLE, for pairs
of types that a server was measured to store in the same way (``tests/live/test_assignments.py``).
MODIFY converts a column, but an expression is assigned: numbers in ENUM, FLOAT in text and DATE in
YEAR have other results. A pair that is not in ``_STORED`` is refused, and the applier copies the
table.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from ..binlog.charsets.charset import UTF8, charset_of
from ..convert.number_text import INTEGRAL
from ..convert.to_number import decimal_array, integer_range, rounded
from ..convert.type_change import TypeChange, TypeFamily, family_of
from ..errors import NotComputed
from ..sql.charsets import WIDE, collation
from ..tables.column import BINARY, Column, ColumnType, Form
from .hash_functions import encoded
from .json_functions import number_of
from .value_type import MIXED, TEMPORAL, UNKNOWN, Node, ResultType, ValueType, uncertain

if TYPE_CHECKING:
    from ..sql.session import Session

_T = ColumnType
_LONG_TEXT, _UTF8MB4 = 1 << 30, 255
_REAL_MAX = 2.0**63
_WHOLE = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_NUMBERS = "INTEGER DECIMAL REAL"
_TEXTS = "TEXT BYTES"
_CHOSEN = frozenset(("CASE", "COALESCE", "GREATEST", "LEAST"))
# Results -> families of columns: measured equal on 9.7.4.
_STORED = {
    ResultType.INTEGER: f"{_NUMBERS} YEAR BIT {_TEXTS}",
    ResultType.DECIMAL: _NUMBERS,
    ResultType.REAL: _NUMBERS,
    ResultType.TEXT: f"{_NUMBERS} {_TEXTS} ENUM SET DATE DATETIME TIME JSON",
    ResultType.BYTES: _TEXTS,
    ResultType.DATE: f"{_NUMBERS} {_TEXTS} DATE DATETIME TIMESTAMP",
    ResultType.DATETIME: f"{_NUMBERS} {_TEXTS} DATE DATETIME TIMESTAMP TIME",
    ResultType.TIME: f"{_TEXTS} TIME",
    ResultType.JSON: f"{_NUMBERS} TEXT JSON",
}


Convert = Callable[[pa.Array, TypeChange], pa.Array]
"""``convert.conversion.convert``"""


def check(node: Node, column: Column) -> None:
    """Raise NotComputed if it is not known how a server stores such values."""
    kind, after = node.type, family_of(column)
    if kind.result == ResultType.NULL:
        return
    stored = _STORED[kind.result].split()
    if node.operator == "column" and kind.result == ResultType.DECIMAL:
        # MySQL drops the fraction of a computed zero here, but keeps it in CONCAT.
        stored += _TEXTS.split()
    if after is None or after.name not in stored:
        name = after.name if after else column.type_name
        raise NotComputed(f"{kind.result.name} in a column of {name} is not computed here")
    if node.operator in _CHOSEN and kind.result in TEMPORAL and after.name in _NUMBERS.split():
        raise NotComputed("a date that is one of several as a number is not computed here")
    printed = kind.loose or kind.source in ("YEAR", "ZEROFILL", "BIT")
    if printed and after in (TypeFamily.TEXT, TypeFamily.BYTES):
        raise NotComputed("how such a number is printed is not known")
    if kind.source == "ENUM" and after not in (TypeFamily.TEXT, TypeFamily.BYTES):
        raise NotComputed("ENUM and SET as numbers are not computed here")
    wide = after == TypeFamily.TEXT and charset_of(column.collation) in WIDE
    if wide and kind.charset in (MIXED, UNKNOWN):
        raise NotComputed("text of an unknown character set in wide letters is not computed here")


def assigned(
    node: Node,
    values: pa.Array,
    stored: Column | None,
    column: Column,
    session: Session,
    convert: Convert,
) -> pa.Array:
    """Return values as ``column`` stores them. ``stored``: the column whose values these are, if it
    has the same type and the values are in the table's form; None for values in the form of
    ``ValueType.arrow``. Raise Unconvertible if the outcome is not known."""
    if stored is not None:
        plain = stored.detail == column.detail == ""
        return convert(values, TypeChange(stored, column, session, plain=plain))
    kind, after = node.type, family_of(column)
    if kind.source == "TRUTH":
        values = values.cast(pa.int8()).cast(replace(kind, source="").arrow)
    if kind.result == ResultType.NULL:
        values, kind = values.cast(pa.string()), ValueType(ResultType.TEXT)
    if kind.charset == UNKNOWN and after == TypeFamily.TEXT:
        _check_letters(values, column)
    if kind.result == ResultType.TEXT and after == TypeFamily.BYTES:
        values, kind = encoded(values, kind), ValueType(ResultType.BYTES)
    if kind.result == ResultType.DECIMAL and after == TypeFamily.INTEGER:
        kind = ValueType(ResultType.INTEGER, column.unsigned)
        values = _clipped(values, column, session)
    if kind.result == ResultType.JSON and after not in (TypeFamily.TEXT, TypeFamily.JSON):
        values, kind = _of_json(values, after)
    if kind.result == ResultType.REAL and after == TypeFamily.INTEGER:
        _check_real(values)
    before = _as_column(kind)
    plain = column.detail == ""
    return convert(_stored(values, before), TypeChange(before, column, session, plain=plain))


def _as_column(kind: ValueType) -> Column:
    """Return a column that has such values."""
    if kind.result == ResultType.INTEGER:
        return Column("", _T.LONGLONG, 0, nullable=True, unsigned=kind.unsigned, detail="")
    if kind.result == ResultType.DECIMAL:
        return Column("", _T.DECIMAL, kind.digits << 8 | kind.scale, nullable=True, detail="")
    if kind.result == ResultType.TEXT:
        number = (
            collation(kind.charset)[0] if kind.charset not in ("", MIXED, UNKNOWN) else _UTF8MB4
        )
        return Column("", _T.VARCHAR, _LONG_TEXT, nullable=True, collation=number)
    if kind.result == ResultType.TIME:
        return Column("", _T.TIME, kind.scale, nullable=True, form=Form.MICROSECONDS)
    if kind.result == ResultType.BYTES:
        return Column("", _T.BLOB, 4, nullable=True, collation=BINARY)
    codes = {
        ResultType.REAL: (_T.DOUBLE, 8),
        ResultType.DATE: (_T.DATE, 0),
        ResultType.JSON: (_T.JSON, 4),
        ResultType.DATETIME: (_T.DATETIME, kind.scale),
    }
    code, meta = codes[kind.result]
    return Column("", code, meta, nullable=True, detail="")


def _stored(values: pa.Array, column: Column) -> pa.Array:
    if column.type == _T.DECIMAL:
        return decimal_array(values.cast(pa.decimal256(76, column.scale)), column)
    if column.type == _T.DATE:
        return values.cast(pa.date32())
    return values.cast(column.arrow_type)


def _clipped(values: pa.Array, column: Column, session: Session) -> pa.Array:
    """Return decimals as integers in the column's range: an unsigned column has up to 64 bits.
    Raise Unconvertible if the session is strict and a value is out of range."""
    room = pa.decimal256(min(values.type.precision + 1, 76), values.type.scale)
    integers = rounded(values.cast(room), 0).cast(INTEGRAL)
    low, high = (pa.scalar(str(edge)).cast(INTEGRAL) for edge in integer_range(column))
    under, over = pc.less(integers, low), pc.greater(integers, high)
    if session.is_strict and pc.any(pc.or_(under, over)).as_py():
        raise uncertain("a number is out of range, which a strict server refuses")
    integers = pc.if_else(under, low, pc.if_else(over, high, integers))
    return integers.cast(pa.decimal128(20, 0))


def _check_letters(texts: pa.Array, column: Column) -> None:
    """Raise Unconvertible for letters beyond ASCII, unless the column's character set is UTF-8.
    Their bytes may be of CHARACTER SET binary, and another character set reads them as other
    letters."""
    ascii_only = pc.all(pc.string_is_ascii(texts)).as_py() is not False
    if charset_of(column.collation) not in UTF8 and not ascii_only:
        raise uncertain("letters beyond ASCII of a character set that is not known")


def _check_real(values: pa.Array) -> None:
    if pc.any(pc.greater_equal(pc.abs(values), _REAL_MAX)).as_py():
        raise uncertain("what a double beyond 64 bits becomes depends on the source's machine")


def _of_json(values: pa.Array, after: TypeFamily | None) -> tuple[pa.Array, ValueType]:
    """Return JSON documents that are numbers, as numbers. Raise Unconvertible for other
    documents."""
    texts = [None if text is None else number_of(text) for text in values.to_pylist()]
    if all(text is None or _WHOLE.fullmatch(text) for text in texts):
        return pa.array(texts, pa.string()), ValueType(ResultType.TEXT)
    if after == TypeFamily.INTEGER:
        raise uncertain("a JSON value that is no whole number of 18 digits")
    numbers = [None if text is None else float(text) for text in texts]
    return pa.array(numbers, pa.float64()), ValueType(ResultType.REAL)
