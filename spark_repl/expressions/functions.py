"""All operators and functions: how each node is built from its inputs, and computed over values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from ..errors import NotComputed
from . import (
    casts,
    comparison,
    date_functions,
    flow_control,
    hash_functions,
    json_functions,
    like,
    numeric_functions,
    string_functions,
)
from .value_type import Node

Build = Callable[[str, Sequence[Node]], Node]

_BUILT: dict[str, Build] = {
    **dict.fromkeys(("+", "-", "*"), numeric_functions.build_sum),
    **dict.fromkeys(("/", "DIV", "MOD"), numeric_functions.build_quotient),
    "NEGATE": numeric_functions.build_negation,
    "ABS": numeric_functions.build_absolute,
    **comparison.BUILT,
    **flow_control.BUILT,
    **string_functions.BUILT,
    **hash_functions.BUILT,
    **date_functions.BUILT,
    **numeric_functions.BUILT,
    **json_functions.BUILT,
    **like.BUILT,
}
COMPUTED: dict[str, Callable[..., pa.Array]] = {
    **dict.fromkeys(("+", "-", "*"), numeric_functions.compute_sum),
    **dict.fromkeys(("/", "DIV", "MOD"), numeric_functions.compute_quotient),
    "NEGATE": numeric_functions.compute_negation,
    "ABS": numeric_functions.compute_absolute,
    **comparison.COMPUTED,
    **flow_control.COMPUTED,
    **string_functions.COMPUTED,
    **hash_functions.COMPUTED,
    **date_functions.COMPUTED,
    **numeric_functions.COMPUTED,
    **casts.COMPUTED,
    **json_functions.COMPUTED,
    **like.COMPUTED,
}
LAZY = flow_control.LAZY
_SIDES = {"LTRIM": "LEADING", "RTRIM": "TRAILING"}
_COUNTS = {
    "ABS": 1, "ISNULL": 1, "IF": 3, "IFNULL": 2, "NULLIF": 2, "LEFT": 2, "RIGHT": 2, "LENGTH": 1,
    "CHAR_LENGTH": 1, "UPPER": 1, "LOWER": 1, "HEX": 1, "MD5": 1, "SHA1": 1, "SHA2": 2, "CRC32": 1,
    "FLOOR": 1, "CEIL": 1, "SIGN": 1, "JSON_EXTRACT": 2, "JSON_UNQUOTE": 1, "JSON_VALID": 1,
    "MOD": 2, "YEAR": 1, "MONTH": 1, "DAY": 1, "QUARTER": 1, "DAYOFYEAR": 1, "DAYOFWEEK": 1,
    "WEEKDAY": 1, "HOUR": 1, "MINUTE": 1, "SECOND": 1, "MICROSECOND": 1, "DATE": 1, "LAST_DAY": 1,
    "LTRIM": 1, "RTRIM": 1,
}  # fmt: skip
_LEAST = {"ROUND": 1, "TRUNCATE": 2, "SUBSTR": 2, "CONCAT": 1, "CONCAT_WS": 2, "COALESCE": 1,
          "GREATEST": 2, "LEAST": 2, "JSON_LENGTH": 1,
          "WEEK": 1, "YEARWEEK": 1, "WEEKOFYEAR": 1}  # fmt: skip


def build(name: str, inputs: Sequence[Node], words: Sequence[str]) -> Node:
    """Build the node of an operator or function. Raise NotComputed for one that is not known."""
    count = len(inputs)
    if count != _COUNTS.get(name, count) or count < _LEAST.get(name, 0):
        raise NotComputed(f"{name} of {count} values is not understood")
    if name == "CAST":
        return casts.build_cast(inputs, words)
    if name in ("+ INTERVAL", "- INTERVAL"):
        return date_functions.build_interval(name, inputs, words[0])
    if name == "TRIM":
        return string_functions.build_trim(name, inputs, words[0])
    if name in _SIDES:
        return string_functions.build_trim(
            name, (inputs[0], string_functions.blank()), _SIDES[name]
        )
    if name not in _BUILT:
        raise NotComputed(f"{name}() is not computed here")
    return _BUILT[name](name, inputs)
