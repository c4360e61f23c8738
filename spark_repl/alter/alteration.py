"""A table after one statement, and the source of the values of each of its columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..expressions.value_type import Node
    from ..tables.table_definition import TableDefinition
    from .partition_rows import PartitionRows


@dataclass(frozen=True, slots=True)
class CarriedColumn:
    """The column ``number`` of the table before, converted where the type is another one.
    ``written``: whether the statement says its type."""

    number: int
    written: bool = False


@dataclass(frozen=True, slots=True)
class ConstantValue:
    """A new column. Existing rows get ``default``, in the form of ``Column.default``."""

    default: str


@dataclass(frozen=True, slots=True)
class CurrentTimestamp:
    """A new column. Existing rows get the time of the statement (CURRENT_TIMESTAMP)."""


@dataclass(frozen=True, slots=True)
class ComputedValue:
    """A column in which existing rows get the values of an expression. The expression names columns
    by their numbers after the statement. ``virtual``: a generated column that is not stored."""

    expression: Node
    virtual: bool = False


@dataclass(frozen=True, slots=True)
class UnknownValue:
    """A column whose values for existing rows are not in the log; ``reason``: why."""

    reason: str


@dataclass(frozen=True, slots=True)
class RestoredColumn:
    """The target's column ``number``, which the source had dropped and has again; rows of NULL get
    what rows that are there get in a new column."""

    number: int
    new: ConstantValue | CurrentTimestamp


ColumnSource = (
    CarriedColumn | ConstantValue | CurrentTimestamp | ComputedValue | UnknownValue | RestoredColumn
)


@dataclass(frozen=True, slots=True)
class Altered:
    """``origins`` [columns of ``definition``]. ``rows_go``: what becomes of the rows is not known
    from the log, and why (DISCARD TABLESPACE); '' where it is; ``rows_come``: nor which others
    there are then (IMPORT TABLESPACE)."""

    definition: TableDefinition
    origins: tuple[ColumnSource, ...]
    rows_go: str = ""
    rows_come: bool = False
    numbered: tuple[str, ...] = ()
    """columns that were there and have AUTO_INCREMENT now: a 0 in them became a number that the log
    does not say (not with the sql_mode NO_AUTO_VALUE_ON_ZERO)"""
    converted: bool = False
    """whether texts have the table's character set and collation now, whatever theirs was"""
    gone: PartitionRows | None = None
    """the rows that DROP or TRUNCATE PARTITION removes; nothing else is changed then"""
    null_dates: bool = False
    """whether dates that no calendar has are NULL in the rows"""
    replaced_texts: bool = False
    """whether bytes without a character are U+FFFD in the rows"""
