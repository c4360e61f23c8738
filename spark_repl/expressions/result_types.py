"""Types of numbers by their digits, and of several values as the branches of one."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import NotComputed
from ..sql.charsets import WIDE
from .value_type import (
    DECIMAL_DIGITS,
    DECIMAL_SCALE,
    EXACT,
    INTEGER_DIGITS,
    MIXED,
    MOMENTS,
    NULL_TYPE,
    REAL_TYPE,
    TEMPORAL,
    UNKNOWN,
    Node,
    ResultType,
    ValueType,
)

_TEXTUAL = frozenset((ResultType.TEXT, ResultType.BYTES, ResultType.JSON))


def decimal(digits: int, scale: int, *, loose: bool = False) -> ValueType:
    """Raises NotComputed for more digits than the server surely has."""
    if digits > DECIMAL_DIGITS or scale > DECIMAL_SCALE:
        raise NotComputed("a number of so many digits is not computed here")
    return ValueType(ResultType.DECIMAL, digits=max(digits, 1), scale=scale, loose=loose)


def common_type(inputs: Sequence[Node]) -> ValueType:
    """The type that all branches have. Raises NotComputed."""
    kinds = [one.type for one in inputs if one.type.result != ResultType.NULL]
    results = {kind.result for kind in kinds}
    if not kinds:
        return NULL_TYPE
    if results <= EXACT:
        return _exact_type(kinds)
    if results <= EXACT | {ResultType.REAL}:
        return REAL_TYPE
    if len(results) == 1 and not results & {ResultType.TEXT, ResultType.DATETIME, ResultType.TIME}:
        return kinds[0]
    scale = max(kind.scale for kind in kinds)
    if results <= MOMENTS:
        return ValueType(ResultType.DATETIME, scale=scale)
    if results == {ResultType.TIME}:
        return ValueType(ResultType.TIME, scale=scale)
    if ResultType.BYTES in results and results <= _TEXTUAL:
        return ValueType(ResultType.BYTES)
    if ResultType.BYTES in results:
        raise NotComputed("branches of bytes and numbers or dates are not computed here")
    if ResultType.REAL in results or not results <= _TEXTUAL | EXACT | TEMPORAL:
        raise NotComputed("branches of such types are not computed here")
    return text_type([one for one in inputs if one.type.result != ResultType.NULL])


def _exact_type(kinds: Sequence[ValueType]) -> ValueType:
    whole, scale = max(kind.whole for kind in kinds), max(kind.scale for kind in kinds)
    source = next((k.source for k in kinds if k.source in ("YEAR", "BIT", "ZEROFILL")), "")
    if any(kind.result == ResultType.DECIMAL for kind in kinds):
        loose = bool(source) or any(kind.loose or kind.scale != scale for kind in kinds)
        return decimal(whole + scale, scale, loose=loose)
    signs = {kind.unsigned for kind in kinds}
    if signs == {True, False} and any(k.unsigned and k.digits >= INTEGER_DIGITS for k in kinds):
        return decimal(INTEGER_DIGITS, 0, loose=bool(source))
    return ValueType(ResultType.INTEGER, signs == {True}, whole, source=source)


def text_type(inputs: Sequence[Node]) -> ValueType:
    """TEXT in the character set that all have, MIXED where they differ; literals of ASCII letters
    and numbers go along with any. Raises NotComputed for wide letters beside others."""
    sets, sources = set(), set()
    for one in inputs:
        kind = one.type
        plain = kind.result != ResultType.TEXT or kind.charset == ""
        plain = plain and (not one.is_literal or str(one.detail).isascii())
        if kind.result == ResultType.JSON:
            sets.add("utf8mb4")
        elif not (plain or (one.is_literal and str(one.detail).isascii())):
            sets.add(kind.charset)
        sources.add("JSON" if kind.result == ResultType.JSON else kind.source)
    charset = _common_set(sets)
    source = next((one for one in ("TURKISH", "ENUM") if one in sources), "")
    return ValueType(ResultType.TEXT, charset=charset, source=source)


def _common_set(sets: set[str]) -> str:
    if len(sets) < 2:
        return next(iter(sets), "")
    if sets & WIDE:
        raise NotComputed("text of wide letters beside other text is not computed here")
    return UNKNOWN if UNKNOWN in sets else MIXED
