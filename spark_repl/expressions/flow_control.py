"""IF, CASE, IFNULL, COALESCE, NULLIF, GREATEST, LEAST: one of several values, in a type common to
all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import NotComputed
from .coercions import as_type, truth
from .comparison import build_comparison
from .value_type import (
    EXACT,
    INTEGER_DIGITS,
    Node,
    ResultType,
    common_type,
    decimal,
    uncertain,
)

if TYPE_CHECKING:
    from .input_rows import InputRows


def build_choice(operator: str, inputs: Sequence[Node]) -> Node:
    """Build CASE from the inputs condition, value, ..., value."""
    conditions = [truth(operand) for operand in inputs[:-1:2]]
    values = [*inputs[1::2], inputs[-1]]
    kind = common_type(values)
    branches = [as_type(operand, kind) for operand in values]
    paired = [part for pair in zip(conditions, branches, strict=False) for part in pair]
    return Node("CASE", kind, (*paired, branches[-1]))


def build_if(operator: str, inputs: Sequence[Node]) -> Node:
    condition, first, second = inputs
    return build_choice("CASE", (condition, first, second))


def build_coalesce(operator: str, inputs: Sequence[Node]) -> Node:
    kind = common_type(inputs)
    return Node("COALESCE", kind, tuple(as_type(operand, kind) for operand in inputs))


def build_nullif(operator: str, inputs: Sequence[Node]) -> Node:
    value, other = inputs
    if value.type.result == ResultType.NULL:
        return value
    condition = build_comparison("=", (value, other))
    kind = common_type([value])
    return Node("CASE", kind, (condition, Node("literal", kind), as_type(value, kind)))


def build_extreme(operator: str, inputs: Sequence[Node]) -> Node:
    """Build GREATEST and LEAST of numbers and dates. Raise NotComputed for other types."""
    kind = common_type(inputs)
    if kind.result not in EXACT | {ResultType.REAL, ResultType.NULL, ResultType.DATE}:
        raise NotComputed(f"{operator} of {kind.result.name} is not computed here")
    if len({operand.type.unsigned for operand in inputs}) > 1 and kind.result == ResultType.INTEGER:
        kind = decimal(INTEGER_DIGITS, 0)
    return Node(operator, kind, tuple(as_type(operand, kind) for operand in inputs))


def compute_extreme(node: Node, *values: pa.Array) -> pa.Array:
    if any(_has_negative_zero(array) for array in values):
        raise uncertain(f"which sign a zero has in {node.operator}")
    kernel = pc.max_element_wise if node.operator == "GREATEST" else pc.min_element_wise
    return kernel(*values, skip_nulls=False).cast(node.type.arrow)


def _has_negative_zero(values: pa.Array) -> bool:
    if not pa.types.is_float64(values.type):
        return False
    number = np.asarray(pc.fill_null(values, 1.0))
    return bool((np.signbit(number) & (number == 0)).any())


Evaluate = Callable[[Node, "InputRows"], pa.Array]


def evaluate_case(node: Node, rows: InputRows, evaluate: Evaluate) -> pa.Array:
    """Evaluate each branch only for the rows that use it, because values of other rows may be out
    of its range."""
    undecided, results = np.arange(rows.count), pa.nulls(rows.count, node.type.arrow)
    *pairs, otherwise = node.inputs
    for condition, branch in zip(pairs[::2], pairs[1::2], strict=True):
        holds = pc.fill_null(evaluate(condition, rows.at(undecided)), False)
        true = np.asarray(holds.to_numpy(zero_copy_only=False), np.bool_)
        results = _put(results, undecided[true], evaluate(branch, rows.at(undecided[true])))
        undecided = undecided[~true]
    return _put(results, undecided, evaluate(otherwise, rows.at(undecided)))


def evaluate_coalesce(node: Node, rows: InputRows, evaluate: Evaluate) -> pa.Array:
    undecided, results = np.arange(rows.count), pa.nulls(rows.count, node.type.arrow)
    for branch in node.inputs:
        values = evaluate(branch, rows.at(undecided))
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        results = _put(results, undecided[valid], values.filter(pa.array(valid)))
        undecided = undecided[~valid]
    return results


def _put(into: pa.Array, places: np.ndarray, values: pa.Array) -> pa.Array:
    if len(places) == 0:
        return into
    if len(places) == len(into):
        return values
    mask = np.zeros(len(into), np.bool_)
    mask[places] = True
    return pc.replace_with_mask(into, pa.array(mask), values)


BUILT: dict[str, Callable[[str, Sequence[Node]], Node]] = {
    "CASE": build_choice,
    "IF": build_if,
    "IFNULL": build_coalesce,
    "COALESCE": build_coalesce,
    "NULLIF": build_nullif,
    "GREATEST": build_extreme,
    "LEAST": build_extreme,
}
LAZY = {"CASE": evaluate_case, "COALESCE": evaluate_coalesce}
COMPUTED = {"GREATEST": compute_extreme, "LEAST": compute_extreme}
