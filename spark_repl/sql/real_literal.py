"""Doubles of literals: the digits that FLOAT(M,D) and DOUBLE(M,D) store, and their text."""

from __future__ import annotations

import re
from decimal import Decimal

import numpy as np

REAL_DETAIL = re.compile(r"([0-9]+),([0-9]+)")
"""in ``Column.detail``"""
_EXPONENT_FROM, _EXPONENT_LEAST = 15, -10


def real_digits(value: float, detail: str, *, clips: bool = False) -> float:
    """Return the double that a column of (M,D) stores, rounded in binary, half to even. Raise
    ValueError for a value out of range, unless the server ``clips``."""
    match = REAL_DETAIL.search(detail)
    assert match
    whole, digits = int(match[1]), int(match[2])
    scale = 10.0**digits
    most = 10.0 ** (whole - digits) - 1.0 / scale
    front = np.floor(value)
    rounded = float(front + np.rint((value - front) * scale) / scale)
    if abs(rounded) <= most:
        return rounded
    if not clips:
        raise ValueError(value)
    return most if rounded > 0 else -most


def real_literal_text(value: float) -> str:
    """Return the text that a text column with room for all digits stores of a double. Raise
    ValueError if the text is not known."""
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text, power = "".join(map(str, digits)), int(exponent) + len(digits)
    if not any(digits):
        return "0"
    if power < _EXPONENT_LEAST:
        raise ValueError(value)
    if power <= _EXPONENT_FROM:
        return f"{Decimal(repr(value)).normalize():f}"
    point = "." if len(text) > 1 else ""
    return f"{'-' * sign}{text[0]}{point}{text[1:]}e{power - 1}"
