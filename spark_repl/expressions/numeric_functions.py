"""Functions of one number: FLOOR, CEIL, ROUND, TRUNCATE, SIGN, SQRT, POW; and operators of bits.

+ - * / DIV MOD have MySQL's types: integers of 64 bits, decimals of 65 digits, doubles. MySQL
raises an error for a result out of these ranges, and so do these functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import NotComputed
from .coercions import exact, numeric, numeric_but_moments, real
from .literals import constant
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

_SURELY_INTEGER, _EXACT_POWER, _BITS = 18, 2.0**53, 64


def build_whole(operator: str, inputs: Sequence[Node]) -> Node:
    """Build FLOOR and CEIL. Raise NotComputed for a DECIMAL of 18 integer digits or more."""
    (value,) = (numeric_but_moments(operand, operator) for operand in inputs)
    kind = value.type
    if kind.result == ResultType.DECIMAL:
        if kind.whole >= _SURELY_INTEGER:
            raise NotComputed(f"{operator} of a number of so many digits is not computed here")
        kind = ValueType(ResultType.INTEGER, digits=kind.whole + 1)
    return Node(operator, replace(kind, source=""), (value,))


def compute_whole(node: Node, values: pa.Array) -> pa.Array:
    if node.type.result == ResultType.INTEGER and values.type == node.type.arrow:
        return values
    wholes = (pc.floor if node.operator == "FLOOR" else pc.ceil)(_roomy(values))
    return wholes if node.type.result == ResultType.REAL else wholes.cast(node.type.arrow)


def _roomy(values: pa.Array) -> pa.Array:
    """Return decimals in a type with one more digit."""
    kind = values.type
    if not pa.types.is_decimal(kind):
        return values
    return values.cast(pa.decimal256(kind.precision + 1, kind.scale))


def build_round(operator: str, inputs: Sequence[Node]) -> Node:
    """Build ROUND and TRUNCATE. Raise NotComputed unless the number of digits is a literal."""
    value, *rest = inputs
    operand = numeric_but_moments(value, operator)
    digits = constant(rest[0]) if rest else 0
    if digits is None or abs(digits) > DECIMAL_SCALE:
        raise NotComputed(f"{operator} to digits that are no plain number is not computed here")
    kind = operand.type
    if kind.result == ResultType.INTEGER and digits < 0:
        raise NotComputed(f"{operator} in front of the point is not computed here")
    if kind.result == ResultType.DECIMAL:
        if digits < 0:
            raise NotComputed(f"{operator} in front of the point is not computed here")
        scale = min(digits, kind.scale)
        kind = decimal(kind.whole + 1 + scale, scale, loose=kind.loose or digits > kind.scale)
    return Node(operator, replace(kind, source=""), (operand,), digits)


def compute_round(node: Node, values: pa.Array) -> pa.Array:
    kind, digits = node.type, node.detail
    if kind.result == ResultType.INTEGER:
        return values
    if kind.result == ResultType.REAL:
        return _round_real(node, values)
    mode = "half_towards_infinity" if node.operator == "ROUND" else "towards_zero"
    rounded = pc.round(_roomy(values), min(digits, kind.scale), mode)
    return rounded.cast(kind.arrow)


def _round_real(node: Node, values: pa.Array) -> pa.Array:
    """Round as the server's C code does: a value halfway between two goes to the even one."""
    missing = values.is_null().to_numpy(zero_copy_only=False)
    number = np.asarray(pc.fill_null(values, 0.0))
    factor = float(f"1e{abs(node.detail)}")
    with np.errstate(over="ignore"):
        raised = number / factor if node.detail < 0 else number * factor
    cut = np.rint(raised) if node.operator == "ROUND" else np.trunc(raised)
    rounded = cut * factor if node.detail < 0 else cut / factor
    return pa.array(np.where(np.isinf(raised), number, rounded), mask=missing)


def build_sign(operator: str, inputs: Sequence[Node]) -> Node:
    (value,) = (numeric(operand) for operand in inputs)
    return Node(operator, replace(BIGINT, digits=1), (value,))


def compute_sign(node: Node, values: pa.Array) -> pa.Array:
    return pc.sign(values).cast(pa.int8()).cast(node.type.arrow)


def build_real(operator: str, inputs: Sequence[Node]) -> Node:
    """Build SQRT and POW."""
    if len(inputs) != (1 if operator == "SQRT" else 2):
        raise NotComputed(f"{operator} of {len(inputs)} values is not computed here")
    return Node(operator, REAL_TYPE, tuple(real(operand) for operand in inputs))


def compute_sqrt(node: Node, values: pa.Array) -> pa.Array:
    positive = pc.if_else(pc.less(values, 0.0), pa.scalar(None, pa.float64()), values)
    return pc.sqrt(positive)


def compute_power(node: Node, base: pa.Array, power: pa.Array) -> pa.Array:
    """Return powers. Raise Unconvertible if the last digit may depend on the server's machine."""
    missing = pc.or_(base.is_null(), power.is_null()).to_numpy(zero_copy_only=False)
    x, y = (np.where(missing, 1.0, np.asarray(pc.fill_null(v, 1.0))) for v in (base, power))
    whole = (x == np.rint(x)) & (y == np.rint(y)) & (y >= 0)
    with np.errstate(all="ignore"):
        powers = np.power(x, y)
    if not (whole & (np.abs(powers) < _EXACT_POWER)).all():
        raise uncertain("the last digit of a power may depend on the source's machine")
    return pa.array(np.rint(powers), mask=missing)


def build_bits(operator: str, inputs: Sequence[Node]) -> Node:
    """Build & | ^ ~ << >> of integers. Raise NotComputed for decimals."""
    operands = []
    for operand in inputs:
        node = exact(operand)
        if node.type.result != ResultType.INTEGER:
            raise NotComputed(f"{operator} of decimals is not computed here")
        operands.append(node)
    return Node(operator, UNSIGNED, tuple(operands))


def _bits(values: pa.Array) -> np.ndarray:
    """Return the 64 bits of integers, in two's complement; NULL as 0."""
    negative = pc.fill_null(pc.less(values, zero(values.type)), False)
    signed = pc.if_else(negative, values, zero(values.type))
    positive = pc.if_else(negative, zero(values.type), values)
    below = pc.fill_null(signed.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    above = pc.fill_null(positive.cast(pa.uint64()), 0).to_numpy(zero_copy_only=False)
    bits: np.ndarray = below.view(np.uint64) | above
    return bits


def _shift(values: np.ndarray, counts: np.ndarray, *, left: bool) -> np.ndarray:
    inside = counts < _BITS
    by = np.where(inside, counts, 0).astype(np.uint64)
    return np.where(inside, values << by if left else values >> by, 0).astype(np.uint64)


_KERNELS: dict[str, Callable[..., Any]] = {
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "~": np.invert,
    "<<": lambda values, counts: _shift(values, counts, left=True),
    ">>": lambda values, counts: _shift(values, counts, left=False),
}


def compute_bits(node: Node, *values: pa.Array) -> pa.Array:
    missing = np.logical_or.reduce(
        [array.is_null().to_numpy(zero_copy_only=False) for array in values]
    )
    bits = _KERNELS[node.operator](*(_bits(array) for array in values))
    return pa.array(bits, pa.uint64(), mask=missing).cast(node.type.arrow)


BUILT: dict[str, Callable[[str, Sequence[Node]], Node]] = {
    **dict.fromkeys(("FLOOR", "CEIL"), build_whole),
    **dict.fromkeys(("ROUND", "TRUNCATE"), build_round),
    "SIGN": build_sign,
    **dict.fromkeys(("SQRT", "POW"), build_real),
    **dict.fromkeys(_KERNELS, build_bits),
}
COMPUTED: dict[str, Callable[..., pa.Array]] = {
    **dict.fromkeys(("FLOOR", "CEIL"), compute_whole),
    **dict.fromkeys(("ROUND", "TRUNCATE"), compute_round),
    "SIGN": compute_sign,
    "SQRT": compute_sqrt,
    "POW": compute_power,
    **dict.fromkeys(_KERNELS, compute_bits),
}


_RANGES = {False: (-(1 << 63), (1 << 63) - 1), True: (0, (1 << 64) - 1)}
_ARROW_DIGITS, _QUOTIENT_SCALE, _WORD = 76, 4, 9
_DECIMAL_KERNELS = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}


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
    kernel = _DECIMAL_KERNELS[node.operator]
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
    """Build /, DIV and MOD. The result is NULL if the divisor is 0."""
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
