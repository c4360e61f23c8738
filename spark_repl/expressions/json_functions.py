"""JSON_EXTRACT, JSON_UNQUOTE, JSON_LENGTH, JSON_VALID: parts of documents as the server printed
them, so that a number or text in a document keeps its letters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa

from ..convert.type_change import by_distinct
from ..errors import NotComputed
from .value_type import BIGINT, TRUTH, Node, ResultType, ValueType, uncertain

_STEP = re.compile(r"""\s*(?:\.\s*(?:([A-Za-z_$][\w$]*)|"([^"\\]*)")|\[\s*([0-9]{1,9})\s*\])""",
                   re.ASCII)  # fmt: skip
_DECODER = json.JSONDecoder()
_JSON = ValueType(ResultType.JSON)
Path = tuple[str | int, ...]


def path_of(node: Node) -> Path:
    """Return the members and array indexes of a path. Raise NotComputed for other parts, and for a
    path that is not a literal."""
    if not node.is_literal or not isinstance(node.detail, str):
        raise NotComputed("a JSON path that is no literal is not computed here")
    text = node.detail.strip()
    if not text.startswith("$"):
        raise NotComputed("a JSON path without $ is not understood")
    steps: list[str | int] = []
    at = 1
    while at < len(text):
        match = _STEP.match(text, at)
        if not match:
            raise NotComputed("a JSON path with such parts is not computed here")
        plain, quoted, place = match.groups()
        steps.append(int(place) if place is not None else plain if plain is not None else quoted)
        at = match.end()
    return tuple(steps)


def part(text: str, path: Path) -> str | None:
    """Return the text of the part of a document at ``path``; None if there is no such part."""
    for step in path:
        opening = text[0]
        if isinstance(step, int):
            if opening != "[":  # MySQL reads any other value as an array of that one element
                if step:
                    return None
                continue
            elements = _elements(text)
            if step >= len(elements):
                return None
            text = elements[step]
        else:
            members = _members(text) if opening == "{" else {}
            if step not in members:
                return None
            text = members[step]
    return text


def _elements(text: str) -> list[str]:
    elements, at = [], 1
    while text[at] != "]":
        _, end = _DECODER.raw_decode(text, at)
        elements.append(text[at:end])
        at = end + 2 if text[end] == "," else end
    return elements


def _members(text: str) -> dict[str, str]:
    members, at = {}, 1
    while text[at] != "}":
        name, end = _DECODER.raw_decode(text, at)
        begin = end + 2
        _, end = _DECODER.raw_decode(text, begin)
        members[name] = text[begin:end]
        at = end + 2 if text[end] == "," else end
    return members


def _document(node: Node) -> Node:
    if node.type.result == ResultType.NULL:
        return Node("literal", _JSON)
    if node.type.result != ResultType.JSON:
        raise NotComputed("JSON functions of text are not computed here")
    return node


def build_extract(operator: str, inputs: Sequence[Node]) -> Node:
    document, path = inputs
    return Node(operator, _JSON, (_document(document),), path_of(path))


def compute_extract(node: Node, values: pa.Array) -> pa.Array:
    path = node.detail
    return by_distinct(
        values, lambda text: (None if text is None else part(text, path), True), pa.string()
    ).values


def build_unquote(operator: str, inputs: Sequence[Node]) -> Node:
    (value,) = inputs
    kind = ValueType(ResultType.TEXT, charset="utf8mb4", source="JSON")
    return Node(operator, kind, (_document(value),))


def compute_unquote(node: Node, values: pa.Array) -> pa.Array:
    def unquoted(text: str | None) -> tuple[str | None, bool]:
        return (json.loads(text) if text and text[0] == '"' else text), True

    return by_distinct(values, unquoted, pa.string()).values


def build_length(operator: str, inputs: Sequence[Node]) -> Node:
    document, *paths = inputs
    path = path_of(paths[0]) if paths else ()
    return Node(operator, replace(BIGINT, digits=10), (_document(document),), path)


def compute_length(node: Node, values: pa.Array) -> pa.Array:
    def length(text: str | None) -> tuple[int | None, bool]:
        piece = None if text is None else part(text, node.detail)
        if piece is None:
            return None, True
        sizes = {"[": _elements, "{": _members}
        return (len(sizes[piece[0]](piece)) if piece[0] in sizes else 1), True

    return by_distinct(values, length, pa.int64()).values.cast(node.type.arrow)


def build_valid(operator: str, inputs: Sequence[Node]) -> Node:
    (value,) = inputs
    return Node(operator, TRUTH, (_document(value),))


def compute_valid(node: Node, values: pa.Array) -> pa.Array:
    result = pa.array([True] * len(values), pa.bool_())
    return pa.compute.if_else(values.is_null(), pa.scalar(None, pa.bool_()), result)


def number_of(text: str) -> str:
    """Return the document if it is a number. Raise Unconvertible for other documents."""
    if not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", text, re.ASCII):
        raise uncertain(f"the JSON value {text[:60]} as a number")
    return text


BUILT: dict[str, Callable[[str, Sequence[Node]], Node]] = {
    "JSON_EXTRACT": build_extract,
    "JSON_UNQUOTE": build_unquote,
    "JSON_LENGTH": build_length,
    "JSON_VALID": build_valid,
}
COMPUTED: dict[str, Callable[..., pa.Array]] = {
    "JSON_EXTRACT": compute_extract,
    "JSON_UNQUOTE": compute_unquote,
    "JSON_LENGTH": compute_length,
    "JSON_VALID": compute_valid,
}
