"""The Delta type that holds every value of two types unchanged."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pyarrow as pa

_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}
_REALS = {"float", "double"}
_MOMENTS = {"date", "timestamp_ntz"}
_PLAIN = {
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "timestamp_ntz": pa.timestamp("us"),
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_DIGITS_MAX = 38


class _Decimal(NamedTuple):
    """A DECIMAL's precision. ``scale``: the number of digits after the point."""

    digits: int
    scale: int


def common_type(first: Any, second: Any) -> str | None:
    """Return the narrowest type that holds all values of both, by Delta's names (or JSON); None if
    there is none. A text type does not hold numbers: as text a number is not compared by its
    value."""
    if not (isinstance(first, str) and isinstance(second, str)):
        return None
    if first == second:
        return first
    both = {first, second}
    if both <= _DIGITS.keys():
        return max(both, key=lambda kind: _DIGITS[kind])
    if both <= _MOMENTS:
        return "timestamp_ntz"
    if both & _REALS:
        return _real(both)
    return _decimal(first, second)


def arrow_type(kind: str) -> pa.DataType:
    """Return the Arrow type of a wider type: of a number, a date or a DATETIME."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    number = _decimal_of(kind)
    assert number is not None, kind
    return pa.decimal128(number.digits, number.scale)


def _real(both: set[str]) -> str | None:
    """Return the real type that holds all integers of the others: 24 bits in a float, 53 in a
    double."""
    if both <= {"float", "byte", "short"}:
        return "float"
    return "double" if both <= {"float", "double", "byte", "short", "integer"} else None


def _decimal(first: str, second: str) -> str | None:
    left, right = _decimal_of(first), _decimal_of(second)
    if left is None or right is None:
        return None
    scale = max(left.scale, right.scale)
    digits = max(left.digits - left.scale, right.digits - right.scale) + scale
    return f"decimal({digits},{scale})" if digits <= _DIGITS_MAX else None


def _decimal_of(kind: str) -> _Decimal | None:
    """Return a DECIMAL, or an integer as one; None for another type."""
    if kind in _DIGITS:
        return _Decimal(_DIGITS[kind], 0)
    match = _DECIMAL.fullmatch(kind)
    return _Decimal(int(match[1]), int(match[2])) if match else None
