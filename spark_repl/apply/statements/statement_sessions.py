"""StatementSessions: settings on which statements depend and which their events lack, such as time
zones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...control.records.system_time_zone import recorded_time_zone
from ...sql.session import Session
from ...sql.statement import ROW_CHANGES, Effect
from ...tables.case_folding import fold

if TYPE_CHECKING:
    from ...binlog.events.event import Query
    from ...control.table.cut import Cut
    from ...sql.statement import Statement
    from ...write.tables.tracking import Tracking


class StatementSessions:
    """The sessions of one log's statements, in its order."""

    def __init__(self, tracking: Tracking) -> None:
        self._control, self._databases = tracking.control, tracking.databases
        self._names, self._options = tracking.names, tracking.options

    def of(self, query: Query) -> Session:
        """Return the session of a statement. If its time zone is SYSTEM, use the source's system
        time zone."""
        zone = ""
        if query.time_zone == "SYSTEM":
            zone = self._options.system_time_zone or recorded_time_zone(self._control)
        session = Session.of(query, zone)
        return replace(session, charsets=self._databases.charsets, folds=self._names.folds)

    def see(self, statement: Statement, query: Query, cut: Cut) -> None:
        """Record what a statement declares about a database: its character set, or its end. The
        statement's transaction ends at ``cut``."""
        name = self._name_of(statement)
        if statement.effect is Effect.DROP_DATABASE:
            self._databases.end(name, cut)
        elif statement.database_charset and statement.made_database(query):
            self._databases.put(name, statement.database_charset, cut)

    def pass_over(self, statement: Statement, cut: Cut) -> None:
        """Discard what is known about the databases that a left-out statement may have changed."""
        if statement.database:
            self._databases.end(self._name_of(statement), cut)
            return
        unknown = statement.effect is Effect.UNSUPPORTED and not statement.tables
        if unknown and statement.verb not in ROW_CHANGES:
            for name in self._databases.charsets:
                self._databases.end(name, cut)

    def _name_of(self, statement: Statement) -> str:
        return fold(statement.database) if self._names.folds else statement.database
