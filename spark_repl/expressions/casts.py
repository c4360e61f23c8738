"""CAST and CONVERT to SIGNED, UNSIGNED, DECIMAL, DOUBLE, CHAR, BINARY, DATE and DATETIME."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..convert.temporal import rounded
from ..convert.to_number import store_exact, store_real
from ..convert.type_change import TypeChange, by_distinct
from ..errors import NotComputed
from ..sql.session import Session
from ..tables.column import Column, ColumnType
from .coercions import as_bytes, moment, numeric, real, text
from .value_type import (
    BIGINT,
    DATE_TYPE,
    MIXED,
    TEMPORAL,
    UNSIGNED,
    Node,
    ResultType,
    ValueType,
    decimal,
    uncertain,
)

_END, _FRACTION_MAX = 253_402_300_800_000_000, 6
_WHOLE = re.compile(r" *[+-]?[0-9]{1,18}", re.ASCII)
_DOUBLE = Column("", ColumnType.DOUBLE, 8, nullable=True, detail="")


def build_cast(inputs: Sequence[Node], words: Sequence[str]) -> Node:
    """Build a CAST from its operand and (type, sizes, character set). Raise NotComputed for any
    other cast."""
    (value,), (kind, numbers, charset) = inputs, words
    sizes = [int(number) for number in numbers.split(",") if number]
    if kind in ("SIGNED", "UNSIGNED"):
        return _integer(value, unsigned=kind == "UNSIGNED")
    if kind == "DECIMAL":
        precision, scale = ([*sizes, 0] if sizes else [10, 0])[:2]
        operand = numeric(value)
        if value.type.result == ResultType.TEXT:
            raise NotComputed("CAST of text AS DECIMAL is not computed here")
        return Node("CAST DECIMAL", decimal(precision or 10, scale), (operand,))
    if kind in ("DOUBLE", "REAL"):
        return real(value)
    if kind == "CHAR":
        return _char(value, sizes, charset)
    if kind == "BINARY":
        if value.type.result == ResultType.NULL:
            return Node("literal", ValueType(ResultType.BYTES))
        return Node(
            "CAST BINARY", ValueType(ResultType.BYTES), (as_bytes(value),), (*sizes, None)[0]
        )
    if kind == "DATE":
        return Node("DATE", DATE_TYPE, (moment(value),))
    if kind == "DATETIME":
        digits = sizes[0] if sizes else 0
        return Node("CAST DATETIME", ValueType(ResultType.DATETIME, scale=digits), (moment(value),))
    raise NotComputed(f"CAST AS {kind} is not computed here")


def _integer(value: Node, *, unsigned: bool) -> Node:
    kind = UNSIGNED if unsigned else BIGINT
    if value.type.result == ResultType.TEXT and value.type.source != "ENUM":
        return Node("CAST TEXT", kind, (value,))
    operand = numeric(value)
    if value.type.result in TEMPORAL and operand.type.scale:
        raise NotComputed("CAST of a fraction of seconds is not computed here")
    return Node("CAST INTEGER", kind, (operand,))


def _char(value: Node, sizes: Sequence[int], charset: str) -> Node:
    operand = text(value)
    is_bytes = operand.type.result == ResultType.BYTES
    if is_bytes or charset not in ("", "utf8mb4", operand.type.charset):
        raise NotComputed("CAST from or to such a character set is not computed here")
    if charset == "" and operand.type.charset not in ("", "utf8mb4", "utf8mb3"):
        charset = MIXED
    kind = replace(operand.type, charset=charset, source="")
    return Node("CAST CHAR", kind, (operand,), sizes[0] if sizes else None)


def cast_integer(node: Node, values: pa.Array) -> pa.Array:
    """Cast numbers to integers. An integer keeps its 64 bits. Raise Unconvertible if a rounded
    number does not fit."""
    kind = node.type
    if pa.types.is_floating(values.type):
        number = np.rint(np.asarray(pc.fill_null(values, 0.0)))
        if (np.abs(number) >= 2.0**63).any() or (kind.unsigned and (number < 0).any()):
            raise uncertain("a number has no room in 64 bits")
        missing = values.is_null().to_numpy(zero_copy_only=False)
        return pa.array(number.astype(np.int64), mask=missing).cast(kind.arrow)
    if values.type.scale or values.type.precision > BIGINT.digits + 1:
        return _rounded_integer(node, values)
    edge = pa.scalar(Decimal(1 << 64), pa.decimal128(21, 0))
    wide = values.cast(pa.decimal128(21, 0))
    if kind.unsigned:
        negative = pc.less(wide, pa.scalar(Decimal(0), wide.type))
        return pc.if_else(negative, pc.add(wide, edge).cast(wide.type), wide).cast(kind.arrow)
    large = pc.greater(wide, pa.scalar(Decimal((1 << 63) - 1), wide.type))
    return pc.if_else(large, pc.subtract(wide, edge).cast(wide.type), wide).cast(kind.arrow)


def _rounded_integer(node: Node, values: pa.Array) -> pa.Array:
    room = pa.decimal256(min(values.type.precision + 1, 76), values.type.scale)
    integers = pc.round(values.cast(room), 0, "half_towards_infinity")
    low = 0 if node.type.unsigned else -(1 << 63)
    edges = (pa.scalar(Decimal(edge), pa.decimal256(76 - room.scale, 0)) for edge in (low, 1 << 63))
    least, most = (edge.cast(pa.decimal256(76, room.scale)) for edge in edges)
    wide = integers.cast(pa.decimal256(76, room.scale))
    if pc.any(pc.or_(pc.less(wide, least), pc.greater_equal(wide, most))).as_py():
        raise uncertain("a number has no room in 64 bits")
    return wide.cast(node.type.arrow)


def cast_text(node: Node, values: pa.Array) -> pa.Array:
    """Cast text to integers: the digits before the first other character. Raise Unconvertible for
    text without such digits, for more than 18, and for a negative number as UNSIGNED."""

    def read(value: str | None) -> tuple[int | None, bool]:
        if value is None:
            return None, True
        match = _WHOLE.match(value)
        rest = value[match.end() :] if match else value
        if not match or rest[:1].isdigit() or (node.type.unsigned and "-" in match[0]):
            raise uncertain(f"{value[:60]!r} as an integer")
        return int(match[0]), True

    return by_distinct(values, read, pa.int64()).values.cast(node.type.arrow)


def cast_decimal(node: Node, values: pa.Array) -> pa.Array:
    """Cast numbers to DECIMAL. Raise Unconvertible for a number that does not fit."""
    digits, scale = node.type.digits, node.type.scale
    after = Column("", ColumnType.DECIMAL, digits << 8 | scale, nullable=True)
    if pa.types.is_floating(values.type):
        stored = store_real(values, TypeChange(_DOUBLE, after, Session(), plain=True))
    else:
        wide = values.cast(pa.decimal256(76, values.type.scale))
        stored = store_exact(wide, TypeChange(after, after, Session()))
    if stored.unfit is not None and pc.any(stored.unfit).as_py():
        raise uncertain("a number has more digits than it is cast to")
    return stored.values.cast(node.type.arrow)


def cast_char(node: Node, values: pa.Array) -> pa.Array:
    return values if node.detail is None else pc.utf8_slice_codeunits(values, 0, node.detail)


def cast_binary(node: Node, values: pa.Array) -> pa.Array:
    size = node.detail
    if size is None:
        return values
    fixed = by_distinct(
        values, lambda raw: (raw and raw[:size].ljust(size, b"\0"), True), pa.binary()
    ).values
    return pc.if_else(pc.equal(pc.binary_length(values), 0), b"\0" * size, fixed)


def cast_datetime(node: Node, values: pa.Array) -> pa.Array:
    """Round moments to the fraction's digits. Raise Unconvertible if one is rounded to the year
    10000."""
    missing = values.is_null().to_numpy(zero_copy_only=False)
    micros = pc.fill_null(values.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    moments = rounded(micros + _END, node.type.scale, False) - _END
    if (moments >= _END).any():
        raise uncertain("a moment is rounded to the year 10000")
    return pa.array(moments, pa.timestamp("us"), mask=missing)


COMPUTED: dict[str, Callable[..., pa.Array]] = {
    "CAST INTEGER": cast_integer,
    "CAST TEXT": cast_text,
    "CAST DECIMAL": cast_decimal,
    "CAST CHAR": cast_char,
    "CAST BINARY": cast_binary,
    "CAST DATETIME": cast_datetime,
}
