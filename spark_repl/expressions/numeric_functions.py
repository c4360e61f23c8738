"""Functions of one number: FLOOR, CEIL, ROUND, TRUNCATE, SIGN, SQRT, POW; and operators of bits."""

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
