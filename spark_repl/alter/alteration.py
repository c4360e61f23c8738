"""A table after one statement, and the source of the values of each of its columns."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..tables.table_definition import TableDefinition
from ..tables.target_table import TargetTable

if TYPE_CHECKING:
    from ..expressions.value_type import Node
    from ..tables.source_table import SourceTable
    from .partition_rows import PartitionRows


@dataclass(frozen=True, slots=True)
class CarriedColumn:
    """The column ``number`` of the table before the statement, converted if its type changes.
    ``written``: whether the statement names its type."""

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
    """The target's column ``number``, which the source had dropped and now has again. Rows in which
    it is NULL get the value that existing rows get in a new column."""

    number: int
    new: ConstantValue | CurrentTimestamp


ColumnSource = (
    CarriedColumn | ConstantValue | CurrentTimestamp | ComputedValue | UnknownValue | RestoredColumn
)


Table = TypeVar("Table", bound=TableDefinition, covariant=True)
Other = TypeVar("Other", bound=TableDefinition)


@dataclass(frozen=True, slots=True)
class Altered(Generic[Table]):
    """A table after a statement.
    ``origins`` has one entry for each column of ``definition``. ``rows_go``: the reason why the log
    does not show which rows are removed (DISCARD TABLESPACE), or ''. ``rows_come``: the log also
    does not show which rows are then added (IMPORT TABLESPACE)."""

    definition: Table
    origins: tuple[ColumnSource, ...]
    rows_go: str = ""
    rows_come: bool = False
    numbered: tuple[str, ...] = ()
    """existing columns that get AUTO_INCREMENT: MySQL replaces a 0 in them by a number that is not
    in the log (not with the sql_mode NO_AUTO_VALUE_ON_ZERO)"""
    converted: bool = False
    """whether the statement converts all texts to the table's character set and collation"""
    gone: PartitionRows | None = None
    """the rows that DROP or TRUNCATE PARTITION removes; such a statement changes nothing else"""
    null_dates: bool = False
    """whether dates that no calendar has are NULL in the rows"""
    replaced_texts: bool = False
    """whether bytes without a character are U+FFFD in the rows"""

    def of(self, definition: Other, origins: tuple[ColumnSource, ...]) -> Altered[Other]:
        """Return the same effect on another definition of the table, for example on the target's if
        this is the effect on the source's."""
        rest: dict[str, Any] = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name not in ("definition", "origins")
        }
        return Altered(definition, origins, **rest)


def mirrored(altered: Altered[SourceTable]) -> Altered[TargetTable]:
    """Return the effect of a statement on the table of a target that mirrors the source's."""
    return altered.of(TargetTable.mirror_of(altered.definition), altered.origins)
