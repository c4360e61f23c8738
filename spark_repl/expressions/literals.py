"""Literals, as nodes and as values of a number of rows. No error shows a literal: it may be a value
that a mask hides.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..errors import NotComputed
from .value_type import (
    INTEGER_DIGITS,
    NULL_TYPE,
    REAL_TYPE,
    Node,
    ResultType,
    ValueType,
)

if TYPE_CHECKING:
    from .syntax import Syntax

_MOMENT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[ T]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6}))?)?"
)
_TIME = re.compile(r"(-?)([0-9]{2,3}):([0-5][0-9]):([0-5][0-9])(?:\.([0-9]{1,6}))?")
_START = datetime.datetime(1970, 1, 1)
_HOURS_MAX = 838
_SIGNED_MAX, _UNSIGNED_MAX = (1 << 63) - 1, (1 << 64) - 1


def literal(syntax: Syntax) -> Node:
    """Return the node of a literal. Raise NotComputed for a literal that is not implemented."""
    if syntax.name == "null":
        return Node("literal", NULL_TYPE)
    if syntax.name == "number":
        return number(syntax.words[0])
    if syntax.name == "hex":
        raw = bytes.fromhex(syntax.words[0])
        return Node("literal", ValueType(ResultType.BYTES, source="HEX"), detail=raw)
    text, quoted = syntax.words
    if syntax.name == "moment":
        node = time_of(text) if quoted == "TIME" else moment_of(text)
        if quoted == "TIMESTAMP" and node.type.result == ResultType.DATE:
            return replace(node, type=ValueType(ResultType.DATETIME))
        if node.type.result.name != {"TIMESTAMP": "DATETIME"}.get(quoted, quoted):
            raise NotComputed(f"a {quoted} literal is not understood")
        return node
    if quoted == "binary":
        return Node("literal", ValueType(ResultType.BYTES), detail=_raw(text))
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise NotComputed("a text has letters of a character set that is not known")
    return Node("literal", ValueType(ResultType.TEXT, charset=quoted), detail=text)


def _raw(text: str) -> bytes:
    if not text.isascii():
        raise NotComputed("bytes that are no ASCII letters are not computed here")
    return text.encode()


def number(text: str) -> Node:
    """Return the node of an unsigned number as it is written. Raise NotComputed if it is out of
    range."""
    if "e" in text.lower():
        value = float(text)
        if value in (float("inf"), 0) and re.search("[1-9]", text.lower().partition("e")[0]):
            raise NotComputed("a number is too large or too small")
        return Node("literal", REAL_TYPE, detail=value)
    front, point, fraction = text.partition(".")
    whole = int(front or "0")
    if not point and whole <= _UNSIGNED_MAX:
        digits = len(str(whole))
        unsigned = whole > _SIGNED_MAX
        kind = ValueType(ResultType.INTEGER, unsigned, INTEGER_DIGITS if unsigned else digits)
        return Node("literal", kind, detail=whole)
    digits, scale = len(str(whole)) * bool(whole) + len(fraction), len(fraction)
    if digits > 65 or scale > 30:
        raise NotComputed("a number has too many digits")
    kind = ValueType(ResultType.DECIMAL, digits=max(digits, 1), scale=scale)
    return Node("literal", kind, detail=Decimal(f"{whole}.{fraction}" if fraction else whole))


def moment_of(text: str) -> Node:
    """Return a DATE or DATETIME literal. Raise NotComputed for forms other than the one that the
    server prints."""
    match = _MOMENT.fullmatch(text)
    try:
        if not match:
            raise ValueError
        parts = [int(part or 0) for part in match.groups()[:6]]
        fraction = match[7] or ""
        moment = datetime.datetime(*parts, int(fraction.ljust(6, "0") or 0))  # type: ignore[arg-type,call-arg]
    except ValueError:
        raise NotComputed("a literal as a date is not understood") from None
    micros = (moment - _START) // datetime.timedelta(microseconds=1)
    result = ResultType.DATE if match[4] is None else ResultType.DATETIME
    return Node("literal", ValueType(result, scale=len(fraction)), detail=micros)


def time_of(text: str) -> Node:
    """Return a TIME literal. Raise NotComputed for forms other than the one that the server
    prints."""
    match = _TIME.fullmatch(text)
    if not match or int(match[2]) > _HOURS_MAX:
        raise NotComputed("a literal as TIME is not understood")
    fraction = match[5] or ""
    seconds = (int(match[2]) * 60 + int(match[3])) * 60 + int(match[4])
    micros = seconds * 1_000_000 + int(fraction.ljust(6, "0") or 0)
    kind = ValueType(ResultType.TIME, scale=len(fraction))
    return Node("literal", kind, detail=-micros if match[1] else micros)


def repeated(node: Node, count: int) -> pa.Array:
    kind = node.type.arrow
    value: Any = node.detail
    if value is None or count == 0:
        return pa.nulls(count, kind)
    if isinstance(value, int) and not pa.types.is_boolean(kind):
        number_kind = pa.decimal128(38, 0) if pa.types.is_decimal(kind) else pa.int64()
        array = pa.array([value], number_kind).cast(kind)
    else:
        array = pa.array([value], kind)
    return pa.repeat(array[0], count)


def constant(node: Node) -> Any:
    """Return the value of a literal that is a whole number; None for any other node."""
    is_whole = node.is_literal and node.type.result == ResultType.INTEGER
    return node.detail if is_whole else None
