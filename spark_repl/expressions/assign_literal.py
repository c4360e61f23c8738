"""A literal -> what a column stores of it: that of a value that is assigned, by the conversions of
ALTER TABLE, but where the server reads a literal in another way than a column's value."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ..binlog.charsets.charset import charset_of
from ..binlog.json.variant_text import document_to_variant
from ..convert.conversion import convert
from ..convert.temporal import to_clock, zero_date
from ..convert.type_change import TypeChange, TypeFamily, characters, family_of
from ..errors import NotComputed, Unconvertible, UnknownZone
from ..sql.charsets import WIDE
from ..sql.default_literals import has_twin_before
from ..sql.real_literal import REAL_DETAIL, real_digits, real_literal_text
from ..sql.temporal_literals import letters_of, moment_letters, moment_of, time_of
from ..tables.column import DATE_TYPES, Column, ColumnType, Form
from . import literals
from .assignment import assigned
from .value_type import INTEGER_DIGITS, REAL_TYPE, Node, ResultType, ValueType

if TYPE_CHECKING:
    from ..sql.session import Session

_T, _F = ColumnType, TypeFamily
_EXPONENT = re.compile(r"\s*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-]?[0-9]{1,2})\s*", re.ASCII)
_PLAIN_NUMBER = re.compile("0|[1-9][0-9]{0,18}", re.ASCII)
_DIGIT = re.compile("[0-9]", re.ASCII)
_YEAR_MAX, _LONGLONG_BYTES, _UTF8MB4 = 2155, 8, 255
_MOMENT = Column("", _T.DATETIME, 6, nullable=True, detail="")
_TIME = Column("", _T.TIME, 6, nullable=True, form=Form.MICROSECONDS, detail="")
_TEXT = Column("", _T.VARCHAR, 1 << 30, nullable=True, collation=_UTF8MB4, detail="")
_BIT = Column("", _T.BIT, 64, nullable=True, detail="")


@dataclass(frozen=True, slots=True)
class _Literal:
    """One of the three. ``number``: as it is written, with its sign."""

    number: str = ""
    raw: bytes | None = None
    text: str | None = None


def stored(said: str, column: Column, session: Session) -> pa.Array:
    """Array[1] of the column's Arrow type. ``said``: a literal as ``Column.default`` has it. Raises
    Unconvertible where it isn't known, and for what a strict server refuses."""
    if said == "NULL":
        return pa.nulls(1, column.arrow_type)
    if not said.startswith(("0x", "0b")):  # a server refuses a literal whose letters the set lacks
        column = replace(column, assumed=False)
    change = TypeChange(_TEXT, column, session, plain=True)
    way = _WAYS.get(family_of(column))  # type: ignore[arg-type]
    try:
        if way is None or column.arrow_type is None:
            raise ValueError(said)
        return way(said, change)
    except (ValueError, OverflowError, NotComputed, pa.ArrowException) as error:
        raise _not_known(column) from error
    except UnknownZone as error:
        raise _not_known(column, f": {error.message}") from error
    except Unconvertible as error:  # it shows the value
        raise _not_known(column) from error


def _not_known(column: Column, reason: str = "") -> Unconvertible:
    """Without the literal: it may be the DEFAULT of a column that nobody may see."""
    said = f"what column {column.name} stores of a literal is not known{reason}"
    return Unconvertible(said, hint="copy the table anew")


def _read(said: str) -> _Literal:
    if said.startswith("'"):
        return _Literal(text=said[1:])
    base, digits = said[:2], said[2:]
    if base == "0x":
        return _Literal(raw=bytes.fromhex("0" * (len(digits) % 2) + digits))
    if base == "0b":
        return _Literal(raw=int(digits or "0", 2).to_bytes((len(digits) + 7) // 8, "big"))
    return _Literal(number=said)


def _assigned(node: Node, change: TypeChange) -> pa.Array:
    plain = replace(change.after, detail="")
    return assigned(node, literals.repeated(node, 1), None, plain, change.session, convert)


def _integer(value: int) -> Node:
    unsigned = value >= 1 << 63
    return Node("literal", ValueType(ResultType.INTEGER, unsigned, INTEGER_DIGITS), detail=value)


def _number(text: str) -> Node:
    node = literals.number(text.lstrip("-"))
    if not text.startswith("-"):
        return node
    kind = node.type
    if kind.result == ResultType.INTEGER:
        return _integer(-node.detail)
    return replace(node, detail=-node.detail)


def _text(text: str) -> Node:
    return Node("literal", ValueType(ResultType.TEXT, charset="utf8mb4"), detail=text)


def _of_bytes(raw: bytes) -> int:
    """Bytes as a number of 64 bits."""
    digits = raw.lstrip(b"\0")
    return int.from_bytes(digits, "big") if len(digits) <= _LONGLONG_BYTES else (1 << 64) - 1


def _numeric(said: str, change: TypeChange) -> pa.Array:
    literal = _read(said)
    if literal.raw is not None:
        return _assigned(_integer(_of_bytes(literal.raw)), change)
    if literal.text is None:
        return _assigned(_number(literal.number), change)
    return _assigned(_text(_without_exponent(literal.text)), change)


def _without_exponent(text: str) -> str:
    match = _EXPONENT.fullmatch(text)
    return f"{Decimal(match[1]):f}" if match else text


def _real(said: str, change: TypeChange) -> pa.Array:
    column = change.after
    if column.detail is not None and not REAL_DETAIL.search(column.detail):
        return _numeric(said, change)
    double = replace(column, type=int(_T.DOUBLE), meta=8, detail="")
    value = _numeric(said, replace(change, after=double))[0].as_py()
    if column.detail is None:
        if not value.is_integer():
            raise change.refused("whether it has a number of digits is not known")
        return pa.array([value], column.arrow_type)
    digits = real_digits(value, column.detail, clips=not change.session.is_strict)
    return _assigned(Node("literal", REAL_TYPE, detail=digits), change)


def _bit(said: str, change: TypeChange) -> pa.Array:
    literal = _read(said)
    if literal.number:
        node = _number(literal.number)
        if node.type.result != ResultType.INTEGER:
            if node.detail < 0 or node.detail >= 1 << 63:
                raise ValueError(literal.number)
            if node.type.result == ResultType.REAL:
                node = _integer(math.trunc(node.detail))
        return _assigned(node, change)
    raw = literal.raw if literal.text is None else literal.text.encode()
    return _assigned(_integer(_of_bytes(raw or b"")), change)


def _year(said: str, change: TypeChange) -> pa.Array:
    literal = _read(said)
    text = literal.text
    if text is None:
        node = _integer(_of_bytes(literal.raw)) if literal.raw is not None else None
        node = node or _number(literal.number)
        if node.type.result == ResultType.REAL:
            fits = 0 <= node.detail <= _YEAR_MAX
            node = _integer(math.trunc(node.detail) if fits else -1)
        return _assigned(node, change)
    long = Column("", _T.LONGLONG, 0, nullable=True, detail="")
    value = _numeric(said, replace(change, after=long))[0].as_py()
    if value == 0 and "-" in text:
        raise ValueError(text)
    if value == 0 and _DIGIT.search(text) and len(text) != len("0000"):
        value = 2000
    return _assigned(_integer(value), change)


def _letters(said: str, change: TypeChange) -> pa.Array:
    literal = _read(said)
    if literal.raw is not None:
        return _assigned(Node("literal", ValueType(ResultType.BYTES), detail=literal.raw), change)
    if literal.text is not None:
        return _assigned(_text(literal.text), change)
    node, column = _number(literal.number), change.after
    if node.type.result != ResultType.REAL:
        return _assigned(node, change)
    wide = column.collation and charset_of(column.collation) in WIDE
    room = _room(column)
    if wide or len(text := real_literal_text(node.detail)) > room:
        raise ValueError(literal.number)
    return _assigned(_text(text), change)


def _room(column: Column) -> int:
    if column.type == _T.BLOB:
        return int(256**column.meta - 1)
    return column.meta if family_of(column) == _F.BYTES else characters(column)


def _member(said: str, change: TypeChange) -> pa.Array:
    literal, column = _read(said), change.after
    if literal.number:
        if not _PLAIN_NUMBER.fullmatch(literal.number):  # 1. and 01 are texts: the member '1'
            raise ValueError(literal.number)
        raw = int(literal.number).to_bytes(8, "big")
        return convert(pa.array([raw]), replace(change, before=_BIT))
    text = letters_of(said)
    exact = [text] if column.type == _T.ENUM else text.split(",") if text else []
    if all(one in column.literals for one in exact):
        chosen = [one for one in column.literals if one in exact]
        if any(has_twin_before(one, column.literals) for one in chosen):
            raise ValueError(text)
        return pa.array([",".join(chosen)], column.arrow_type)
    return convert(pa.array([text]), change)


def _moment(said: str, change: TypeChange) -> pa.Array:
    column = change.after
    micros, ahead = moment_of(moment_letters(said), truncates=change.truncates)
    if micros is None:
        if column.form != Form.TEXT:
            raise ValueError(said)
        return pa.array([zero_date(column)])
    if ahead is not None:
        micros -= ahead
        if family_of(column) == _F.DATE:
            raise ValueError(said)
        if family_of(column) == _F.TIMESTAMP:
            utc = replace(change.session, time_zone="UTC")
            change = replace(change, session=utc)
        else:
            micros = int(to_clock(np.array([micros], np.int64), change)[0])
    values = pa.array([micros], pa.timestamp("us"))
    return convert(values, replace(change, before=_MOMENT))


def _time(said: str, change: TypeChange) -> pa.Array:
    micros = time_of(letters_of(said), truncates=change.truncates)
    return convert(pa.array([micros]), replace(change, before=_TIME))


def _json(said: str, change: TypeChange) -> pa.Array:
    if (text := _read(said).text) is None:
        raise ValueError(said)
    usual = replace(change.after, form=Form.USUAL)
    made = convert(pa.array([text]), replace(change, after=usual))
    if change.after.form != Form.VARIANT:
        return made
    return document_to_variant(made[0].as_py())


_WAYS: dict[TypeFamily, Callable[[str, TypeChange], pa.Array]] = {
    _F.INTEGER: _numeric, _F.DECIMAL: _numeric, _F.REAL: _real, _F.BIT: _bit, _F.YEAR: _year,
    _F.TEXT: _letters, _F.BYTES: _letters, _F.ENUM: _member, _F.SET: _member, _F.DATE: _moment,
    _F.DATETIME: _moment, _F.TIMESTAMP: _moment, _F.TIME: _time, _F.JSON: _json,
}  # fmt: skip


def as_stored(said: str, column: Column, session: Session) -> str:
    """A literal, and the value that the column stores of it, as ``Column.default`` has them. Raises
    Unconvertible."""
    form = Form.TEXT if column.type in DATE_TYPES else Form.USUAL
    own = replace(column, form=form)
    return _said_of(stored(said, own, session), own)


def _said_of(values: pa.Array, column: Column) -> str:
    """``values`` [1]; moments in ``Form.TEXT``."""
    value: Any = values[0].as_py()
    kind = family_of(column)
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return f"0b{value:d}"
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, int | float | Decimal) or kind == _F.DECIMAL:
        return f"{value:f}" if isinstance(value, Decimal) else f"{value}"
    zone = "+00:00" if kind == _F.TIMESTAMP and not value.startswith("0000") else ""
    return f"'{value}{zone}"
