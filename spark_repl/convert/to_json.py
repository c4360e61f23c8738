"""Convert text to JSON: the document as the server prints it again. Keys are sorted by length and
bytes; the last of two equal keys remains. Whole numbers beyond 64 bits become doubles.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from ..binlog.json.double import insert_doubles
from ..binlog.json.json_document import DEPTH_MAX
from ..tables.column import Form
from .type_change import Converted, TypeChange, by_distinct

_INTEGER_MIN, _INTEGER_MAX = -(1 << 63), (1 << 64) - 1
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r"}
_ESCAPED = str.maketrans({**{chr(n): f"\\u{n:04x}" for n in range(32)}, **_ESCAPES, "\t": "\\t"})


def store_json(texts: pa.Array, change: TypeChange) -> Converted:
    """Convert text to JSON. Raise Unconvertible for text that is not JSON, which every server
    refuses."""
    if change.after.form == Form.VARIANT:
        raise change.refused("text doesn't say which types a VARIANT is to have")

    def normal(text: str | None) -> tuple[str | None, bool]:
        if text is None:
            return None, True
        try:
            return normal_json(text), True
        except (ValueError, RecursionError) as error:
            raise change.refused(f"{text[:60]!r} is no JSON: {error}") from error

    return by_distinct(texts, normal, pa.string())


def normal_json(text: str) -> str:
    """Return the JSON text in the form that the server prints. Raise ValueError for text that is
    not JSON, and RecursionError for a document that is too deep for the parser."""
    return _printed(_decoder().decode(text.strip(" \t\n\r")), 0)


@cache
def _decoder() -> json.JSONDecoder:
    return json.JSONDecoder(parse_int=_integer, parse_constant=_refuse, object_pairs_hook=_sorted)


def _integer(digits: str) -> int | float:
    value = int(digits)
    return value if _INTEGER_MIN <= value <= _INTEGER_MAX else float(digits)


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _sorted(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members in the server's order."""
    return dict(
        sorted(dict(pairs).items(), key=lambda member: (len(_utf8(member[0])), _utf8(member[0])))
    )


def _utf8(text: str) -> bytes:
    """Return the text's bytes. Raise ValueError for a surrogate without its other half."""
    return text.encode()


def _printed(value: Any, depth: int) -> str:
    if depth > DEPTH_MAX:
        raise ValueError("it is too deep")
    if isinstance(value, dict):
        inside = (f"{_quoted(key)}: {_printed(item, depth + 1)}" for key, item in value.items())
        return "{" + ", ".join(inside) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_printed(item, depth + 1) for item in value) + "]"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, float):
        return _double(value)
    return {None: "null", True: "true", False: "false"}[value] if _is_word(value) else str(value)


def _is_word(value: Any) -> bool:
    return value is None or isinstance(value, bool)


def _quoted(text: str) -> str:
    _utf8(text)
    return f'"{text.translate(_ESCAPED)}"'


def _double(value: float) -> str:
    if abs(value) == float("inf"):
        raise ValueError("a number is too large for a double")
    ones, bits = np.arange(2), np.array([value]).view(np.int64)
    digits, _ = insert_doubles(np.zeros(1, np.uint8), ones, ones[:1], bits)
    return digits.tobytes().decode()
