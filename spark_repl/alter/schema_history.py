"""Tables' definitions from the statements of a log, for logs whose events name no columns.

With binlog_row_metadata=MINIMAL only CREATE TABLE contains the names, the key and the values of
ENUM and SET. A statement that is not understood makes the definition of its table unknown. Rows of
the table then raise an error, and never get wrong column names.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ..errors import DecodeError, StatementError
from ..sql.classify import Effect, Statement, classify_in
from ..sql.session import Session
from ..tables.case_folding import fold
from ..tables.table_name import table_name
from .apply_alter import alter
from .rename import like, rename

if TYPE_CHECKING:
    from ..binlog.events.event import Query
    from ..sql.actions import Alteration
    from ..tables.source_table import SourceTable

_CREATES = (Effect.CREATE_TABLE, Effect.CREATE_LIKE, Effect.CREATE_SELECT)
# Verbs of statements that leave the columns and the key alone, whatever else they do.
_ROWS_ONLY = ("INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "CALL", "DO")


@dataclass
class SchemaHistory:
    """The definitions of tables after the statements seen so far. ``definitions``:
    ``database.table`` -> definition. ``charsets``: database -> character set or collation, if a
    statement declared it."""

    definitions: dict[str, SourceTable] = field(default_factory=dict)
    charsets: dict[str, str] = field(default_factory=dict)

    def see(self, query: Query) -> Statement:
        """Apply one logged statement and return it. Never raises."""
        session = replace(Session.of(query), charsets=self.charsets)
        statement = classify_in(query.text, session)
        if statement.has_failed(query):
            return statement
        if statement.database_charset and statement.made_database(query):
            self.charsets[statement.database] = statement.database_charset
        # An existing table may differ from the one that the statement describes.
        if not statement.made_nothing(query):
            self._apply(statement, session)
        return statement

    def _apply(self, statement: Statement, session: Session) -> None:
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
            # A statement that names no table may change any table.
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
            # A statement that does not fit alters another table than the one that was recorded.
            with suppress(StatementError, DecodeError):
                after = alter(before, statement, session).definition
                self.definitions[after.name] = after

    def _forget(self, *names: str) -> None:
        """Drop the definitions of these tables. For a name without a definition, drop those whose
        names differ from it only in case: the source may not distinguish them."""
        for name in names:
            if self.definitions.pop(name, None) is None:
                for other in [key for key in self.definitions if fold(key) == fold(name)]:
                    del self.definitions[other]
