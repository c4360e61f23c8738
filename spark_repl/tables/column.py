"""Columns of a table: MySQL's type of a column, and the Arrow type of its values in the target."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

import pyarrow as pa

BINARY = 63
"""The collation of columns that hold bytes, not text."""


class ColumnType(IntEnum):
    """MySQL's real type codes. In the log ENUM and SET have the type STRING; their metadata
    distinguishes them."""

    DECIMAL_OLD = 0
    TINY = 1
    SHORT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    NULL = 6
    TIMESTAMP_OLD = 7
    LONGLONG = 8
    INT24 = 9
    DATE = 10
    TIME_OLD = 11
    DATETIME_OLD = 12
    YEAR = 13
    NEWDATE = 14
    VARCHAR = 15
    BIT = 16
    TIMESTAMP = 17
    DATETIME = 18
    TIME = 19
    TYPED_ARRAY = 20
    VECTOR = 242
    JSON = 245
    DECIMAL = 246
    ENUM = 247
    SET = 248
    BLOB = 252
    VAR_STRING = 253
    STRING = 254
    GEOMETRY = 255


_T = ColumnType
CHARACTER_TYPES = frozenset((_T.STRING, _T.VARCHAR, _T.VAR_STRING, _T.BLOB))
NUMERIC_TYPES = frozenset(
    {_T.TINY, _T.SHORT, _T.INT24, _T.LONG, _T.LONGLONG, _T.YEAR}
    | {_T.FLOAT, _T.DOUBLE, _T.DECIMAL_OLD, _T.DECIMAL}
)
OLD_MOMENTS = frozenset((_T.DATETIME_OLD, _T.TIMESTAMP_OLD))
DATE_TYPES = frozenset((_T.DATE, _T.DATETIME, _T.TIMESTAMP)) | OLD_MOMENTS
TIME_TYPES = frozenset((_T.TIME, _T.TIME_OLD))


class Form(StrEnum):
    """How the target stores a column's values, if there is a choice
    (``binlog.types.forms.Forms``)."""

    USUAL = ""
    TEXT = "text"
    """dates as the server prints them"""
    MICROSECONDS = "microseconds"
    """TIME as a signed number"""
    BYTES = "bytes"
    """GEOMETRY as MySQL stores it"""
    VARIANT = "variant"
    """JSON in Parquet's and Spark's binary encoding"""


_SIGNED = {_T.TINY: pa.int8(), _T.SHORT: pa.int16(), _T.INT24: pa.int32(), _T.LONG: pa.int32()}
_UNSIGNED = {_T.TINY: pa.int16(), _T.SHORT: pa.int32(), _T.INT24: pa.int32(), _T.LONG: pa.int64()}
# Fields that can't be NULL inside of a NULL struct are more than some readers understand.
GEOMETRY_STRUCT = pa.struct([pa.field("srid", pa.int32()), pa.field("wkb", pa.binary())])
VARIANT_STRUCT = pa.struct([pa.field("value", pa.binary()), pa.field("metadata", pa.binary())])
VECTOR_LIST = pa.list_(pa.field("element", pa.float32(), nullable=False))
_PLAIN = {
    _T.FLOAT: pa.float32(),
    _T.DOUBLE: pa.float64(),
    _T.DATE: pa.date32(),
    _T.DATETIME: pa.timestamp("us"),
    _T.TIMESTAMP: pa.timestamp("us", "UTC"),
    _T.TIME: pa.string(),
    _T.DATETIME_OLD: pa.timestamp("us"),
    _T.TIMESTAMP_OLD: pa.timestamp("us", "UTC"),
    _T.TIME_OLD: pa.string(),
    _T.YEAR: pa.int16(),
    _T.JSON: pa.string(),
    _T.ENUM: pa.string(),
    _T.SET: pa.string(),
    _T.GEOMETRY: GEOMETRY_STRUCT,
    _T.VECTOR: VECTOR_LIST,
}
_FORMS = {
    Form.TEXT: pa.string(),
    Form.MICROSECONDS: pa.int64(),
    Form.BYTES: pa.binary(),
    Form.VARIANT: VARIANT_STRUCT,
}
DECIMAL128_DIGITS = 38


@dataclass(frozen=True, slots=True)
class Column:
    """One column. ``meta`` depends on the type:

    STRING, VARCHAR, VAR_STRING: largest length in bytes; BLOB, JSON, GEOMETRY, VECTOR: bytes of
    the length prefix; DECIMAL: precision << 8 | scale; TIME, DATETIME, TIMESTAMP: digits of the
    fraction; BIT: number of bits; ENUM, SET: bytes of a value; FLOAT, DOUBLE: 4, 8; else 0.
    """

    name: str
    type: int
    meta: int
    nullable: bool
    unsigned: bool = False
    collation: int = 0
    literals: tuple[str, ...] = ()
    visible: bool = True
    form: Form = Form.USUAL
    default: str | None = field(default=None, compare=False)
    """the value of an INSERT without the column (``alter.column_defaults``); None: not known"""
    generated: str = field(default="", compare=False)
    """``(expression) VIRTUAL`` or ``... STORED`` of a generated column, the expression in the words
    of its statement, names in backticks where they were quoted; no TABLE_MAP says it"""
    auto_increment: bool = field(default=False, compare=False)
    detail: str | None = field(default=None, compare=False)
    """what the type's text says and ``meta`` doesn't: ZEROFILL, the digits of FLOAT(M,D), those of
    YEAR, the dimensions of VECTOR; '' none of it, None: not known, as a TABLE_MAP does not say"""
    kept: bool = False
    """whether the target alone has it: the source has dropped it, and later rows have NULL there"""
    logged: Column | None = None
    """what the log's rows have in its place, where the target keeps a wider column"""
    mask: str = ""
    """what the target has instead of the source's values, which are those of ``logged``"""
    compares: int = field(default=0, compare=False)
    """number of the very collation; 0: not known. ``collation`` may be another of its set"""
    assumed: bool = field(default=False, compare=False)
    """whether its character set is taken for utf8mb4, as neither a statement nor a TABLE_MAP has
    said it"""
    comment: str = field(default="", compare=False)
    """of a statement; no TABLE_MAP says it"""
    extra: str = ""
    """what it says of a row's last change, where it is none of the source's (``extra_columns``)"""

    @property
    def as_logged(self) -> Column:
        """Return the column in the form of the log's rows."""
        return self.logged or self

    @property
    def precision(self) -> int:
        return self.meta >> 8

    @property
    def scale(self) -> int:
        return self.meta & 255

    @property
    def type_name(self) -> str:
        try:
            return ColumnType(self.type).name
        except ValueError:
            return f"type {self.type}"

    @property
    def arrow_type(self) -> Any:
        """Return the target's type; None if this version can't store the type without loss."""
        if self.form:
            return _FORMS[self.form]
        if self.type in CHARACTER_TYPES:
            return pa.binary() if self.collation == BINARY else pa.string()
        if self.type in _SIGNED:
            return (_UNSIGNED if self.unsigned else _SIGNED)[ColumnType(self.type)]
        if self.type == _T.LONGLONG:
            return pa.decimal128(20, 0) if self.unsigned else pa.int64()
        if self.type == _T.DECIMAL:
            small = self.precision <= DECIMAL128_DIGITS
            return pa.decimal128(self.precision, self.scale) if small else pa.string()
        if self.type == _T.BIT:
            return pa.bool_() if self.meta == 1 else pa.binary()
        return _PLAIN.get(ColumnType(self.type))


_COLUMN_FIELDS = frozenset(Column.__dataclass_fields__)


def column_of(listed: dict[str, Any]) -> Column:
    logged = listed.get("logged")
    own = {"literals": tuple(listed["literals"]), "form": Form(listed.get("form", ""))}
    fields = {name: value for name, value in listed.items() if name in _COLUMN_FIELDS}
    return Column(**{**fields, **own, "logged": logged and column_of(logged)})
