"""Tables' definitions by the statements of a log, for logs whose events name no columns.

With binlog_row_metadata=MINIMAL the names, the key and the values of ENUM and SET stand in CREATE
TABLE only. A statement that changes a table in a way that isn't understood makes its definition
unknown: rows of it are an error then, never columns with the wrong names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .effect import Effect, Statement, classify
from .lower_names import fold

if TYPE_CHECKING:
    from ..binlog.definition import TableDefinition
    from ..binlog.events.event import Query

# Verbs of statements that leave the columns and the key alone, whatever else they do.
_ROWS_ONLY = ("TRUNCATE TABLE", "INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "CALL", "DO")


@dataclass
class SchemaHistory:
    """``definitions``: ``database.table`` -> definition after the statements seen so far."""

    definitions: dict[str, TableDefinition] = field(default_factory=dict)

    def see(self, query: Query) -> Statement:
        """Takes in one logged statement. Never raises."""
        statement = classify(query.text, query.database, query.sql_mode)
        # A table that was there may be another one than the statement describes.
        if not (statement.if_not_exists and query.made_nothing):
            self._take(statement)
        return statement

    def _take(self, statement: Statement) -> None:
        if statement.effect == Effect.CREATE_TABLE:
            name = statement.tables[0]
            if statement.if_not_exists and name in self.definitions:
                return
            self.definitions.pop(name, None)
            if statement.definition is not None:
                self.definitions[name] = statement.definition
        elif statement.effect == Effect.DROP_DATABASE:
            prefix = f"{fold(statement.database)}."
            self._forget(*[name for name in self.definitions if fold(name).startswith(prefix)])
        elif statement.effect == Effect.DROP_TABLE or statement.unique:
            self._forget(*statement.tables)
        elif statement.effect == Effect.UNSUPPORTED and statement.verb not in _ROWS_ONLY:
            # Without a table's name it may be any table.
            self._forget(*(statement.tables or tuple(self.definitions)))

    def _forget(self, *names: str) -> None:
        """Drops the definitions of these tables; where there is none by a name, those whose names
        differ from it in case alone: the source may not tell them apart."""
        for name in names:
            if self.definitions.pop(name, None) is None:
                for other in [key for key in self.definitions if fold(key) == fold(name)]:
                    del self.definitions[other]
