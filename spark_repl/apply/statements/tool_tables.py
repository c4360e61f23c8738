"""ToolTables: tables of online schema-change tools that are left out (ddl.online_tools = "fold").

The applier does not apply their rows. When the tool's RENAME puts its copy in the table's place,
the applier applies the tool's ALTER to the table itself.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from ...alter.alteration import CarriedColumn
from ...alter.online_tools import check_tool_alteration, copied
from ...alter.rename import like, rename
from ...control.records.schema_tool_tables import SchemaToolTable
from ...errors import SettingError
from ...rules.tool_names import Role, ToolTable, tool_tables
from ...sql.ddl_outcome import DdlOutcome
from ...sql.session import Session
from ...sql.statement import Effect
from ..applied.statement_event import before

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...alter.alteration import Altered
    from ...rules.rewrites import Rewrites
    from ...tables.source_table import SourceTable
    from ...write.tables.tracking import Tracking
    from ..applied.statement_event import StatementEvent
    from .alterations import Alterations

logger = logging.getLogger(__name__)

_CREATES = (Effect.CREATE_TABLE, Effect.CREATE_LIKE)
_ALTERS = (Effect.ALTER_TABLE, Effect.NO_EFFECT)
_HINT = "copy the table after this statement: spark-repl snapshot --config F --table DB.T"


class ToolTables:
    """Checks each statement for tables of online schema-change tools before it is applied. If the
    user switches the option off, a table that was left out stays left out until it is renamed or
    dropped."""

    def __init__(self, tracking: Tracking, alterations: Alterations) -> None:
        self._tracking, self._alterations = tracking, alterations
        self._left, self._forms, options = tracking.left, tracking.options.forms, tracking.options
        self._filters = tracking.filters
        self._folds = options.online_tools == "fold"

    def handle(self, logged: StatementEvent) -> tuple[DdlOutcome | None, StatementEvent]:
        """Return the outcome of a statement about a tool's tables, and the statement. The outcome
        is None if the returned statement, or its remaining part, has to be applied like any other.
        Raise StatementError."""
        statement, ignored = logged.statement, self._left.tables
        effect = statement.effect
        if (
            effect in _CREATES
            and statement.tables[0] not in ignored
            and statement.like not in ignored
        ):
            return (DdlOutcome.LEFT_OUT if self._created(logged) else None), logged
        self._check_altered(logged)
        if not ignored or (effect is Effect.NO_EFFECT and not statement.alteration):
            return None, logged
        if effect is Effect.DROP_DATABASE:
            self._end(self._rewrites.in_database(statement.database, ignored), logged)
            return None, logged
        if effect is Effect.DROP_TABLE:
            return self._dropped(logged)
        if not any(name in ignored for name in statement.tables):
            self._note_changed(logged)
            return None, logged
        if effect is Effect.RENAME_TABLE:
            return self._cut_over(logged), logged
        alteration = statement.alteration
        own = statement.tables[0] in ignored and alteration and not alteration.renamed
        if effect in _ALTERS and own and len(statement.tables) == 1:
            return self._altered(logged), logged
        if effect is Effect.CREATE_LIKE and statement.like in ignored:
            return self._like(logged)
        if effect in _CREATES or (effect is Effect.TRUNCATE_TABLE and self._is_notes(logged)):
            return DdlOutcome.LEFT_OUT, logged
        raise self._refused(logged)

    def _check_altered(self, logged: StatementEvent) -> None:
        """Raise SettingError for a tool's ALTER after which its copy may lack rows, or have other
        rows."""
        statement = logged.statement
        ignored = self._left.tables.get(statement.tables[0]) if statement.tables else None
        if ignored and ignored.copy and self._folds and statement.verb == "ALTER TABLE":
            check_tool_alteration(statement, logged.query.text, logged.session.sql_mode)

    def _is_notes(self, logged: StatementEvent) -> bool:
        return not self._left.tables[logged.statement.tables[0]].copy

    def asked_as(self, logged: StatementEvent) -> dict[str, str]:
        """Return the left-out tables of a statement, with the table to which each one belongs. This
        includes tables that are left out from this statement on. Filters treat each of them like
        the table to which it belongs."""
        statement, ignored = logged.statement, self._left.tables
        if statement.effect in _CREATES and statement.tables[0] not in ignored:
            definition = self._made(logged)
            return {definition.name: definition.of} if definition else {}
        names = {name: ignored[name].of for name in statement.tables if name in ignored}
        for _, name in statement.renames if names else ():
            for tool in self._tools(name):
                if tool.of in names.values():
                    names.setdefault(name, tool.of)
        return names

    def _created(self, logged: StatementEvent) -> bool:
        """Return whether the statement creates a tool's table, and leave that table out from here
        on."""
        if (definition := self._made(logged)) is None:
            return False
        self._left.put(definition, logged.cut)
        logger.warning("%s is left out: %s", definition.name, logged.text)
        return True

    def _made(self, logged: StatementEvent) -> SchemaToolTable | None:
        """Return the tool's table that a CREATE makes, or None if the table is not left out."""
        statement, tracking = logged.statement, self._tracking
        name = statement.tables[0]
        tool = next(
            (candidate for candidate in self._tools(name) if tracking.live(candidate.of)),
            None,
        )
        table = tracking.live(tool.of) if tool and self._folds else None
        if tool is None or table is None or tracking.live(name) is not None:
            return None
        definition = statement.definition
        if statement.like:
            definition = like(table.at_place.source, name) if statement.like == tool.of else None
        copy = tool.role is Role.COPY
        definition = definition and self._kept(definition, copy=copy)
        if copy and (definition is None or not _same(table.at_place.source, definition)):
            return None  # a user's table with such a name
        return SchemaToolTable(name, tool.of, definition, copy)

    def _kept(self, definition: SourceTable, *, copy: bool) -> SourceTable | None:
        """Return a tool's table as it is recorded. Return None for a table that is not a copy and
        does not fit the column rule, which is meant for other columns."""
        rules = self._tracking.column_rules
        try:
            return rules.recordable(self._forms.apply(definition))
        except SettingError:
            if copy:
                raise
            return None

    def _tools(self, name: str) -> list[ToolTable]:
        """Return the ``tool_tables`` of a name, looked up by the names that the tool gives."""
        routes = self._rewrites.routes
        tools = tool_tables(routes.before(name))
        return [replace(tool, of=routes.after(tool.of)) for tool in tools]

    @property
    def _rewrites(self) -> Rewrites:
        return self._filters.now.rewrites

    def _like(self, logged: StatementEvent) -> tuple[DdlOutcome | None, StatementEvent]:
        """Return the outcome and the statement of CREATE TABLE ... LIKE a table that is left
        out."""
        statement = logged.statement
        ignored = self._left.tables[statement.like]
        model = ignored.definition if ignored.copy else None
        if model is None or statement.tables[0] in self._left.tables:
            raise self._refused(logged)
        definition = replace(
            statement, effect=Effect.CREATE_TABLE, definition=like(model, statement.tables[0])
        )
        return None, replace(logged, statement=definition)

    def _altered(self, logged: StatementEvent) -> DdlOutcome | None:
        statement = logged.statement
        assert statement.alteration is not None
        ignored = self._left.tables[statement.tables[0]]
        if ignored.definition is None:
            return DdlOutcome.LEFT_OUT
        if not ignored.copy:
            altered = self._alterations.made(logged, ignored.definition)
            definition = self._kept(altered.definition, copy=False)
            self._left.put(replace(ignored, definition=definition), logged.cut)
            return DdlOutcome.LEFT_OUT
        table = self._tracking.live(ignored.of)
        if not self._folds and not ignored.altered:
            self._make(ignored.definition, logged)
            return None
        altered = self._alterations.made(logged, ignored.definition)
        if altered.rows_go or table is None:
            raise self._refused(logged, altered.rows_go)
        if renamed := _other_names(ignored.definition, altered):
            raise self._refused(logged, f"column {renamed[0]} has another name")
        # Raises for changes that can't be derived, before any row has been left out.
        copied(table.at_place.source, self._forms.apply(altered.definition))
        definition = self._kept(altered.definition, copy=True)
        after = replace(ignored, definition=definition, altered=True)
        self._left.put(after, logged.cut)
        return DdlOutcome.LEFT_OUT

    def _make(self, definition: SourceTable, logged: StatementEvent) -> None:
        """Create the table after all: the user took the option back, and no row has come yet."""
        stamp = self._tracking.stamp(before(logged.cut))
        self._tracking.create(definition, stamp, logged.name)
        self._left.end(definition.name, logged.cut)

    def _cut_over(self, logged: StatementEvent) -> DdlOutcome:
        """Apply the tool's RENAME, which puts its copy in the table's place."""
        renames, ignored = logged.statement.renames, self._left.tables
        if len(renames) != 2 or renames[1][1] != renames[0][0]:
            raise self._refused(logged)
        (name, old), (copy, _) = renames
        copy_table, table = ignored.get(copy), self._tracking.live(name)
        if (
            copy_table is None
            or not copy_table.copy
            or copy_table.definition is None
            or copy_table.of != name
            or table is None
        ):
            raise self._refused(logged)
        if copy_table.stale:
            raise self._refused(logged, f"{name} was changed since the tool began to copy it")
        was = table.at_place.source
        altered = copied(was, rename(copy_table.definition, name))
        session = Session(time_zone="+00:00", at=logged.query.at)  # not strict: INSERT IGNORE
        outcome = self._alterations.change(table, altered, session, logged)
        self._left.put(SchemaToolTable(old, name, rename(was, old)), logged.cut)
        self._left.end(copy, logged.cut)
        return outcome

    def _dropped(self, logged: StatementEvent) -> tuple[DdlOutcome | None, StatementEvent]:
        names, ignored = logged.statement.tables, self._left.tables
        rest = tuple(name for name in names if name not in ignored)
        self._end((name for name in names if name in ignored), logged)
        self._note_changed(logged)
        if not rest and names:
            return DdlOutcome.LEFT_OUT, logged
        return None, replace(logged, statement=replace(logged.statement, tables=rest))

    def _end(self, names: Iterable[str], logged: StatementEvent) -> None:
        for name in list(names):
            self._left.end(name, logged.cut)

    def _note_changed(self, logged: StatementEvent) -> None:
        """Mark the copies of the tables that the statement changes as stale."""
        if logged.statement.effect in (Effect.NO_EFFECT, *_CREATES, Effect.CREATE_SELECT):
            return
        for ignored in list(self._left.tables.values()):
            if ignored.of in logged.statement.tables and ignored.copy and not ignored.stale:
                self._left.put(replace(ignored, stale=True), logged.cut)

    @staticmethod
    def _refused(logged: StatementEvent, reason: str = "") -> SettingError:
        suffix = f" ({reason})" if reason else ""
        return SettingError(
            f"{logged.statement.verb} of an online schema-change tool's table whose rows are left"
            f" out can't be applied{suffix}: {logged.text}",
            table=", ".join(logged.statement.tables) or None,
            hint=_HINT,
        )


def _other_names(before: SourceTable, altered: Altered[SourceTable]) -> list[str]:
    """Return the previous names of the renamed columns."""
    pairs = zip(altered.origins, altered.definition.columns, strict=True)
    kept = [
        (before.columns[o.number], column) for o, column in pairs if isinstance(o, CarriedColumn)
    ]
    return [old.name for old, column in kept if old.name.lower() != column.name.lower()]


def _same(one: SourceTable, other: SourceTable) -> bool:
    """Return whether a copy begins with the table's columns and primary key."""
    return one.columns == other.columns and one.primary_key == other.primary_key
