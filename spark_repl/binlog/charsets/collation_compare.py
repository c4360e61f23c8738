"""How a collation compares values of character columns: which ones are equal, and their order. Only
the collations and characters below are implemented."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import DecodeError
from .charset import NAMES

EXACT = 0
"""instead of a collation's id: values are equal only if their text is equal"""
# tests/live/test_collations.py compares these rules with a server's.
_CASE_SENSITIVE = frozenset((49, 278))
_BINARY = frozenset((46, 47, 65, 83))
_NO_PAD = frozenset((255, 278, 305))
_BYTES = frozenset((63, 309))
_OTHER = "[^ -~]"


def tells_all_letters(collation: int) -> bool:
    """Return whether the collation compares code points. For such collations the equality of all
    characters is implemented."""
    return collation in _BINARY or collation in _BYTES


def comparable(values: Any, collation: int) -> Any:
    """Return an array [n] in which two elements are equal if the server compares the two ``values``
    as equal. A collation that is not binary is implemented for the characters from space to tilde.
    Raise DecodeError, without a position, for any other character."""
    if collation == EXACT or collation in _BYTES:
        return values
    values = letters(values, collation)
    return values if collation in _NO_PAD else pc.utf8_rtrim(values, " ")


def letters(values: Any, collation: int) -> Any:
    """Return an array [n] of ``values`` in which characters that the server compares as equal are
    replaced by one of them. Spaces at the end stay. Raise DecodeError as ``comparable`` does."""
    if tells_all_letters(collation):
        return values
    odd = pc.fill_null(pc.match_substring_regex(values, _OTHER), False)
    if pc.any(odd).as_py():
        text = values[int(np.argmax(np.asarray(odd)))].as_py()
        raise DecodeError(f"how {NAMES[collation]} compares {text!r} is not known here")
    return values if collation in _CASE_SENSITIVE else pc.ascii_lower(values)


def order(values: Any, literal: str, collation: int) -> npt.NDArray[np.int8]:
    """Compare ``values`` with ``literal`` by a collation of ``charset.ORDERED``. Return int8[n]: -1
    if the text sorts before ``literal``, 1 if it sorts after it, 0 if they are equal, 0 for NULL.
    All but utf8mb4_0900_bin compare the shorter text as if it were padded with spaces."""
    if collation in _BYTES:
        return _sign(values, literal)
    literal = literal.rstrip(" ")
    length = len(literal)
    if not length:
        return _beside_spaces(values)
    head = pc.utf8_rpad(pc.utf8_slice_codeunits(values, 0, length), length, " ")
    signs = _sign(head, literal)
    rest = _beside_spaces(pc.utf8_slice_codeunits(values, length))
    return np.where(signs != 0, signs, rest)


def _beside_spaces(values: Any) -> npt.NDArray[np.int8]:
    return _sign(pc.utf8_ltrim(values, " "), " ", where_empty=0)


def _sign(values: Any, literal: str, where_empty: int = -1) -> npt.NDArray[np.int8]:
    scalar = pa.scalar(literal, values.type)
    after, before = (
        np.asarray(pc.fill_null(kernel(values, scalar), False)).astype(np.int8)
        for kernel in (pc.greater, pc.less)
    )
    if where_empty == 0:
        before &= ~np.asarray(pc.fill_null(pc.equal(values, ""), False))
    return after - before
