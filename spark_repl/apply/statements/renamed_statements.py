"""Statements if databases or tables have other names in the target (filters.rewrite_db, ``to`` of
``[[tables]]``)."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from ...control.records.name_case import unlike_table_rule
from ...errors import SchemaError, SettingError
from ...rules.renamed_tables import SHARED, claim
from ...sql.statement import Effect

if TYPE_CHECKING:
    from ...binlog.events.event import Query
    from ...control.table.cut import Cut
    from ...rules.rewrites import Rewrites
    from ...sql.statement import Statement
    from ...write.tables.tracking import Tracking

logger = logging.getLogger(__name__)

_CREATES = (Effect.CREATE_TABLE, Effect.CREATE_LIKE, Effect.CREATE_SELECT)
_HINT = (
    "leave the statement out (spark-repl skip --config F --gtid GTID), and drop what is meant by"
    " hand"
)


class RenamedStatements:
    """Replaces the names in each statement by the target's names, before other parts handle it. Two
    tables of the source never share a table of the target: a statement that would break this is
    refused before anything is done."""

    def __init__(self, tracking: Tracking) -> None:
        self._tracking, self._filters = tracking, tracking.filters
        self._source_names = self._filters.source_names

    def rename(self, statement: Statement, query: Query, cut: Cut) -> tuple[Statement, Query]:
        """Return the statement, and its query with the database that the filters check. Raise
        SchemaError and SettingError."""
        rewrites = self._filters.now.rewrites
        own = rewrites.statement(statement)
        self._check_letters(statement, own)
        if not rewrites.any:
            return statement, query
        query = replace(query, database=rewrites.database(query.database))
        if statement.effect is Effect.DROP_DATABASE:
            self._dropped(statement.database, rewrites)
        elif statement.effect is not Effect.NO_EFFECT or statement.alteration:
            logged = dict(zip(own.tables, map(rewrites.logged, statement.tables), strict=True))
            kept = [logged[name] for name in own.tables if self._filters.now.keeps(name)]
            for name in kept:
                rewrites.check(name)
            if kept:
                self._claim(own, logged, query, cut)
        return own, query

    def _check_letters(self, statement: Statement, own: Statement) -> None:
        """Raise SettingError if it is unknown whether the source folds names, and the rules would
        apply to other tables if it does."""
        filters, options = self._filters.now, self._tracking.options
        changes = statement.effect is not Effect.NO_EFFECT or statement.alteration
        if not filters.unsure or not changes:
            return
        if any(map(filters.keeps, own.tables)):
            filters.rewrites.check_letters(statement.named)
        for name in filter(filters.keeps, own.tables):
            if options.differs_folded(name):
                raise unlike_table_rule(name, known=False)

    def _dropped(self, database: str, rewrites: Rewrites) -> None:
        tables = rewrites.in_database(database, self._tracking.tables)
        if tables and any(new == database for _, new in rewrites.pairs):
            raise SettingError(
                f"DROP DATABASE {database}: the target has tables of other databases there"
                " (filters.rewrite_db)",
                table=", ".join(sorted(tables)),
                hint=_HINT,
            )
        if (new := rewrites.database(database)) != database:
            logger.warning(
                "DROP DATABASE %s: its tables stay in %s, as filters.rewrite_db is not about"
                " databases themselves", database, new,
            )  # fmt: skip

    def _claim(self, own: Statement, logged: dict[str, str], query: Query, cut: Cut) -> None:
        for name in own.tables:
            self._source_names.check(name, logged[name])
        if own.effect in _CREATES and not own.made_nothing(query):
            name = own.tables[0]
            table = self._tracking.live(name)
            unclaimed = name not in self._source_names and not own.if_not_exists
            if table is not None and table.position < cut.position and unclaimed:
                raise SchemaError(
                    f"Table '{name}' already exists, as a table of the source's {logged[name]} or"
                    " of another name",
                    table=name, number=1050, hint=SHARED,
                )  # fmt: skip
            self._source_names.see(name, logged[name])
        if own.effect is Effect.TRUNCATE_TABLE and self._tracking.live(own.tables[0]):
            self._source_names.see(own.tables[0], logged[own.tables[0]])
        if own.effect is Effect.DROP_TABLE:
            for name in own.tables:
                self._source_names.forget(name)
        gone = {old for old, _ in own.renames}
        for old, new in own.renames:
            existing = self._tracking.live(new)
            if existing is not None and new not in gone and existing.position < cut.position:
                claim({new: "of that name"}, new, logged[new])
            self._source_names.forget(old)
        for _, new in own.renames:
            self._source_names.see(new, logged[new])
