"""Tables' definitions by the statements of a log, for logs whose events name no columns.

With binlog_row_metadata=MINIMAL the names, the key and the values of ENUM and SET stand in CREATE
TABLE only. A statement that changes a table in a way that isn't understood makes its definition
unknown: rows of it are an error then, never columns with the wrong names.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ..errors import DecodeError, StatementError
from ..sql.case_folding import fold
from ..sql.classify import Effect, Statement, classify_in
from ..sql.session import Session
from ..tables.table_name import table_name
from .apply_alter import alter
from .rename import like, rename

if TYPE_CHECKING:
    from ..binlog.events.event import Query
    from ..sql.actions import Alteration
    from ..tables.table_definition import TableDefinition

_CREATES = (Effect.CREATE_TABLE, Effect.CREATE_LIKE, Effect.CREATE_SELECT)
# Verbs of statements that leave the columns and the key alone, whatever else they do.
_ROWS_ONLY = ("INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "CALL", "DO")


@dataclass
class SchemaHistory:
    """``definitions``: ``database.table`` -> definition after the statements seen so far;
    ``charsets``: database -> character set or collation, where they have said it."""

    definitions: dict[str, TableDefinition] = field(default_factory=dict)
    charsets: dict[str, str] = field(default_factory=dict)

    def see(self, query: Query) -> Statement:
        """Takes in one logged statement. Never raises."""
        session = replace(Session.of(query), charsets=self.charsets)
        statement = classify_in(query.text, session)
        if statement.has_failed(query):
            return statement
        if statement.database_charset and statement.made_database(query):
            self.charsets[statement.database] = statement.database_charset
        # A table that was there may be another one than the statement describes.
        if not statement.made_nothing(query):
            self._take(statement, session)
        return statement

    def _take(self, statement: Statement, session: Session) -> None:
        effect = statement.effect
        if effect in _CREATES:
            self._create(statement)
        elif effect is Effect.RENAME_TABLE:
            for old, new in statement.renames:
                definition = self.definitions.get(old)
                self._forget(old, new)
                if definition is not None:
                    self.definitions[new] = rename(definition, new)
        elif statement.alteration is not None:
            self._alter(statement, statement.alteration, session)
        elif effect is Effect.DROP_DATABASE:
            self.charsets.pop(statement.database, None)
            prefix = table_name(fold(statement.database), "")
            self._forget(*[name for name in self.definitions if fold(name).startswith(prefix)])
        elif effect is Effect.DROP_TABLE:
            self._forget(*statement.tables)
        elif effect is Effect.UNSUPPORTED and statement.verb not in _ROWS_ONLY:
            # Without a table's name it may be any table.
            self._forget(*(statement.tables or tuple(self.definitions)))

    def _create(self, statement: Statement) -> None:
        name = statement.tables[0]
        if statement.if_not_exists and name in self.definitions:
            return
        model = self.definitions.get(statement.like)
        self.definitions.pop(name, None)
        if model is not None:
            self.definitions[name] = like(model, name)
        elif statement.definition is not None:
            self.definitions[name] = statement.definition

    def _alter(self, statement: Statement, alteration: Alteration, session: Session) -> None:
        before = self.definitions.get(alteration.table)
        names = (alteration.table, alteration.renamed) if alteration.renamed else statement.tables
        self._forget(*names)
        if before is not None:
            # One that doesn't fit is of another table than the one that was seen.
            with suppress(StatementError, DecodeError):
                after = alter(before, statement, session).definition
                self.definitions[after.name] = after

    def _forget(self, *names: str) -> None:
        """Drops the definitions of these tables; where there is none by a name, those whose names
        differ from it in case alone: the source may not tell them apart."""
        for name in names:
            if self.definitions.pop(name, None) is None:
                for other in [key for key in self.definitions if fold(key) == fold(name)]:
                    del self.definitions[other]
