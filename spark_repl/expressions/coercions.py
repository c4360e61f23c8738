"""Coercions: values converted to the type that an operator needs. The functions that take a Node
build nodes; ``COERCIONS`` computes their values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from ..convert.number_text import plain_text
from ..convert.temporal import moment_text, time_text
from ..convert.to_number import store_number_text
from ..convert.type_change import TypeChange
from ..errors import NotComputed
from ..sql.charsets import WIDE
from ..sql.session import Session
from ..tables.column import Column, ColumnType
from .literals import moment_of, time_of
from .value_type import (
    BIGINT,
    DATE_TYPE,
    EXACT,
    INTEGER_DIGITS,
    MOMENTS,
    PLAIN_TEXT,
    REAL_TYPE,
    TEMPORAL,
    TRUTH,
    Node,
    ResultType,
    ValueType,
    zero,
)

_NUMBERS_OF = {ResultType.DATE: 8, ResultType.DATETIME: 14, ResultType.TIME: 7}
_ARITHMETIC = frozenset(("TO EXACT", "TO REAL", "+", "-", "*", "/", "DIV", "MOD"))
_WIDE_TEXT = Column("", ColumnType.VARCHAR, 1 << 30, nullable=True, collation=255)
_DOUBLE = Column("", ColumnType.DOUBLE, 8, nullable=True, detail="")


def numeric(node: Node) -> Node:
    """Return the value in the form that arithmetic uses: exact, or REAL. Raise NotComputed for ENUM
    and SET."""
    kind = node.type
    if kind.result == ResultType.REAL:
        return node
    if kind.result == ResultType.NULL:
        return Node("literal", REAL_TYPE)
    if kind.result == ResultType.TEXT:
        if kind.source == "ENUM":
            raise NotComputed("ENUM and SET as numbers are not computed here")
        return real(node)
    return exact(node)


def numeric_but_moments(node: Node, operator: str) -> Node:
    """Return the value in the form that functions of one number use. Raise NotComputed for dates
    and times, which these functions read as doubles, unlike operators with two operands."""
    if _has_moment(node):
        raise NotComputed(f"{operator} of a date or time is not computed here")
    return numeric(node)


def _has_moment(node: Node) -> bool:
    """Return whether it is a date or time, or arithmetic with one as a number."""
    if node.type.result in TEMPORAL:
        return True
    return node.operator in _ARITHMETIC and any(_has_moment(operand) for operand in node.inputs)


def exact(node: Node) -> Node:
    """Return the value as INTEGER or DECIMAL. Raise NotComputed if it is neither."""
    kind = node.type
    if kind.source == "TRUTH":
        return Node("TO EXACT", replace(kind, source=""), (node,))
    if kind.result in EXACT:
        return node
    if kind.result == ResultType.NULL:
        return Node("literal", BIGINT)
    if kind.result in TEMPORAL:
        digits = _NUMBERS_OF[kind.result] + kind.scale
        result = ResultType.DECIMAL if kind.scale else ResultType.INTEGER
        # MySQL prints no fraction if it is zero.
        loose = kind.scale > 0 or kind.result == ResultType.TIME
        exact_type = ValueType(result, digits=digits, scale=kind.scale, loose=loose)
        return Node("TO EXACT", exact_type, (node,))
    if kind.source == "HEX" and len(node.detail) <= 8:
        value = int.from_bytes(node.detail, "big")
        return Node("literal", ValueType(ResultType.INTEGER, True, INTEGER_DIGITS), detail=value)
    raise NotComputed(f"{_name(kind)} as a number is not computed here")


def real(node: Node) -> Node:
    """Return the value as REAL. Raise NotComputed for a type whose conversion is not
    implemented."""
    kind = node.type
    if kind.result == ResultType.REAL:
        return node
    if kind.result == ResultType.TEXT and kind.source not in ("ENUM",) and _is_ascii_like(kind):
        return Node("TO REAL", REAL_TYPE, (node,))
    return Node("TO REAL", REAL_TYPE, (exact(node),))


def _is_ascii_like(kind: ValueType) -> bool:
    """Return whether a digit has one byte in the character set."""
    return kind.charset not in WIDE


def text(node: Node) -> Node:
    """Return the value as TEXT; BYTES stay as they are. Raise NotComputed for numbers whose text is
    not known."""
    kind = node.type
    if kind.result in (ResultType.TEXT, ResultType.BYTES):
        return node
    if kind.result == ResultType.NULL:
        return Node("literal", PLAIN_TEXT)
    if kind.result == ResultType.JSON:
        return Node(
            "TO TEXT", ValueType(ResultType.TEXT, charset="utf8mb4", source="JSON"), (node,)
        )
    if kind.result == ResultType.REAL or kind.loose or kind.source in ("YEAR", "ZEROFILL", "BIT"):
        raise NotComputed(f"{_name(kind)} as text is not computed here")
    return Node("TO TEXT", PLAIN_TEXT, (exact(node) if kind.result in EXACT else node,))


def truth(node: Node) -> Node:
    """Return whether the value is true, as a boolean array. Raise NotComputed for a value that is
    not numeric."""
    if node.type.source == "TRUTH":
        return node
    return Node("TO TRUTH", TRUTH, (numeric(node),))


def as_type(node: Node, kind: ValueType) -> Node:
    """Return the value as ``kind``, the type of all branches. Raise NotComputed for a pair of types
    whose conversion is not implemented."""
    result = kind.result
    if node.type.result == ResultType.NULL:
        return Node("literal", kind)
    if result in EXACT:
        inner = exact(node)
        return inner if inner.type.arrow == kind.arrow else Node("TO EXACT", kind, (inner,))
    if result == ResultType.REAL:
        return real(node)
    if result == ResultType.TEXT:
        return text(node)
    if result == ResultType.BYTES:
        return as_bytes(node)
    if result == ResultType.DATETIME and node.type.result in MOMENTS:
        return node
    if result != node.type.result:
        raise NotComputed(f"{_name(node.type)} as {_name(kind)} is not computed here")
    return node


def as_bytes(node: Node) -> Node:
    """Return the value as BYTES; text is encoded in its own character set. Raise NotComputed for a
    value that has no text."""
    if node.type.result == ResultType.BYTES:
        return node
    return Node("TO BYTES", ValueType(ResultType.BYTES), (text(node),))


def _name(kind: ValueType) -> str:
    return kind.source if kind.source not in ("", "TRUTH", "HEX") else kind.result.name


def moment(node: Node) -> Node:
    """Return the value as DATE or DATETIME. Raise NotComputed for other types, and for text that is
    not a literal in the form that the server prints."""
    if node.type.result in MOMENTS:
        return node
    if node.type.result == ResultType.NULL:
        return Node("literal", DATE_TYPE)
    if node.type.result == ResultType.TEXT and node.is_literal:
        return moment_of(node.detail)
    raise NotComputed(f"{node.type.result.name} as a date is not computed here")


def clock(node: Node) -> Node:
    """Return the value as DATE, DATETIME or TIME. Raise NotComputed as ``moment`` does."""
    if node.type.result == ResultType.TIME:
        return node
    if node.type.result == ResultType.TEXT and node.is_literal and "-" not in node.detail[1:]:
        return time_of(node.detail)
    return moment(node)


def to_exact(node: Node, values: pa.Array) -> pa.Array:
    kind, before = node.type, node.inputs[0].type
    if before.result in TEMPORAL:
        return _digits(values, before).cast(kind.arrow)
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    return values.cast(kind.arrow)


def _digits(values: pa.Array, kind: ValueType) -> pa.Array:
    """Return moments as YYYYMMDDhhmmss and times as hhmmss, with their fractions."""
    texts = pc.replace_substring_regex(moments_text(values, kind), "[-: ]", "")
    negative = kind.result == ResultType.TIME
    if negative:
        sign = pc.if_else(pc.less(values, 0), "-", "")
        texts = pc.binary_join_element_wise(sign, texts, "")
    return texts.cast(pa.decimal256(30, kind.scale))


def moments_text(values: pa.Array, kind: ValueType) -> pa.Array:
    """Return dates and times as the server prints them."""
    missing = values.is_null().to_numpy(zero_copy_only=False)
    micros = pc.fill_null(values.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    if kind.result == ResultType.TIME:
        return time_text(micros, missing, kind.scale)
    return moment_text(micros, missing, kind.scale, kind.result == ResultType.DATE)


def to_real(node: Node, values: pa.Array) -> pa.Array:
    """Return the nearest doubles; for text, the number with which it begins."""
    if pa.types.is_string(values.type):
        return store_number_text(
            values, TypeChange(_WIDE_TEXT, _DOUBLE, Session(), plain=True)
        ).values
    return values.cast(pa.string()).cast(pa.float64())


def to_text(node: Node, values: pa.Array) -> pa.Array:
    kind = node.inputs[0].type
    if kind.result in TEMPORAL:
        return moments_text(values, kind)
    return values if kind.result == ResultType.JSON else plain_text(values)


def to_truth(node: Node, values: pa.Array) -> pa.Array:
    return pc.not_equal(values, zero(values.type))


COERCIONS: dict[str, Callable[[Node, pa.Array], pa.Array]] = {
    "TO EXACT": to_exact,
    "TO REAL": to_real,
    "TO TEXT": to_text,
    "TO TRUTH": to_truth,
}
