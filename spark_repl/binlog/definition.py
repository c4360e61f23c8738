"""TableDefinition: what a TABLE_MAP event says about a table, and its Arrow schema."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from enum import IntEnum, StrEnum
from functools import cached_property
from typing import Any

import pyarrow as pa

from ..errors import DecodeError
from .charsets import BINARY
from .partitioning import Partitioning, partitioning_of
from .table_keys import (
    ForeignKey,
    PlainIndex,
    UniqueIndex,
    foreign_keys_of,
    plain_of,
    unique_of,
)
from .table_name import table_name

__all__ = [
    "CHARACTER_TYPES", "DATE_TYPES", "DECIMAL128_DIGITS", "GEOMETRY_STRUCT", "LEFT_OUT",
    "NUMERIC_TYPES", "OLD_MOMENTS", "SYSTEM_SCHEMAS", "TIME_TYPES", "UNREAD", "VARIANT_STRUCT",
    "VECTOR_LIST", "Column", "ColumnType", "ForeignKey", "Form", "PlainIndex", "TableDefinition",
    "UniqueIndex", "foreign_keys_of",
]  # fmt: skip


class ColumnType(IntEnum):
    """MySQL's real type codes (ENUM and SET travel as STRING and are told apart by metadata)."""

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
    """How a column's values are kept, where there is a choice (``types.forms.Forms``)."""

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


_LATER = ("gone", "rowless", "engine")
"""fields of TableDefinition that are written only where they have a value"""


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
    """what an INSERT means that leaves the column out (``alter.defaults``); None: not known"""
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
    extra: str = ""
    """what it says of a row's last change, where it is none of the source's (``extra_columns``)"""

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
        """The target's type; None when this version can't hold the type without loss."""
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


@dataclass(frozen=True)
class TableDefinition:
    """A table as one TABLE_MAP describes it; ``primary_key`` holds column indexes in key order: in
    a table without PRIMARY KEY those of the UNIQUE index that the server logs in its place."""

    database: str
    table: str
    columns: tuple[Column, ...]
    primary_key: tuple[int, ...]
    foreign_keys: tuple[ForeignKey, ...] | None = field(default=None, compare=False)
    """None: not known, as a TABLE_MAP does not say"""
    has_primary: bool | None = field(default=None, compare=False)
    """whether ``primary_key`` is a PRIMARY KEY; None: not known, as a TABLE_MAP does not say"""
    unique: tuple[UniqueIndex, ...] | None = field(default=None, compare=False)
    """in the order of the table; None: not known"""
    charset: str = field(default="", compare=False)
    """the table's default character set or collation; '': not known"""
    indexes: tuple[PlainIndex, ...] | None = field(default=None, compare=False)
    """those that are not unique; None: not known"""
    dropped: bool = field(default=False, compare=False)
    """whether the source has dropped the table, which the target keeps"""
    truncated: bool = field(default=False, compare=False)
    """whether the target keeps rows that the source has removed by TRUNCATE"""
    partitioning: Partitioning | None = field(default=None, compare=False)
    """None: there are no partitions, or nothing is known of them"""
    source_name: str = field(default="", compare=False)
    """db.table on the source, where the target has it under another name"""
    withheld: tuple[tuple[int, Column], ...] = ()
    """columns that the source alone has, by their numbers there, ascending"""
    row_filter: str = ""
    """over the source's columns: the target has the rows alone for which it is true; '': all"""
    mode: str = ""
    """what the target has of the rows (``rules.table_mode``); '': those of the source"""
    logged_key: tuple[int, ...] = ()
    """the source's key, where the target's rows are not told apart by it"""
    gone: tuple[str, ...] = field(default=(), compare=False)
    """columns of which a rule says something still, and which the source has dropped"""
    rowless: bool = field(default=False, compare=False)
    """whether the source's engine keeps no rows, whatever it logs of them (BLACKHOLE)"""
    engine: str = field(default="", compare=False)
    """in upper case, where a statement names another one than InnoDB"""

    @property
    def name(self) -> str:
        return table_name(self.database, self.table)

    @property
    def name_on_source(self) -> str:
        """What the source calls the table."""
        return self.source_name or self.name

    @cached_property
    def in_log(self) -> TableDefinition:
        """The table as the source has it, and the log's rows, where the target has other columns or
        not all rows."""
        columns = [c.logged or c for c in self.columns if not c.kept]
        for number, column in self.withheld:
            columns.insert(number, column)
        if tuple(columns) == self.columns and not self.row_filter and not self.mode:
            return self
        key = self.logged_key or self.primary_key
        return replace(
            self, columns=tuple(columns), primary_key=tuple(map(self.own.index, key)), withheld=(),
            row_filter="", mode="", logged_key=(),
        )  # fmt: skip

    @cached_property
    def own(self) -> tuple[int, ...]:
        """For each column of the log's rows its number here; -1 where the target lacks it."""
        own = [number for number, column in enumerate(self.columns) if not column.kept]
        for number, _ in self.withheld:
            own.insert(number, -1)
        return tuple(own)

    def with_logged_key(self, key: tuple[int, ...]) -> TableDefinition:
        """The same with another key, in numbers of the columns that the log's rows have."""
        own = tuple(self.own[number] for number in key)
        return replace(self, logged_key=own) if self.mode else replace(self, primary_key=own)

    @property
    def sought_key(self) -> tuple[int, ...]:
        """What the target's rows are looked up by, of which some may have gone by: ``primary_key``,
        or the source's key where each version of a row is one; empty: by all columns."""
        return self.logged_key if self.mode == "history" else self.primary_key

    def to_json(self) -> str:
        fields = {n: v for n, v in asdict(self).items() if n not in _LATER or v}
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> TableDefinition:
        fields: dict[str, Any] = json.loads(text)
        columns = tuple(map(_column_of, fields["columns"]))
        key = tuple(fields["primary_key"])
        keys = foreign_keys_of(fields.get("foreign_keys"))
        return cls(
            fields["database"], fields["table"], columns, key, keys,
            fields.get("has_primary"), unique_of(fields.get("unique")), fields.get("charset", ""),
            plain_of(fields.get("indexes")), fields.get("dropped", False),
            fields.get("truncated", False), partitioning_of(fields.get("partitioning")),
            fields.get("source_name", ""),
            tuple((number, _column_of(column)) for number, column in fields.get("withheld", ())),
            fields.get("row_filter", ""), fields.get("mode", ""),
            tuple(fields.get("logged_key", ())), tuple(fields.get("gone", ())),
            fields.get("rowless", False), fields.get("engine", ""),
        )  # fmt: skip

    def arrow_schema(self) -> pa.Schema:
        """Schema of decoded batches; DecodeError for a type that has no place in the target."""
        return self._schema

    @cached_property
    def _schema(self) -> pa.Schema:
        fields = []
        for column in self.columns:
            arrow_type = column.arrow_type
            if arrow_type is None:
                raise DecodeError(
                    f"column {column.name} has type {column.type_name},"
                    " which this version does not decode",
                    table=self.name,
                    hint="leave the table out of replication, or change the column's type",
                )
            fields.append(pa.field(column.name, arrow_type, column.nullable))
        return pa.schema(fields)


LEFT_OUT = TableDefinition("", "", (), ())
"""Instead of what is known of a table: its rows are left out, and need no names of columns."""
UNREAD = TableDefinition("", "unread", (), ())
"""The same, and what the log says of its columns is not looked at either."""
SYSTEM_SCHEMAS = frozenset({"mysql", "sys", "information_schema", "performance_schema"})
"""the server's own: their tables are neither copied nor applied"""


_COLUMN_FIELDS = frozenset(Column.__dataclass_fields__)


def _column_of(listed: dict[str, Any]) -> Column:
    logged = listed.get("logged")
    own = {"literals": tuple(listed["literals"]), "form": Form(listed.get("form", ""))}
    fields = {name: value for name, value in listed.items() if name in _COLUMN_FIELDS}
    return Column(**{**fields, **own, "logged": logged and _column_of(logged)})
