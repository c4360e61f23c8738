"""Statements under replication filters: their applied part, and tables that cross the filters'
border.

MySQL's replica checks a statement against the rules once, whatever happens to later rows. Here it
is an error, which names the tables, if a statement is left out while rows of its tables are
applied. A table that comes in by RENAME is copied, because the log lacks some of its rows.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from ...control.table.cut import Waiting
from ...errors import SettingError, StatementError
from ...rules.tool_names import tool_table
from ...sql.ddl_outcome import DdlOutcome
from ...sql.statement import Effect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...rules.replication_filters import ReplicationFilters
    from ...write.tables.tracking import Tracking
    from ..applied.statement_event import StatementEvent
    from .tool_tables import ToolTables

logger = logging.getLogger(__name__)

_CREATES = (Effect.CREATE_TABLE, Effect.CREATE_LIKE, Effect.CREATE_SELECT)
_DROPS = (Effect.DROP_TABLE, Effect.DROP_DATABASE)
_HINT = "change the filters so that they treat both alike, and copy the table again after that"
_TOOLS_HINT = (
    f"{_HINT}; an online schema-change tool's tables go with their table where ddl.online_tools ="
    ' "fold" from before the tool begins'
)


class FilteredStatements:
    """Applies the filters to each statement before other parts handle it. ``copies``: whether
    tables are copied while the applier runs."""

    def __init__(self, tracking: Tracking, tools: ToolTables, *, copies: bool) -> None:
        self._tracking, self._filters, self._copies = tracking, tracking.filters, copies
        self._tools, self._left = tools, tracking.left

    def handle(self, logged: StatementEvent) -> tuple[DdlOutcome | None, StatementEvent]:
        """Return the outcome, and the statement that remains to be applied. The outcome is LEFT_OUT
        if the rules leave the statement out, COPY if the statement moves a table into the rules,
        and otherwise None. If the statement moves a table out of the rules, a DROP remains.

        Raise SettingError and StatementError if both applying the statement and leaving it out
        would make the target wrong.
        """
        statement, rules = logged.statement, self._filters.now
        if lacking := self._lacking(logged):
            return self._come_in(logged, *lacking, "earlier filters have left out"), logged
        if not rules.any or (statement.effect is Effect.NO_EFFECT and not statement.alteration):
            return None, logged
        if statement.effect is Effect.DROP_DATABASE:
            kept = rules.keeps_database(statement.database)
            return (None if kept else self._left_out(logged)), logged
        names = statement.tables[:1] if statement.effect in _CREATES else statement.tables
        of = self._tools.asked_as(logged) if names else {}
        for name in names:
            rules.check_letters(of.get(name, name))
        rows = [name for name in names if rules.keeps(of.get(name, name))]
        if self._crosses(logged, rules, of):
            return self._across(logged, rules, of)
        source_names = [of.get(name, name) for name in names]
        applied = rules.keeps_default(logged.query.database) and rules.keeps_tables(source_names)
        if not names or (applied and len(rows) == len(names)):
            return None, logged
        if applied and statement.effect is Effect.DROP_TABLE and rows:
            return None, replace(logged, statement=replace(statement, tables=tuple(rows)))
        if rows and statement.effect not in _DROPS:
            raise SettingError(
                f"{statement.verb} is left out by the filters, the rows of its table are not"
                f" (its session's database was {logged.query.database or 'none'}): {logged.text}",
                table=", ".join(rows),
                hint=_HINT,
            )
        return self._left_out(logged), logged

    def _left_out(self, logged: StatementEvent) -> DdlOutcome:
        existing = [name for name in logged.statement.tables if self._tracking.live(name)]
        if existing:
            logger.warning("%s stays: filters leave out %s", ", ".join(existing), logged.text)
        return DdlOutcome.LEFT_OUT

    @staticmethod
    def _crosses(logged: StatementEvent, rules: ReplicationFilters, of: Mapping[str, str]) -> bool:
        """Return whether a table gets a name, or a partition's rows, from the other side of the
        border."""
        statement = logged.statement
        pairs = list(statement.renames)
        if statement.alteration and statement.alteration.exchanged:
            pairs.append((statement.alteration.table, statement.alteration.exchanged))
        kept = [[rules.keeps(of.get(name, name)) for name in pair] for pair in pairs]
        return any(old != new for old, new in kept)

    def _across(
        self, logged: StatementEvent, rules: ReplicationFilters, of: Mapping[str, str]
    ) -> tuple[DdlOutcome | None, StatementEvent]:
        """Return the outcome and the remaining statement of a RENAME across the border. A table
        that leaves ends as by DROP; a table that comes in waits for its copy."""
        statement = logged.statement
        if len(statement.tables) > 2 or not statement.renames:
            raise _of_several(logged)
        ((old, new),) = statement.renames
        if rules.keeps(of.get(old, old)):
            logger.warning("%s leaves, as by DROP: filters leave out %s: %s", old, new, logged.text)
            gone = replace(
                statement, effect=Effect.DROP_TABLE, tables=(old,), renames=(), alteration=None
            )
            return None, replace(logged, statement=gone)
        return self._come_in(logged, old, new, "the filters leave out"), logged

    def _lacking(self, logged: StatementEvent) -> tuple[str, str] | None:
        """Return the (old, new) name of a table that the target lacks because former filters left
        its rows out. No filter would report this for the new name. Raise SettingError if the
        statement also renames other tables."""
        names: dict[str, str] = {}
        for old, new in logged.statement.renames:  # a name may come twice: a swap
            names[new] = names.pop(old, old)
        lacking = [(old, new) for new, old in names.items() if self._lacks(old, new)]
        if not lacking:
            return None
        if len(logged.statement.tables) > 2:
            raise _of_several(logged)
        return lacking[0]

    def _lacks(self, old: str, new: str) -> bool:
        filters, tracking = self._filters, self._tracking
        elsewhere = old in tracking.waiting or old in self._left.tables
        if elsewhere or tracking.live(old) is not None:
            return False
        kept = filters.now.keeps(old) and filters.now.keeps(new)
        return kept and filters.left_out_before(old) and not filters.left_out_before(new)

    def _come_in(self, logged: StatementEvent, old: str, new: str, who: str) -> DdlOutcome:
        """Have a table wait for its copy. Raise StatementError if tables are not copied."""
        reason = f"it comes from {old}, whose rows {who}: {logged.text}"
        if not self._copies:
            raise StatementError(reason, table=new, hint=_HINT)
        logger.warning("%s waits for a copy: %s", new, reason)
        self._tracking.wait(new, Waiting(reason, logged.name))
        return DdlOutcome.COPY


def _of_several(logged: StatementEvent) -> SettingError:
    statement = logged.statement
    return SettingError(
        f"{statement.verb} moves rows across the border of the filters: {logged.text}",
        table=", ".join(statement.tables),
        hint=_TOOLS_HINT if any(map(tool_table, statement.tables)) else _HINT,
    )
