"""SourceTable: a table with the columns and the key of the log's rows.

Unapplied: marks of tables whose rows are not applied.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from .table_definition import TableDefinition

if TYPE_CHECKING:
    from .column import Column


@dataclass(frozen=True)
class SourceTable(TableDefinition):
    """A table as TABLE_MAP events and statements declare it. Its name may be the target's, if rules
    have renamed it."""

    @property
    def source_columns(self) -> tuple[Column, ...]:
        """Return the columns of the log's rows."""
        return self.columns

    def with_source_columns(self, columns: tuple[Column, ...]) -> SourceTable:
        """Return the table with ``columns`` in place of its own."""
        return replace(self, columns=columns)


class Unapplied(Enum):
    """The mark of a table whose rows are not applied, in a map of definitions by names in the
    log."""

    LEFT_OUT = "left out"
    """the log's columns are read if TABLE_MAPs name them, to detect cascades from the table"""
    UNREAD = "unread"
    """the log's columns are not read"""


Declared = SourceTable | Unapplied
"""the entry of a table of the log before its TABLE_MAP is read"""
