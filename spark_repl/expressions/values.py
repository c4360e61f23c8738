"""Values of one type made another: numbers, text, truth."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from ..convert.decimal_text import plain_text
from ..convert.temporal import moment_text, time_text
from ..convert.text_number import store_number_text
from ..convert.type_change import TypeChange
from ..sql.session import Session
from ..tables.column import Column, ColumnType
from .value_type import TEMPORAL, Node, ResultType, ValueType, zero

_WIDE_TEXT = Column("", ColumnType.VARCHAR, 1 << 30, nullable=True, collation=255)
_DOUBLE = Column("", ColumnType.DOUBLE, 8, nullable=True, detail="")


def to_exact(node: Node, values: pa.Array) -> pa.Array:
    kind, before = node.type, node.inputs[0].type
    if before.result in TEMPORAL:
        return _digits(values, before).cast(kind.arrow)
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    return values.cast(kind.arrow)


def _digits(values: pa.Array, kind: ValueType) -> pa.Array:
    """Moments as YYYYMMDDhhmmss, times as hhmmss, with their fraction."""
    texts = pc.replace_substring_regex(moments_text(values, kind), "[-: ]", "")
    negative = kind.result == ResultType.TIME
    if negative:
        sign = pc.if_else(pc.less(values, 0), "-", "")
        texts = pc.binary_join_element_wise(sign, texts, "")
    return texts.cast(pa.decimal256(30, kind.scale))


def moments_text(values: pa.Array, kind: ValueType) -> pa.Array:
    """Dates and times as the server prints them."""
    missing = values.is_null().to_numpy(zero_copy_only=False)
    micros = pc.fill_null(values.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    if kind.result == ResultType.TIME:
        return time_text(micros, missing, kind.scale)
    return moment_text(micros, missing, kind.scale, kind.result == ResultType.DATE)


def to_real(node: Node, values: pa.Array) -> pa.Array:
    """The nearest double; of text what can be read as a number from its beginning."""
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
