"""Functions of text and bytes, which count characters of text and bytes of bytes. CONCAT, SUBSTR,
TRIM, LENGTH and UPPER are computed by column; REPLACE, REPEAT, REVERSE and padding are computed
value by value.

``expressions.functions`` has the table from a function's name to its two functions here.
``build_...`` runs on the driver: it types the inputs as MySQL does, and raises NotComputed for a
form that was not measured equal. ``compute_...`` runs on the workers over Arrow arrays, and raises
Unconvertible for a value whose result depends on something that the log lacks, such as letters
beyond ASCII in an unknown character set. NULL in gives NULL out, but in CONCAT_WS. This room is
frozen: docs/design/expressions.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import NotComputed
from .coercions import as_bytes, exact, text
from .literals import constant
from .value_type import (
    BIGINT,
    PLAIN_TEXT,
    UNKNOWN,
    Node,
    ResultType,
    ValueType,
    text_type,
    uncertain,
)

LENGTH_MAX = 1 << 20
_LATIN = frozenset(chr(n) for n in range(0xC0, 0xFF)) - {"×", "÷", "ß"}
"""letters whose other case is also in Latin 1, by all collations except Turkish ones"""
_CASED = frozenset(("utf8mb4", "utf8mb3", "latin1"))


def each(function: Callable[..., Any], kind: pa.DataType, *arrays: pa.Array) -> pa.Array:
    """Return the results of ``function`` for rows of values, called once for each distinct row;
    NULL if a value is NULL."""
    by_row: dict[tuple[Any, ...], Any] = {}
    results = []
    for row in zip(*(array.to_pylist() for array in arrays), strict=True):
        if row not in by_row:
            by_row[row] = None if None in row else function(*row)
        results.append(by_row[row])
    return pa.array(results, kind)


def integer(node: Node) -> Node:
    """Return a number of characters. Raise NotComputed for a number that is not an integer."""
    number = exact(node)
    if number.type.result != ResultType.INTEGER:
        raise NotComputed("a number of characters that is no integer is not computed here")
    return number


def alike(inputs: Sequence[Node], *, mixed: bool = False) -> tuple[ValueType, list[Node]]:
    """Return texts in one character set, or bytes if an input is bytes. Raise NotComputed if text
    and bytes are combined, unless ``mixed``."""
    operands = [text(operand) for operand in inputs]
    results = {operand.type.result for operand in operands}
    if not mixed and len(results) > 1:
        raise NotComputed("text and bytes in one function are not computed here")
    if ResultType.BYTES in results:
        return ValueType(ResultType.BYTES), [as_bytes(operand) for operand in operands]
    return text_type(operands), operands


def plain_text_type(kind: ValueType) -> ValueType:
    """Return the type of a function's result of this type: text for an ENUM."""
    return replace(kind, source="") if kind.source == "ENUM" else kind


def build_joined(operator: str, inputs: Sequence[Node]) -> Node:
    kind, operands = alike(inputs, mixed=True)
    return Node(operator, plain_text_type(kind), tuple(operands))


def compute_concat(node: Node, *values: pa.Array) -> pa.Array:
    kind = node.type.arrow
    empty = pa.scalar("", kind) if kind == pa.string() else pa.scalar(b"", kind)
    return pc.binary_join_element_wise(*values, empty)


def compute_concat_ws(node: Node, between: pa.Array, *values: pa.Array) -> pa.Array:
    """Join the texts of each row separately, because Arrow's join drops rows in which all values
    are NULL (26.0.1)."""
    joined = [
        None if separator is None else separator.join(part for part in parts if part is not None)
        for separator, *parts in zip(
            *(array.to_pylist() for array in (between, *values)), strict=True
        )
    ]
    return pa.array(joined, node.type.arrow)


def build_slice(operator: str, inputs: Sequence[Node]) -> Node:
    """Build LEFT, RIGHT and SUBSTR."""
    value, *numbers = inputs
    operand = text(value)
    counts = [integer(number) for number in numbers]
    detail = [constant(number) for number in counts]
    return Node(operator, plain_text_type(operand.type), (operand, *counts), tuple(detail))


def check_letters(node: Node, *values: pa.Array) -> None:
    """Raise Unconvertible for letters beyond ASCII in texts made of ENUM or SET. Their character
    set is not known, and the server counts bytes in CHARACTER SET binary."""
    for operand, column in zip(node.inputs, values, strict=False):
        if not pa.types.is_string(column.type) or not _reads_members(operand):
            continue
        if pc.all(pc.string_is_ascii(column)).as_py() is False:
            raise uncertain("letters beyond ASCII of a character set that is not known")


def _reads_members(node: Node) -> bool:
    return node.type.source == "ENUM" or any(map(_reads_members, node.inputs))


def compute_slice(node: Node, values: pa.Array, *numbers: pa.Array) -> pa.Array:
    check_letters(node, values)
    first, *rest = node.detail
    is_plain = pa.types.is_string(values.type) and None not in node.detail
    is_plain = is_plain and all(abs(number) < LENGTH_MAX for number in node.detail)
    if is_plain and node.operator == "LEFT":
        return _sliced(values, 0, max(first, 0))
    if is_plain and node.operator == "RIGHT" and first > 0:
        return _sliced(values, -first, None)
    if is_plain and node.operator == "SUBSTR" and first > 0:
        stop = first - 1 + max(rest[0], 0) if rest else None
        return _sliced(values, first - 1, stop)
    return each(_SLICES[node.operator], node.type.arrow, values, *numbers)


def _sliced(values: pa.Array, start: int, stop: int | None) -> pa.Array:
    if stop == start:
        return pc.if_else(values.is_null(), values, "")
    return pc.utf8_slice_codeunits(values, start, stop)


def _substr(value: Any, place: Any, size: Any = None) -> Any:
    start = int(place) - 1 if place > 0 else len(value) + int(place)
    if place == 0 or start < 0 or (size is not None and size <= 0):
        return value[:0]
    return value[start:] if size is None else value[start : start + int(size)]


_SLICES: dict[str, Callable[..., Any]] = {
    "LEFT": lambda value, size: value[: max(int(size), 0)],
    "RIGHT": lambda value, size: value[-int(size) :] if size > 0 else value[:0],
    "SUBSTR": _substr,
}


def build_length(operator: str, inputs: Sequence[Node]) -> Node:
    (value,) = inputs
    kind = replace(BIGINT, digits=10)
    return Node(operator, kind, (as_bytes(value) if operator == "LENGTH" else text(value),))


def compute_length(node: Node, values: pa.Array) -> pa.Array:
    check_letters(node, values)
    is_text = pa.types.is_string(values.type)
    return (pc.utf8_length if is_text else pc.binary_length)(values).cast(node.type.arrow)


def build_case(operator: str, inputs: Sequence[Node]) -> Node:
    (value,) = inputs
    operand = text(value)
    if operand.type.source == "TURKISH":
        raise NotComputed(f"{operator} by a Turkish collation is not computed here")
    if operand.type.source == "ENUM" or operand.type.charset == UNKNOWN:
        reason = "text in a character set that is not known"  # it may be binary, which has no case
        raise NotComputed(f"{operator} of {reason} is not computed here")
    return Node(operator, plain_text_type(operand.type), (operand,))


def compute_case(node: Node, values: pa.Array) -> pa.Array:
    if pa.types.is_binary(values.type):
        return values
    upper = node.operator == "UPPER"
    if pc.all(pc.string_is_ascii(values)).as_py() is not False:
        return (pc.ascii_upper if upper else pc.ascii_lower)(values)
    latin = _LATIN if node.type.charset in _CASED else frozenset()

    def changed(value: str) -> str:
        for letter in value:
            cased = letter.upper() != letter or letter.lower() != letter
            if not letter.isascii() and cased and letter not in latin:
                raise uncertain(f"the other case of {letter} depends on the collation")
        return value.upper() if upper else value.lower()

    return each(changed, pa.string(), values)


def blank() -> Node:
    """Return the literal that TRIM removes by default."""
    return Node("literal", PLAIN_TEXT, detail=" ")


def build_trim(operator: str, inputs: Sequence[Node], side: str) -> Node:
    kind, operands = alike(inputs)
    return Node("TRIM", plain_text_type(kind), tuple(operands), side)


def compute_trim(node: Node, values: pa.Array, gone: pa.Array) -> pa.Array:
    side = node.detail

    def trimmed(value: Any, part: Any) -> Any:
        if len(part):
            while side != "TRAILING" and value.startswith(part):
                value = value[len(part) :]
            while side != "LEADING" and value.endswith(part):
                value = value[: -len(part)]
        return value

    part = node.inputs[1]
    if part.is_literal and part.detail == " " and pa.types.is_string(values.type):
        kernels = {"BOTH": pc.utf8_trim, "LEADING": pc.utf8_ltrim, "TRAILING": pc.utf8_rtrim}
        return kernels[side](values, " ")
    return each(trimmed, node.type.arrow, values, gone)


def _replaced(value: Any, old: Any, new: Any) -> Any:
    return value.replace(old, new) if len(old) else value


def _part(value: Any, separator: Any, count: Any) -> Any:
    """Compute SUBSTRING_INDEX of one value."""
    number = int(count)
    if not len(separator) or not number:
        return value[:0]
    if number > 0:
        return separator.join(value.split(separator)[:number])
    if any(separator.startswith(separator[at:]) for at in range(1, len(separator))):
        # In text with multi-byte characters the server counts such separators from the left.
        raise uncertain("SUBSTRING_INDEX counts marks that overlap themselves from the right")
    return separator.join(value.rsplit(separator, -number)[number:])


def _padded(value: Any, size: Any, pad: Any) -> tuple[Any, Any] | None:
    """Return the part of the value that stays, and the padding. Return None for a negative size.
    Raise Unconvertible if the padding is empty or the size is above LENGTH_MAX."""
    if size < 0:
        return None
    room = int(size) - len(value)
    if room <= 0:
        return value[: int(size)], value[:0]
    if not len(pad) or size > LENGTH_MAX:
        raise uncertain("what the server pads a text with is not known")
    return value, (pad * (room // len(pad) + 1))[:room]


def _lpad(value: Any, size: Any, pad: Any) -> Any:
    parts = _padded(value, size, pad)
    return parts and parts[1] + parts[0]


def _rpad(value: Any, size: Any, pad: Any) -> Any:
    parts = _padded(value, size, pad)
    return parts and parts[0] + parts[1]


def _repeated(value: Any, count: Any) -> Any:
    if count > 0 and len(value) * count > LENGTH_MAX:
        raise uncertain("a text is longer than a server may take")
    return value * max(int(count), 0)


_EACH: dict[str, tuple[Callable[..., Any], str]] = {
    "REPLACE": (_replaced, "ttt"), "SUBSTRING_INDEX": (_part, "tti"), "LPAD": (_lpad, "tit"),
    "RPAD": (_rpad, "tit"), "REPEAT": (_repeated, "ti"),
    "REVERSE": (lambda value: value[::-1], "t"),
}  # fmt: skip


def build_each(operator: str, inputs: Sequence[Node]) -> Node:
    form = _EACH[operator][1]
    if len(form) != len(inputs):
        raise NotComputed(f"{operator} of {len(inputs)} values is not computed here")
    kind, texts = alike(
        [operand for operand, sort in zip(inputs, form, strict=True) if sort == "t"]
    )
    remaining = iter(texts)
    operands = [
        next(remaining) if f == "t" else integer(operand)
        for operand, f in zip(inputs, form, strict=True)
    ]
    return Node(operator, plain_text_type(kind), tuple(operands))


def compute_each(node: Node, *values: pa.Array) -> pa.Array:
    check_letters(node, *values)
    return each(_EACH[node.operator][0], node.type.arrow, *values)


BUILT: dict[str, Callable[[str, Sequence[Node]], Node]] = {
    **dict.fromkeys(("CONCAT", "CONCAT_WS"), build_joined),
    **dict.fromkeys(("LEFT", "RIGHT", "SUBSTR"), build_slice),
    **dict.fromkeys(("LENGTH", "CHAR_LENGTH"), build_length),
    **dict.fromkeys(("UPPER", "LOWER"), build_case),
    **dict.fromkeys(_EACH, build_each),
}
COMPUTED: dict[str, Callable[..., pa.Array]] = {
    "CONCAT": compute_concat,
    "CONCAT_WS": compute_concat_ws,
    **dict.fromkeys(("LEFT", "RIGHT", "SUBSTR"), compute_slice),
    **dict.fromkeys(("LENGTH", "CHAR_LENGTH"), compute_length),
    **dict.fromkeys(("UPPER", "LOWER"), compute_case),
    "TRIM": compute_trim,
    **dict.fromkeys(_EACH, compute_each),
}
