"""ValueType and Node: MySQL's types of the parts of an expression, and their values in Arrow. The
type of a number depends on its digits. The common type of several branches holds all their values.
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
"""character set of a column for which none is recorded: its letters may have two or more bytes"""


class ResultType(Enum):
    """The kinds of values that MySQL's operators distinguish."""

    NULL, INTEGER, DECIMAL, REAL, TEXT, BYTES = (auto() for _ in range(6))
    DATE, DATETIME, TIME, JSON = (auto() for _ in range(4))


EXACT = frozenset((ResultType.INTEGER, ResultType.DECIMAL))
MOMENTS = frozenset((ResultType.DATE, ResultType.DATETIME))
TEMPORAL = MOMENTS | {ResultType.TIME}


@dataclass(frozen=True, slots=True)
class ValueType:
    """The type of a value. ``digits`` is the largest number of digits of INTEGER and DECIMAL,
    including ``scale`` fractional digits. For DATETIME and TIME, ``scale`` counts the fraction's
    digits. ``loose``: the server may print some values with fewer fractional digits. ``charset`` is
    that of TEXT: '' for the connection's, MIXED or UNKNOWN if it has no single name. ``source`` is
    a property of a column's values beyond the result: YEAR, ENUM, ZEROFILL, TRUTH (true or false),
    HEX (a literal), TURKISH, JSON (compared letter by letter). ``collation`` compares a column's
    TEXT; 0 if it is not resolved."""

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
        """Return the Arrow type. Integers have room for both ranges of 64 bits; moments are on the
        session's clock."""
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
    """A typed expression. ``operator`` is a key of ``functions.COMPUTED``, or ``literal``,
    ``column``. ``detail`` is a literal's value, a column's number, or another parameter of the
    operator."""

    operator: str
    type: ValueType
    inputs: tuple[Node, ...] = ()
    detail: Any = field(default=None)

    @property
    def has_columns(self) -> bool:
        """Return whether its value may differ between rows."""
        return self.operator == "column" or any(operand.has_columns for operand in self.inputs)

    @property
    def columns(self) -> set[int]:
        """Return the numbers of the columns in the expression."""
        if self.operator == "column":
            return {self.detail}
        return {number for operand in self.inputs for number in operand.columns}

    @property
    def is_copy(self) -> bool:
        """Return whether the expression is only a column, and that column has the new column's
        type."""
        return self.operator == "column" and self.type.result == ResultType.NULL

    @property
    def is_literal(self) -> bool:
        return self.operator == "literal"


def zero(kind: pa.DataType) -> pa.Scalar:
    """Return 0 in an Arrow type of numbers."""
    return pa.scalar(Decimal(0) if pa.types.is_decimal(kind) else 0, kind)


_TEXTUAL = frozenset((ResultType.TEXT, ResultType.BYTES, ResultType.JSON))


def decimal(digits: int, scale: int, *, loose: bool = False) -> ValueType:
    """Return a DECIMAL type. Raise NotComputed for more digits than every server supports."""
    if digits > DECIMAL_DIGITS or scale > DECIMAL_SCALE:
        raise NotComputed("a number of so many digits is not computed here")
    return ValueType(ResultType.DECIMAL, digits=max(digits, 1), scale=scale, loose=loose)


def common_type(inputs: Sequence[Node]) -> ValueType:
    """Return the common type of all branches. Raise NotComputed for branches for which none is
    implemented."""
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
    """Return TEXT in the character set of all inputs, or MIXED if they differ. Numbers and ASCII
    literals fit any set. Raise NotComputed if wide characters are combined with other sets."""
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
    """Return the error for rows whose outcome is not known: the source would have refused them, or
    the result depends on more than the log contains."""
    return Unconvertible(reason, hint="copy the table again")
