"""ValueType: what MySQL takes a part of an expression for, and how its values lie in Arrow."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, auto
from typing import Any

import pyarrow as pa

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
        return self.operator == "column" or any(one.has_columns for one in self.inputs)

    @property
    def columns(self) -> set[int]:
        """The numbers of the columns that the expression has."""
        if self.operator == "column":
            return {self.detail}
        return {number for one in self.inputs for number in one.columns}

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
