"""SourceTable: a table with the columns and the key that the log's rows have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .table_definition import TableDefinition

if TYPE_CHECKING:
    from .column import Column


@dataclass(frozen=True)
class SourceTable(TableDefinition):
    """A table as TABLE_MAP events and statements declare it. Its name may be the one that the
    table has in the target."""

    @property
    def source_columns(self) -> tuple[Column, ...]:
        """Return the columns of the log's rows."""
        return self.columns

    def with_source_columns(self, columns: tuple[Column, ...]) -> SourceTable:
        """Return the table with other columns in the places of its own."""
        return replace(self, columns=columns)


LEFT_OUT = SourceTable("", "", (), ())
"""Instead of what is known of a table: its rows are left out, and need no names of columns."""
UNREAD = SourceTable("", "unread", (), ())
"""The same, and what the log says of its columns is not looked at either."""
