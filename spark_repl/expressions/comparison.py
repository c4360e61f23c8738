"""= <=> <> < <= > >= BETWEEN IN, IS, and AND, OR, XOR, NOT: truth values, or NULL.

The collation that compares texts is mostly not known here. Two texts are then equal if they have
the same letters, and different if no collation could call them equal; any other pair is refused. A
known collation (``ValueType.collation``) decides by its known rules. An order of texts is computed
only by collations whose order is known (``collations``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..binlog.charsets import collation_compare
from ..errors import DecodeError, NotComputed
from .coercions import as_bytes, exact, real, truth
from .collations import check_ordered, known_collation
from .literals import moment_of, number, time_of
from .value_type import EXACT, MOMENTS, TRUTH, Node, ResultType, uncertain

_NUMBERS = EXACT | {ResultType.REAL}
_KERNELS = {
    "=": pc.equal, "<=>": pc.equal, "<>": pc.not_equal, "<": pc.less, "<=": pc.less_equal,
    ">": pc.greater, ">=": pc.greater_equal,
}  # fmt: skip
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ARROW_DIGITS, _TWO_DIGITS = 76, 100
_PRINTABLE = re.compile(r"[ -~]*")
_PLAIN_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,14})", re.ASCII)


def comparable(inputs: Sequence[Node], *, equality: bool) -> list[Node]:
    """Return the inputs in the types in which MySQL compares them. Raise NotComputed for a
    comparison that is not implemented."""
    results = {node.type.result for node in inputs} - {ResultType.NULL}
    if not results:
        return [exact(operand) for operand in inputs]
    if ResultType.TEXT in results and len(results) > 1:
        return comparable(_literals_as(inputs, results), equality=equality)
    if results <= _NUMBERS:
        _check_years(inputs)
    if results <= EXACT:
        return _same_scale([exact(operand) for operand in inputs])
    if results <= _NUMBERS:
        return [real(operand) for operand in inputs]
    if results <= MOMENTS or results == {ResultType.TIME}:
        return _typed(inputs, max(results, key=lambda operand: operand.value))
    if results == {ResultType.BYTES}:
        return _typed(inputs, ResultType.BYTES)
    if results == {ResultType.TEXT}:
        if not equality:
            check_ordered(inputs)
        return _typed(inputs, ResultType.TEXT)
    names = " and ".join(sorted(operand.name for operand in results))
    raise NotComputed(f"a comparison of {names} is not computed here")


def _typed(inputs: Sequence[Node], result: ResultType) -> list[Node]:
    kind = next(operand.type for operand in inputs if operand.type.result == result)
    return [
        Node("literal", kind) if operand.type.result == ResultType.NULL else operand
        for operand in inputs
    ]


def _check_years(inputs: Sequence[Node]) -> None:
    """Raise NotComputed for a YEAR beside a constant of one or two digits, which MySQL reads as a
    year: 24 is 2024."""
    years = any(operand.type.source == "YEAR" for operand in inputs)
    small = [operand for operand in inputs if not operand.has_columns and not _is_large(operand)]
    if years and small:
        raise NotComputed("a comparison of YEAR with two digits is not computed here")


def _is_large(node: Node) -> bool:
    return node.is_literal and (node.detail is None or node.detail >= _TWO_DIGITS)


def _same_scale(inputs: list[Node]) -> list[Node]:
    whole, scale = (
        max(getattr(operand.type, part) for operand in inputs) for part in ("whole", "scale")
    )
    if whole + scale > _ARROW_DIGITS:
        raise NotComputed("a comparison of numbers of so many digits is not computed here")
    return inputs


def _literals_as(inputs: Sequence[Node], results: set[ResultType]) -> list[Node]:
    """Convert texts beside values of another type: a literal to that type, text of rows to doubles.
    Raise NotComputed for other pairs."""
    other_results = results - {ResultType.TEXT}
    operands = []
    for operand in inputs:
        if operand.type.result != ResultType.TEXT:
            operands.append(operand)
        elif other_results <= _NUMBERS and not operand.is_literal:
            operands.append(real(operand))
        elif not operand.is_literal or operand.detail is None:
            raise NotComputed("a comparison of text with another type is not computed here")
        elif other_results == {ResultType.REAL}:
            operands.append(real(operand))
        elif other_results == {ResultType.INTEGER} and _PLAIN_WHOLE.fullmatch(operand.detail):
            operands.append(_signed(operand.detail))
        elif other_results <= MOMENTS:
            operands.append(moment_of(operand.detail))
        elif other_results == {ResultType.TIME}:
            operands.append(time_of(operand.detail))
        elif other_results == {ResultType.BYTES} and operand.detail.isascii():
            operands.append(as_bytes(operand))
        else:
            raise NotComputed("a comparison with such a text is not computed here")
    return operands


def _signed(text: str) -> Node:
    magnitude = number(text.removeprefix("-"))
    value = -magnitude.detail if text[0] == "-" else magnitude.detail
    return Node("literal", magnitude.type, detail=value)


def build_comparison(operator: str, inputs: Sequence[Node]) -> Node:
    equality = operator in ("=", "<=>", "<>")
    return Node(operator, TRUTH, tuple(comparable(inputs, equality=equality)))


def compute_comparison(node: Node, left: pa.Array, right: pa.Array) -> pa.Array:
    if pa.types.is_string(left.type):
        by_letters = "JSON" in [operand.type.source for operand in node.inputs] and all(
            operand.type.source == "JSON" or operand.is_literal for operand in node.inputs
        )
        if node.operator in _MIRRORED:
            return _compute_order(node, left, right)
        if by_letters:
            same = _same_letters_each(left, right)
        elif collation := known_collation(node.inputs):
            same = _same_by(collation, left, right)
        else:
            same = _same_texts(node, left, right)
        truths = pc.invert(same) if node.operator == "<>" else same
    else:
        truths = _KERNELS[node.operator](*_alike(left, right))
    if node.operator != "<=>":
        return truths
    missing = pc.and_(left.is_null(), right.is_null())
    return pc.or_(pc.fill_null(truths, False), missing)


def _compute_order(node: Node, left: pa.Array, right: pa.Array) -> pa.Array:
    """Compute <, <=, > and >= of texts that have passed ``check_ordered``."""
    first, second = node.inputs
    texts, literal, text = (right, first, second) if first.is_literal else (left, second, first)
    if literal.detail is None:
        return pa.nulls(len(texts), pa.bool_())
    operator = _MIRRORED[node.operator] if first.is_literal else node.operator
    signs = collation_compare.order(texts, literal.detail, text.type.collation)
    signs = pa.array(signs, pa.int8(), mask=np.asarray(texts.is_null()))
    return _KERNELS[operator](signs, pa.scalar(0, pa.int8()))


def _alike(left: pa.Array, right: pa.Array) -> tuple[pa.Array, pa.Array]:
    if not pa.types.is_decimal(left.type):
        return left, right
    scale = max(left.type.scale, right.type.scale)
    kind = pa.decimal256(_ARROW_DIGITS, scale)
    return left.cast(kind), right.cast(kind)


def _same_letters_each(left: pa.Array, right: pa.Array) -> pa.Array:
    """Compare by utf8mb4_bin, which pads with spaces."""
    return pc.equal(*(pc.utf8_rtrim(texts, " ") for texts in (left, right)))


def _same_by(collation: int, left: pa.Array, right: pa.Array) -> pa.Array:
    """Compare by a known collation. Raise Unconvertible for letters whose comparison is not
    known."""
    try:
        return pc.equal(
            *(collation_compare.comparable(texts, collation) for texts in (left, right))
        )
    except DecodeError as error:
        raise uncertain(error.message) from None


def _same_texts(node: Node, left: pa.Array, right: pa.Array) -> pa.Array:
    """Compare texts by an unknown collation. A text with a letter that the literal lacks differs
    from it, which is decided for all rows at once. Raise Unconvertible if a pair depends on the
    collation."""
    literals = [
        operand.detail
        for operand in node.inputs
        if operand.is_literal and operand.detail is not None
    ]
    if len(literals) != 1 or not _PRINTABLE.fullmatch(literals[0]):
        return each_pair(same_text, left, right)
    texts = left if node.inputs[1].is_literal else right
    letters = "".join(f"\\x{{{ord(operand):X}}}" for operand in sorted({*literals[0].lower(), " "}))
    plain = pc.match_substring_regex(texts, "^[ -~]*$")
    other = pc.and_(plain, pc.match_substring_regex(pc.ascii_lower(texts), f"[^{letters}]"))
    left_over = pc.invert(pc.fill_null(other, False))
    equal = each_pair(same_text, left.filter(left_over), right.filter(left_over))
    differ = pa.array([False] * len(texts), pa.bool_())
    return pc.replace_with_mask(differ, left_over, equal)


def each_pair(function: Callable[[Any, Any], bool], left: pa.Array, right: pa.Array) -> pa.Array:
    """Return the results of ``function`` for pairs of values, called once for each distinct pair;
    NULL if one value is NULL."""
    results: dict[tuple[Any, Any], bool | None] = {}
    answers = []
    for pair in zip(left.to_pylist(), right.to_pylist(), strict=True):
        if pair not in results:
            results[pair] = None if None in pair else function(*pair)
        answers.append(results[pair])
    return pa.array(answers, pa.bool_())


def same_text(text: str, other: str) -> bool:
    """Return whether two texts are equal. Raise Unconvertible if this depends on the collation."""
    if text == other:
        return True
    a, b = (value.rstrip(" ").lower() for value in (text, other))
    plain = a != b and all(_PRINTABLE.fullmatch(value) for value in (a, b))
    # Some collations compare a pair of letters as one; no collation changes a text's letters.
    if plain and (len(a) == len(b) or set(a) != set(b)):
        return False
    raise uncertain(f"whether {text[:40]!r} is {other[:40]!r} depends on the collation")


def build_between(operator: str, inputs: Sequence[Node]) -> Node:
    value, low, high = comparable(inputs, equality=False)
    both = (Node(">=", TRUTH, (value, low)), Node("<=", TRUTH, (value, high)))
    return Node("AND", TRUTH, both)


def build_in(operator: str, inputs: Sequence[Node]) -> Node:
    value, *candidates = inputs
    if not candidates:
        raise NotComputed("IN () is not understood")
    comparisons = [build_comparison("=", (value, other)) for other in candidates]
    return comparisons[0] if len(comparisons) == 1 else Node("OR", TRUTH, tuple(comparisons))


def build_logic(operator: str, inputs: Sequence[Node]) -> Node:
    return Node(operator, TRUTH, tuple(truth(operand) for operand in inputs))


def build_is_null(operator: str, inputs: Sequence[Node]) -> Node:
    (value,) = inputs
    return Node(operator, TRUTH, (value,))


def _reduced(kernel: Callable[..., Any]) -> Callable[..., pa.Array]:
    def reduce(node: Node, first: pa.Array, *rest: pa.Array) -> pa.Array:
        for other in rest:
            first = kernel(first, other)
        return first

    return reduce


COMPUTED: dict[str, Callable[..., pa.Array]] = {
    **dict.fromkeys(_KERNELS, compute_comparison),
    "AND": _reduced(pc.and_kleene),
    "OR": _reduced(pc.or_kleene),
    "XOR": _reduced(pc.xor),
    "NOT": lambda node, value: pc.invert(value),
    "IS NULL": lambda node, value: value.is_null(),
    "IS TRUE": lambda node, value: pc.fill_null(value, False),
    "IS FALSE": lambda node, value: pc.invert(pc.fill_null(value, True)),
}
BUILT: dict[str, Callable[[str, Sequence[Node]], Node]] = {
    **dict.fromkeys(_KERNELS, build_comparison),
    **dict.fromkeys(("AND", "OR", "XOR", "NOT", "IS TRUE", "IS FALSE"), build_logic),
    "IS NULL": build_is_null,
    "ISNULL": lambda operator, inputs: build_is_null("IS NULL", inputs),
    "BETWEEN": build_between,
    "IN": build_in,
}
