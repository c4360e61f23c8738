"""+ - * / DIV MOD and the functions of numbers, with MySQL's types: integers of 64 bits, decimals
of 65 digits, doubles. MySQL also raises an error for a result out of these ranges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import NotComputed
from .coercions import numeric, numeric_but_moments, real
from .value_type import (
    BIGINT,
    DECIMAL_SCALE,
    EXACT,
    INTEGER_DIGITS,
    REAL_TYPE,
    UNSIGNED,
    Node,
    ResultType,
    ValueType,
    decimal,
    uncertain,
    zero,
)

_RANGES = {False: (-(1 << 63), (1 << 63) - 1), True: (0, (1 << 64) - 1)}
_ARROW_DIGITS, _QUOTIENT_SCALE, _WORD = 76, 4, 9
_KERNELS = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}


def build_sum(operator: str, inputs: Sequence[Node]) -> Node:
    """Build +, - and *."""
    left, right = (numeric(operand) for operand in inputs)
    a, b = left.type, right.type
    if ResultType.REAL in (a.result, b.result):
        return Node(operator, REAL_TYPE, (real(left), real(right)))
    if a.result == b.result == ResultType.INTEGER:
        digits = max(a.digits, b.digits) + 1 if operator != "*" else a.digits + b.digits
        unsigned = a.unsigned or b.unsigned
        kind = ValueType(ResultType.INTEGER, unsigned, min(digits, INTEGER_DIGITS - (not unsigned)))
    elif operator == "*":
        kind = decimal(a.digits + b.digits, a.scale + b.scale)
    else:
        scale = max(a.scale, b.scale)
        kind = decimal(max(a.whole, b.whole) + 1 + scale, scale)
    return Node(operator, replace(kind, loose=a.loose or b.loose), (left, right))


def compute_sum(node: Node, left: pa.Array, right: pa.Array) -> pa.Array:
    kernel = _KERNELS[node.operator]
    if node.type.result == ResultType.REAL:
        return finite(kernel(left, right))
    total = kernel(*(_decimal256(operand) for operand in (left, right)))
    return (
        total.cast(node.type.arrow)
        if node.type.result == ResultType.DECIMAL
        else whole(total, node)
    )


def _decimal256(values: pa.Array) -> pa.Array:
    kind = values.type
    return values.cast(pa.decimal256(kind.precision, kind.scale))


def whole(values: pa.Array, node: Node) -> pa.Array:
    """Cast values to INTEGER, in the range of the node's type. Raise Unconvertible for a value out
    of range."""
    low, high = _RANGES[node.type.unsigned]
    edges = (pa.scalar(str(edge)).cast(pa.decimal256(INTEGER_DIGITS, 0)) for edge in (low, high))
    least, most = edges
    if pc.any(pc.or_(pc.less(values, least), pc.greater(values, most))).as_py():
        sign = " UNSIGNED" if node.type.unsigned else ""
        raise uncertain(f"a BIGINT{sign} value is out of range, which every server refuses")
    return values.cast(node.type.arrow)


def finite(values: pa.Array) -> pa.Array:
    """Return the doubles. Raise Unconvertible if a value is infinite or NaN."""
    if not pc.all(pc.is_finite(values)).as_py() and len(values) > values.null_count:
        raise uncertain("a DOUBLE value is out of range, which every server refuses")
    return values


def build_quotient(operator: str, inputs: Sequence[Node]) -> Node:
    """Build /, DIV and MOD. The result is NULL where the divisor is 0."""
    left, right = (numeric(operand) for operand in inputs)
    a, b = left.type, right.type
    is_real = ResultType.REAL in (a.result, b.result)
    if operator == "DIV":
        if is_real:
            raise NotComputed("DIV of doubles and text is not computed here")
        _check_digits(a, b, 0)
        return Node("DIV", UNSIGNED if a.unsigned or b.unsigned else BIGINT, (left, right))
    if is_real:
        return Node(operator, REAL_TYPE, (real(left), real(right)))
    if operator == "MOD":
        if a.result == b.result == ResultType.INTEGER:
            kind = ValueType(ResultType.INTEGER, a.unsigned, a.digits)
        else:
            scale = max(a.scale, b.scale)
            kind = decimal(max(a.whole, b.whole) + scale, scale, loose=a.scale != b.scale)
    else:
        scale = min(a.scale + _QUOTIENT_SCALE, DECIMAL_SCALE)
        kind = decimal(a.whole + b.scale + scale, scale)
    if a.loose or b.loose:
        raise NotComputed("a quotient of numbers with different digits is not computed here")
    detail = _quotient_scale(a, b)
    _check_digits(a, b, 0 if operator == "MOD" else detail[0])
    return Node(operator, kind, (left, right), detail)


def compute_quotient(node: Node, left: pa.Array, right: pa.Array) -> pa.Array:
    is_zero = pc.equal(right, zero(right.type))
    right = pc.if_else(is_zero, pa.scalar(None, right.type), right)
    if node.type.result == ResultType.REAL:
        return _real_quotient(node, left, right)
    if node.operator == "/":
        scale, (computed_scale, shown_scale) = node.type.scale, node.detail
        decimals = _scaled(divided(left, right, computed_scale), computed_scale)
        if computed_scale > shown_scale:
            decimals = pc.round(decimals, shown_scale, "half_towards_infinity")
        return decimals.cast(pa.decimal256(_ARROW_DIGITS, scale)).cast(node.type.arrow)
    quotient = divided(left, right, 0)
    if node.operator == "DIV":
        return whole(quotient, node)
    scale = max(left.type.scale, right.type.scale)
    top, bottom = (unscaled(_raised(operand, scale)) for operand in (left, right))
    back = pc.multiply(quotient, bottom).cast(top.type)
    return _scaled(pc.subtract(top, back), scale).cast(node.type.arrow)


def _raised(values: pa.Array, scale: int) -> pa.Array:
    kind = values.type
    return values.cast(pa.decimal256(kind.precision - kind.scale + scale, scale))


def unscaled(values: pa.Array) -> pa.Array:
    """Return all digits of decimals as a whole number."""
    digits = values.type.precision
    wide = values.cast(pa.decimal256(_ARROW_DIGITS, values.type.scale))
    kind = pa.decimal256(_ARROW_DIGITS, 0)
    numbers = pa.Array.from_buffers(kind, len(wide), wide.buffers(), wide.null_count, wide.offset)
    return numbers.cast(pa.decimal256(digits, 0))


def _scaled(digits: pa.Array, scale: int) -> pa.Array:
    """Return decimals of ``scale`` whose digits are these whole numbers."""
    wide = digits.cast(pa.decimal256(_ARROW_DIGITS, 0))
    kind = pa.decimal256(_ARROW_DIGITS, scale)
    return pa.Array.from_buffers(kind, len(wide), wide.buffers(), wide.null_count, wide.offset)


def divided(left: pa.Array, right: pa.Array, scale: int) -> pa.Array:
    """Return quotients times 10 ** ``scale`` as whole numbers, truncated."""
    shift = scale + right.type.scale - left.type.scale
    top = unscaled(_raised(left, left.type.scale + max(shift, 0)))
    bottom = unscaled(_raised(right, right.type.scale - min(shift, 0)))
    return pc.trunc(pc.divide(top, bottom)).cast(top.type)


def _check_digits(a: ValueType, b: ValueType, scale: int) -> None:
    """Raise NotComputed if a quotient needs more digits than Arrow has."""
    shift = scale + b.scale - a.scale
    most = INTEGER_DIGITS
    digits = (most if a.result == ResultType.INTEGER else a.digits) + max(shift, 0)
    right = (most if b.result == ResultType.INTEGER else b.digits) - min(shift, 0)
    if digits + max(right + 1, 6) + 1 > _ARROW_DIGITS:
        raise NotComputed("a quotient of so many digits is not computed here")


def _quotient_scale(a: ValueType, b: ValueType) -> tuple[int, int]:
    """Return the number of fractional digits that the server's division computes, and the number
    that it keeps. The server computes in words of nine digits."""
    padded = [-(-kind.scale // _WORD) * _WORD for kind in (a, b)]
    more = max(_QUOTIENT_SCALE - (padded[0] - a.scale) - (padded[1] - b.scale), 0)
    scale = -(-(sum(padded) + more) // _WORD) * _WORD
    return scale, min(a.scale + _QUOTIENT_SCALE, DECIMAL_SCALE)


def _real_quotient(node: Node, left: pa.Array, right: pa.Array) -> pa.Array:
    if node.operator == "/":
        return finite(pc.divide(left, right))
    missing = pc.or_kleene(left.is_null(), right.is_null()).to_numpy(zero_copy_only=False)
    values = [np.asarray(pc.fill_null(operand, 1.0)) for operand in (left, right)]
    return pa.array(np.fmod(*values), mask=missing)


def build_negation(operator: str, inputs: Sequence[Node]) -> Node:
    (node,) = (numeric_but_moments(operand, operator) for operand in inputs)
    kind = node.type
    if node.is_literal and kind.result in EXACT | {ResultType.REAL} and node.detail is not None:
        if kind.unsigned and node.detail > 1 << 63:
            raise NotComputed("a number of so many digits is not computed here")
        return replace(node, type=replace(kind, unsigned=False), detail=-node.detail)
    if kind.result == ResultType.INTEGER:
        kind = replace(kind, unsigned=False)
    return Node(operator, replace(kind, source=""), (node,))


def compute_negation(node: Node, values: pa.Array) -> pa.Array:
    negated = pc.negate(values)
    return whole(negated, node) if node.type.result == ResultType.INTEGER else negated


def build_absolute(operator: str, inputs: Sequence[Node]) -> Node:
    (node,) = (numeric_but_moments(operand, operator) for operand in inputs)
    return Node(operator, replace(node.type, source=""), (node,))


def compute_absolute(node: Node, values: pa.Array) -> pa.Array:
    magnitudes = pc.abs(values)
    return whole(magnitudes, node) if node.type.result == ResultType.INTEGER else magnitudes
