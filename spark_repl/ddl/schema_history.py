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
        found = classify(query.text, query.database, query.sql_mode)
        # A table that was there may be another one than the statement describes.
        if not (found.if_not_exists and query.made_nothing):
            self._take(found)
        return found

    def _take(self, found: Statement) -> None:
        if found.effect == Effect.CREATE_TABLE:
            name = found.tables[0]
            if found.if_not_exists and name in self.definitions:
                return
            self.definitions.pop(name, None)
            if found.definition is not None:
                self.definitions[name] = found.definition
        elif found.effect == Effect.DROP_DATABASE:
            prefix = f"{fold(found.database)}."
            self._forget(*[name for name in self.definitions if fold(name).startswith(prefix)])
        elif found.effect == Effect.DROP_TABLE or found.unique:
            self._forget(*found.tables)
        elif found.effect == Effect.UNSUPPORTED and found.verb not in _ROWS_ONLY:
            # Without a table's name it may be any table.
            self._forget(*(found.tables or tuple(self.definitions)))

    def _forget(self, *names: str) -> None:
        """Tables of other letters too where there is none of these: the source may not tell upper
        and lower case apart."""
        for name in names:
            if self.definitions.pop(name, None) is None:
                for other in [one for one in self.definitions if fold(one) == fold(name)]:
                    del self.definitions[other]
