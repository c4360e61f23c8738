"""The default of a column that an INSERT leaves out (binlog_row_image MINIMAL, NOBLOB).

The server logs the values of functions and expressions, but not those of literals: only CREATE
TABLE contains them. ``Column.default`` keeps them: ``NULL``, a number, ``'text`` (no closing
quote), ``0x...`` or ``0b...``; as the column stores them, if that is known (``default_literals``).
For a masked column of the source it keeps ``*mask*`` and the mask's result (``masks``).
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..errors import DecodeError, StatementError
from ..sql.default_literals import normalize
from ..sql.session import Session
from ..sql.temporal_literals import time_of
from ..tables.column import TIME_TYPES, Column, ColumnType, Form

if TYPE_CHECKING:
    from ..position import RelayPosition

_HINT = (
    "set binlog_row_image=FULL on the source, or apply the log from the table's CREATE TABLE on:"
    " the log does not hold the defaults of columns that an INSERT leaves out"
)


def default_value(column: Column, table: str, position: RelayPosition) -> pa.Array:
    """Return Array[1] of the column's Arrow type. Raise DecodeError, naming the table and the
    transaction's position, if the default is not known."""
    if column.default is None or column.default.startswith("*"):
        raise DecodeError(
            f"an INSERT leaves out column {column.name}, whose default is not known",
            table=table,
            position=position,
            hint=_HINT,
        )
    try:
        return literal(column)
    except StatementError as error:
        raise DecodeError(error.message, table=table, position=position, hint=_HINT) from error


def literal(column: Column) -> pa.Array:
    """Return the column's default, which is a literal, as Array[1] of the column's Arrow type.
    Raise StatementError if it is not understood."""
    assert column.default is not None
    try:
        text = normalize(column.default, column, Session())
        return pa.array([_value(column, text)], column.arrow_type)
    except (ValueError, OverflowError, pa.ArrowException) as error:
        raise StatementError(f"the default of column {column.name} is not understood") from error


def _value(column: Column, literal: str) -> Any:
    if literal == "NULL":
        return None
    arrow, text = column.arrow_type, literal.removeprefix("'")
    if pa.types.is_boolean(arrow):
        return text == "1"
    if column.type == ColumnType.BIT:
        return int(text).to_bytes((column.meta + 7) // 8, "big")
    if pa.types.is_binary(arrow):
        return bytes.fromhex(text[2:])
    if column.type in TIME_TYPES and column.form == Form.MICROSECONDS:
        return time_of(text, truncates=False)
    if pa.types.is_integer(arrow):
        return int(text)
    if pa.types.is_decimal(arrow):
        return Decimal(text)
    if pa.types.is_floating(arrow):
        return float(text)
    if pa.types.is_date(arrow):
        return datetime.date.fromisoformat(text)
    if column.type in (ColumnType.TIMESTAMP, ColumnType.TIMESTAMP_OLD):
        return _timestamp(column, text)
    if pa.types.is_timestamp(arrow):
        return datetime.datetime.fromisoformat(text)
    is_zero = column.form == Form.TEXT and column.meta and text == "0000-00-00 00:00:00"
    return f"{text}.{'0' * column.meta}" if is_zero else text


def _timestamp(column: Column, text: str) -> Any:
    if not text.startswith("0000"):
        if not text.endswith("+00:00"):
            raise ValueError(text)
        plain = text.removesuffix("+00:00")
        return plain if column.form == Form.TEXT else datetime.datetime.fromisoformat(text)
    if column.form != Form.TEXT:
        raise ValueError(text)
    return f"{text}.{'0' * column.meta}" if column.meta else text
