"""ValueType and Node: MySQL's types of the parts of an expression, and their values in Arrow.

The type of a number follows its digits. The type of several branches holds the values of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, auto
from typing import Any

import pyarrow as pa

from ..errors import NotComputed, Unconvertible
from ..sql.charsets import WIDE

DECIMAL_DIGITS, DECIMAL_SCALE = 65, 30
INTEGER_DIGITS = 20
MIXED = "+"
"""character set of a text made of several, in which a letter of ASCII has one byte"""
UNKNOWN = "?"
"""character set of a column that nothing has told: its letters may have two bytes at least"""


class ResultType(Enum):
    """What MySQL does with a value goes by these."""

    NULL, INTEGER, DECIMAL, REAL, TEXT, BYTES = (auto() for _ in range(6))
    DATE, DATETIME, TIME, JSON = (auto() for _ in range(4))


EXACT = frozenset((ResultType.INTEGER, ResultType.DECIMAL))
MOMENTS = frozenset((ResultType.DATE, ResultType.DATETIME))
TEMPORAL = MOMENTS | {ResultType.TIME}


@dataclass(frozen=True, slots=True)
class ValueType:
    """``digits``: of INTEGER and DECIMAL, at most, those behind the point (``scale``) too; of
    DATETIME and TIME ``scale`` is the fraction's. ``loose``: some values may have fewer digits
    behind the point where the server prints them. ``charset``: of TEXT, '' for the connection's,
    MIXED and UNKNOWN for none of a name.
    ``source``: of a column's values what decides more than the result: YEAR, ENUM, ZEROFILL,
    TRUTH (true or false), HEX (a literal), TURKISH, JSON (compared letter by letter).
    ``collation``: of a column's TEXT by which it is compared; 0: that is not asked here."""

    result: ResultType
    unsigned: bool = False
    digits: int = 0
    scale: int = 0
    loose: bool = False
    charset: str = ""
    source: str = ""
    collation: int = 0

    @property
    def whole(self) -> int:
        return self.digits - self.scale

    @property
    def arrow(self) -> Any:
        """Integers have room for both ranges of 64 bits; moments are on the session's clock."""
        if self.source == "TRUTH":
            return pa.bool_()
        if self.result == ResultType.DECIMAL:
            return pa.decimal256(max(self.digits, 1), self.scale)
        return _ARROW[self.result]


_ARROW = {
    ResultType.NULL: pa.null(),
    ResultType.INTEGER: pa.decimal128(INTEGER_DIGITS, 0),
    ResultType.REAL: pa.float64(),
    ResultType.TEXT: pa.string(),
    ResultType.BYTES: pa.binary(),
    ResultType.DATE: pa.timestamp("us"),
    ResultType.DATETIME: pa.timestamp("us"),
    ResultType.TIME: pa.int64(),
    ResultType.JSON: pa.string(),
}
NULL_TYPE = ValueType(ResultType.NULL)
REAL_TYPE = ValueType(ResultType.REAL)
TRUTH = ValueType(ResultType.INTEGER, digits=1, source="TRUTH")
BIGINT = ValueType(ResultType.INTEGER, digits=19)
UNSIGNED = ValueType(ResultType.INTEGER, unsigned=True, digits=INTEGER_DIGITS)
PLAIN_TEXT = ValueType(ResultType.TEXT)
DATE_TYPE = ValueType(ResultType.DATE)


@dataclass(frozen=True, slots=True)
class Node:
    """An expression with types. ``operator``: in ``functions.FUNCTIONS``, or ``literal``,
    ``column``; ``detail``: what it needs to know beside its inputs, a literal's value, a column's
    number."""

    operator: str
    type: ValueType
    inputs: tuple[Node, ...] = ()
    detail: Any = field(default=None)

    @property
    def has_columns(self) -> bool:
        """Whether it may be another value in another row."""
        return self.operator == "column" or any(operand.has_columns for operand in self.inputs)

    @property
    def columns(self) -> set[int]:
        """The numbers of the columns that the expression has."""
        if self.operator == "column":
            return {self.detail}
        return {number for operand in self.inputs for number in operand.columns}

    @property
    def is_copy(self) -> bool:
        """Return whether the expression is one column whose type the new column has."""
        return self.operator == "column" and self.type.result == ResultType.NULL

    @property
    def is_literal(self) -> bool:
        return self.operator == "literal"


def zero(kind: pa.DataType) -> pa.Scalar:
    """0 in an Arrow type of numbers."""
    return pa.scalar(Decimal(0) if pa.types.is_decimal(kind) else 0, kind)


_TEXTUAL = frozenset((ResultType.TEXT, ResultType.BYTES, ResultType.JSON))


def decimal(digits: int, scale: int, *, loose: bool = False) -> ValueType:
    """Raises NotComputed for more digits than the server surely has."""
    if digits > DECIMAL_DIGITS or scale > DECIMAL_SCALE:
        raise NotComputed("a number of so many digits is not computed here")
    return ValueType(ResultType.DECIMAL, digits=max(digits, 1), scale=scale, loose=loose)


def common_type(inputs: Sequence[Node]) -> ValueType:
    """The type that all branches have. Raises NotComputed."""
    kinds = [operand.type for operand in inputs if operand.type.result != ResultType.NULL]
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
    return text_type([operand for operand in inputs if operand.type.result != ResultType.NULL])


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
    for operand in inputs:
        kind = operand.type
        plain = kind.result != ResultType.TEXT or kind.charset == ""
        plain = plain and (not operand.is_literal or str(operand.detail).isascii())
        if kind.result == ResultType.JSON:
            sets.add("utf8mb4")
        elif not (plain or (operand.is_literal and str(operand.detail).isascii())):
            sets.add(kind.charset)
        sources.add("JSON" if kind.result == ResultType.JSON else kind.source)
    charset = _common_set(sets)
    source = next((operand for operand in ("TURKISH", "ENUM") if operand in sources), "")
    return ValueType(ResultType.TEXT, charset=charset, source=source)


def _common_set(sets: set[str]) -> str:
    if len(sets) < 2:
        return next(iter(sets), "")
    if sets & WIDE:
        raise NotComputed("text of wide letters beside other text is not computed here")
    return UNKNOWN if UNKNOWN in sets else MIXED


def uncertain(reason: str) -> Unconvertible:
    """Raised for rows whose outcome is not known, as the source would have refused them, or what it
    makes of them depends on more than the log says."""
    return Unconvertible(reason, hint="copy the table anew")
