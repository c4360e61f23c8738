"""SourceTable: a table with the columns and the key that the log's rows have; Unapplied: marks of
tables whose rows are not applied."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from .table_definition import TableDefinition

if TYPE_CHECKING:
    from .column import Column


@dataclass(frozen=True)
class SourceTable(TableDefinition):
    """A table as TABLE_MAP events and statements declare it. Rules may have
    given it the name of the target's table."""

    @property
    def source_columns(self) -> tuple[Column, ...]:
        """Return the columns of the log's rows."""
        return self.columns

    def with_source_columns(self, columns: tuple[Column, ...]) -> SourceTable:
        """Return the table with other columns in the places of its own."""
        return replace(self, columns=columns)


class Unapplied(Enum):
    """A table whose rows are not applied, in a map of definitions by names in the log."""

    LEFT_OUT = "left out"
    """the log's columns are read if TABLE_MAPs name them: cascades from the table are detected"""
    UNREAD = "unread"
    """nothing that the log says of its columns is read"""


Declared = SourceTable | Unapplied
"""what is known of a table of the log before its TABLE_MAP is read"""
