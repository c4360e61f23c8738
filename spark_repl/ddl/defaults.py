"""What an INSERT means that leaves a column out (binlog_row_image MINIMAL, NOBLOB).

The server logs the values of functions and expressions, but not those of literals: they are in
CREATE TABLE only. ``Column.default`` keeps them: ``NULL``, a number, ``'text`` (no closing quote),
``0x...`` or ``0b...``.
"""

from __future__ import annotations

import datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..binlog.definition import Column, ColumnType, Form
from ..errors import DecodeError, StatementError

if TYPE_CHECKING:
    from ..position import RelayPosition

_HINT = (
    "set binlog_row_image=FULL on the source, or apply the log from the table's CREATE TABLE on:"
    " the log does not hold the defaults of columns that an INSERT leaves out"
)


def default_value(column: Column, table: str, position: RelayPosition) -> pa.Array:
    """Array[1] of the column's Arrow type. DecodeError when the default is not known:
    it names the table and the transaction's position."""
    if column.default is None:
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
    """Array[1] of the column's Arrow type: its default, which is a literal. Raises StatementError
    where it is not understood."""
    assert column.default is not None
    try:
        return pa.array([_value(column, column.default)], column.arrow_type)
    except (ValueError, InvalidOperation, pa.ArrowInvalid) as error:
        raise StatementError(
            f"the default {column.default} of column {column.name} is not understood"
        ) from error


def _value(column: Column, default: str) -> Any:
    if default == "NULL":
        return None
    arrow, kind = column.arrow_type, column.type
    raw = _bytes(default)
    if pa.types.is_boolean(arrow):
        return int.from_bytes(raw, "big") == 1 if raw is not None else int(_text(default)) == 1
    if pa.types.is_binary(arrow):
        return _binary(column, default if raw is None else raw)
    text = _text(default) if raw is None else raw.decode("utf-8")
    if kind == ColumnType.TIME:
        raise ValueError(text)
    if pa.types.is_integer(arrow):
        if kind == ColumnType.YEAR:
            return _year(int(text))
        # The server rounds half away from zero, as it does when it stores a value.
        return int(Decimal(text).quantize(Decimal(1), "ROUND_HALF_UP"))
    if pa.types.is_decimal(arrow):
        return Decimal(text).quantize(Decimal(1).scaleb(-column.scale), "ROUND_HALF_UP")
    if pa.types.is_floating(arrow):
        return float(text)
    if pa.types.is_date(arrow):
        return datetime.date.fromisoformat(text)
    if pa.types.is_timestamp(arrow):
        moment = datetime.datetime.fromisoformat(text)
        # A TIMESTAMP's literal is in the time zone of the session that made the table.
        if arrow.tz is not None:
            raise ValueError(text)
        return moment
    if column.form == Form.TEXT:
        return _date_text(column, text)
    if kind == ColumnType.DECIMAL:
        raise ValueError(text)
    return text


def _date_text(column: Column, text: str) -> str:
    """The text of a date as the server prints the column; ValueError."""
    if text.startswith("0000-00-00"):
        printed = "0000-00-00 00:00:00.000000"
    elif column.type == ColumnType.TIMESTAMP:  # in the time zone of the session, too
        raise ValueError(text)
    else:
        printed = datetime.datetime.fromisoformat(text).isoformat(" ", "microseconds")
    if column.type == ColumnType.DATE:
        return printed[:10]
    return printed[: 20 + column.meta] if column.meta else printed[:19]


def _text(default: str) -> str:
    return default.removeprefix("'")


def _bytes(default: str) -> bytes | None:
    """The bytes of a hexadecimal or bit literal."""
    if default.startswith("0x"):
        digits = default[2:]
        return bytes.fromhex("0" * (len(digits) % 2) + digits)
    if default.startswith("0b"):
        value = int(default[2:] or "0", 2)
        return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")
    return None


def _binary(column: Column, value: str | bytes) -> bytes:
    if column.type == ColumnType.BIT:
        number = int(_text(value)) if isinstance(value, str) else int.from_bytes(value, "big")
        return number.to_bytes((column.meta + 7) // 8, "big")
    raw = _text(value).encode("utf-8") if isinstance(value, str) else value
    return raw.ljust(column.meta, b"\0") if column.type == ColumnType.STRING else raw


def _year(value: int) -> int:
    if 0 < value < 100:
        return value + (2000 if value < 70 else 1900)
    return value
