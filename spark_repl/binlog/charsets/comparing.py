"""Which values of character columns a collation takes for one: as far as it is known here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc

from ...errors import DecodeError
from .charset import NAMES

EXACT = 0
"""Instead of a collation's number: equal values alone are equal."""
# live/test_collations.py compares all of it with a server's.
_CASE_SENSITIVE = frozenset((49, 278))
_BINARY = frozenset((46, 47, 65, 83))
_NO_PAD = frozenset((255, 278, 305))
_BYTES = frozenset((63, 309))
_OTHER = "[^ -~]"


def comparable(values: Any, collation: int) -> Any:
    """Array [n] in which two of the ``values`` are equal where the server takes them for one.
    Raises DecodeError, without a place, for a character of which that is not known: of collations
    that are not binary those from space to tilde are."""
    if collation == EXACT or collation in _BYTES:
        return values
    if collation not in _BINARY:
        odd = pc.fill_null(pc.match_substring_regex(values, _OTHER), False)
        if pc.any(odd).as_py():
            text = values[int(np.argmax(np.asarray(odd)))].as_py()
            raise DecodeError(f"how {NAMES[collation]} compares {text!r} is not known here")
    if collation not in _NO_PAD:
        values = pc.utf8_rtrim(values, " ")
    if collation not in _BINARY | _CASE_SENSITIVE:
        values = pc.ascii_lower(values)
    return values
