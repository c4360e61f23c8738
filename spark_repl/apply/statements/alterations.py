"""Alterations: ALTER TABLE, CREATE INDEX and DROP INDEX of one table of the target, with their
effects on foreign keys of other tables.

``Statements`` calls ``apply`` with a statement of the log while no group is being applied. First
the source's definition is altered (``alter.apply_alter``), then the rules of ``[[tables]]`` shape
the target's definition, then ``TableChanges`` writes: the definition only, other columns, or all
rows again.

Invariant: everything that can be refused is refused before anything is done. StatementError means
that the log does not determine the outcome; the caller then lets the table wait for a copy.
SettingError means that the settings or the table's policy do not allow the outcome; a copy would
not be allowed either, so the applier stops. Design: docs/design/schema-changes.md.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from ...alter.alteration import Altered, CarriedColumn, mirrored
from ...alter.apply_alter import alter
from ...alter.rename import rename, with_parent, with_referenced
from ...alter.retained_columns import retain_columns
from ...errors import SettingError, StatementError
from ...rules.channel_rows import check_key_stays
from ...rules.column_rules import shaped_alteration, with_dropped_columns
from ...rules.metadata_columns import check_deleted_rows
from ...rules.row_filters import check_filter_columns
from ...rules.table_mode import check_without_rows
from ...rules.tool_names import Role, tool_table
from ...sql.ddl_outcome import DdlOutcome
from ...sql.policy import Policy
from ...tables.case_folding import check_columns
from ...write.alter.altered_rows import UNKNOWN_ROWS, without_zero_dates
from ...write.shared.shard_tables import check_renamed_shard
from ...write.tables.source_description import declares_alike

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...control.table.cut import Cut
    from ...sql.session import Session
    from ...tables.source_table import SourceTable
    from ...tables.table_definition import TableDefinition
    from ...tables.table_keys import ForeignKey
    from ...tables.target_table import TargetTable
    from ...write.alter.table_changes import TableChanges
    from ...write.tables.table import Table
    from ...write.tables.tracking import Tracking
    from ..applied.statement_event import StatementEvent

    ForeignKeys = tuple[ForeignKey, ...]

logger = logging.getLogger(__name__)

_STOP_HINT = (
    "leave the statement out: spark-repl skip --config F --gtid GTID; or give the table another"
    " policy (ddl.policy) and start again"
)


def refused_by_policy(logged: StatementEvent, table: str) -> SettingError:
    """Return the error of the policy ``stop`` for a statement, before any of it is done."""
    return SettingError(
        f"policy stop: {logged.statement.verb} changes the table: {logged.text}",
        table=table,
        hint=_STOP_HINT,
    )


class Alterations:
    """Applies one ALTER after the other, while nothing else is in progress."""

    def __init__(self, tracking: Tracking, changes: TableChanges) -> None:
        self._tracking, self._changes = tracking, changes
        self._forms, self._definitions = tracking.options.forms, tracking.definitions

    def apply(self, logged: StatementEvent) -> DdlOutcome:
        """Change the table, and return the outcome. Raise StatementError, before anything is done,
        if the changes are not known or the table's policy does not allow them."""
        name, alteration = logged.statement.tables[0], logged.statement.alteration
        assert alteration is not None
        table, outcome = self._tracking.live(name), DdlOutcome.NOTHING
        policy = self._tracking.policy(name)
        if table is not None:
            if alteration.renamed and policy is Policy.STOP:
                raise refused_by_policy(logged, name)
            altered = self.made(logged, table.at_place.source)
            if alteration.renamed:
                self.check_renamed(name, alteration.renamed, altered.definition)
            self._check_exchanged(logged)
            outcome = self.change(table, altered, logged.session, logged)
        else:
            self._check_exchanged(logged)
        if alteration.renamed:
            self.rename(name, alteration.renamed, logged.cut)
            outcome = (
                DdlOutcome.NAMES
                if outcome in (DdlOutcome.NOTHING, DdlOutcome.DEFINITION)
                else outcome
            )
        return outcome

    def take_engine(self, logged: StatementEvent) -> DdlOutcome:
        """Apply a statement that only sets ENGINE=InnoDB. From then on, a table whose engine kept
        no rows has rows."""
        statement = logged.statement
        table = self._tracking.live(statement.tables[0]) if statement.engine else None
        if table is None or not (table.at_place.rowless or table.at_place.engine):
            return DdlOutcome.NOTHING
        now = replace(table.at_place, rowless=False, engine="")
        self._tracking.define(table, now, logged.cut)
        return DdlOutcome.DEFINITION

    @staticmethod
    def made(logged: StatementEvent, before: SourceTable) -> Altered[SourceTable]:
        """Return the table after the statement's actions. Raise StatementError."""
        assert logged.statement.alteration is not None
        source = logged.source
        session = replace(
            logged.session,
            inline_keys=source.has_inline_keys,
            quotients=source.rounds_quotients,
            keeps_row_id=source.keeps_row_id,
        )
        return alter(before, logged.statement.alteration, session)

    def change(
        self, table: Table, altered: Altered[SourceTable], session: Session, logged: StatementEvent
    ) -> DdlOutcome:
        """Change a table from its previous state on the source to ``altered``, and return the
        outcome."""
        cut, existing, policy = logged.cut, table.at_place, self._tracking.policy(table.name)
        before = existing.source
        source = self._with_forms(altered)
        if source.gone and policy is Policy.IGNORE_DROP:
            raise SettingError(
                f"policy ignore_drop: rows of partitions go: {logged.text}",
                table=table.name,
                hint=_STOP_HINT,
            )
        keeps = policy is Policy.ADDITIVE_ONLY
        columns = self._tracking.column_rules
        if columns.reshapes(table.name):
            if keeps:
                raise SettingError(
                    "policy additive_only where [[tables]] has other rows or columns than the"
                    f" source: {logged.text}",
                    table=table.name,
                    hint=_STOP_HINT,
                )
            check_filter_columns(existing, source)
            check_key_stays(existing, source.definition)
            after = shaped_alteration(existing, source, columns, strict=session.is_strict)
            check_deleted_rows(existing, after)
        elif keeps or not existing.is_mirror:
            after = retain_columns(existing, source, keeps=keeps)
            if keeps and not after.definition.is_mirror:
                logger.warning(
                    "%s: policy additive_only: the target keeps %s", table.name, _more(after)
                )
        else:
            after = mirrored(source)
        _check_shape(table, after.definition)
        defines = _only_defines(existing, after)
        if policy is Policy.STOP and not (defines and _only_defines(before, source)):
            raise refused_by_policy(logged, table.name)
        outcome = DdlOutcome.DEFINITION
        if defines and declares_alike(existing, after.definition):
            self._tracking.define(table, after.definition, cut)
        elif self._tracking.has(table, cut):
            table.define_at_place(after.definition)
            outcome = DdlOutcome.METADATA
        else:
            outcome = self._changes.alter(table, after, session, cut)
        self._follow_columns(before, source, cut)
        return outcome

    def _with_forms(self, altered: Altered[SourceTable]) -> Altered[SourceTable]:
        """Return the change with the target's forms of zero dates and text errors."""
        altered = replace(
            altered,
            definition=self._forms.apply(altered.definition),
            replaced_texts=self._forms.text_errors == "replace",
        )
        return without_zero_dates(altered) if self._forms.zero_dates == "null" else altered

    def _check_exchanged(self, logged: StatementEvent) -> None:
        """Raise StatementError if EXCHANGE PARTITION moves rows: the log does not record which
        rows.

        Raise SettingError for a table that a copy would not restore: its policy forbids the change,
        or the target keeps other rows or columns of it than the source.
        """
        alteration = logged.statement.alteration
        if alteration is None or not alteration.exchanged:
            return
        names = alteration.table, alteration.exchanged
        tables = [self._tracking.live(name) for name in names]
        if all(self._is_empty(name, logged.cut, any(tables)) for name in names):
            return
        for table in filter(None, tables):
            self._check_copyable(table, logged)
        raise StatementError(
            f"which rows are exchanged with {alteration.exchanged} is not in the log",
            table=alteration.table,
            hint=UNKNOWN_ROWS,
        )

    def _is_empty(self, name: str, cut: Cut, other_is_live: bool) -> bool:
        """Return whether a table of EXCHANGE PARTITION is known to have no rows before ``cut``."""
        table = self._tracking.live(name)
        if table is not None:  # a table that has the statement was empty when it got it
            return self._tracking.has(table, cut) or self._changes.is_empty(table)
        # A table without rows in the log is empty if the log contains its CREATE.
        created = name in self._definitions.expected_keys()
        return name not in self._tracking.waiting and (created or not other_is_live)

    def _check_copyable(self, table: Table, logged: StatementEvent) -> None:
        """Raise SettingError if a copy of the table would change what the target keeps."""
        policy, definition = self._tracking.policy(table.name), table.at_place
        if policy is Policy.STOP:
            raise refused_by_policy(logged, table.name)
        keeps_other = definition.truncated or not definition.is_mirror
        if policy is Policy.IGNORE_DROP or keeps_other:
            raise SettingError(
                f"the target keeps other rows or columns of {table.name} than the source, and its"
                f" rows are exchanged: {logged.text}",
                table=table.name,
                hint=_STOP_HINT,
            )

    def check_renamed(self, before: str, after: str, made: SourceTable | None = None) -> None:
        """Raise SettingError if a live table may not get that name. ``made``: the source's table
        after the same statement."""
        rules = self._tracking.column_rules
        if (table := self._tracking.live(before)) is not None:
            check_renamed_shard(before, after, map(self._tracking.is_shard, (before, after)))
            check_managed_name(table, after)
            existing = table.at_place
            if made is not None:
                source = self._forms.apply(rename(made, before))
                existing = rules.shaped(
                    with_dropped_columns(existing, source, rules.rule_of(source))
                )
            rules.check_renamed(existing, after)
            self._check_tool(table, after)
        elif before in self._tracking.waiting:
            rules.check_renamed_waiting(before, after)

    def _check_tool(self, table: Table, after: str) -> None:
        """Raise SettingError if an online schema-change tool's copy would replace a table that
        keeps rows which the source lacks. The tool's copy has only the source's rows."""
        tool, existing = tool_table(table.name), self._tracking.live(after)
        if tool is None or tool.role is not Role.COPY or tool.of != after or existing is None:
            return
        if existing.at_place.outlives_source:
            raise SettingError(
                f"{table.name}, an online schema-change tool's, would take its place, without the"
                " rows that it keeps and the source has not (its mode, or extra_columns: deleted)",
                table=after,
                hint='such tables need ddl.online_tools = "fold" from before the tool begins; or'
                " leave the statement out (spark-repl skip --config F --gtid GTID) and copy the"
                " table again (spark-repl snapshot --config F --table DB.T)",
            )

    def rename(self, before: str, after: str, cut: Cut) -> None:
        """Rename a table, also in the foreign keys of other tables."""
        self._tracking.rename(before, after, cut.position)
        self._follow(lambda keys: with_parent(keys, before, after), cut)

    def _follow_columns(self, before: SourceTable, altered: Altered[SourceTable], cut: Cut) -> None:
        """Rename columns in the foreign keys that refer to them."""
        names = {
            before.columns[origin.number].name: column.name
            for origin, column in zip(altered.origins, altered.definition.columns, strict=True)
            if isinstance(origin, CarriedColumn)
            and before.columns[origin.number].name != column.name
        }
        if names:
            self._follow(lambda keys: with_referenced(keys, before.name, names), cut)

    def _follow(self, change: Callable[[ForeignKeys], ForeignKeys], cut: Cut) -> None:
        tracking = self._tracking
        for table in list(tracking.tables.values()):
            definition = table.at_place
            keys = definition.foreign_keys
            if keys and (changed := change(keys)) != keys:
                tracking.define(table, replace(definition, foreign_keys=changed), cut)
        for name, keys in self._definitions.expected_keys().items():
            if (changed := change(keys)) != keys:
                self._definitions.expect_keys(name, changed, cut.position)


def _check_shape(table: Table, definition: TargetTable) -> None:
    """Raise SchemaError or SettingError for a table that can't have the altered definition."""
    check_columns(definition)
    if table.without_history:
        check_without_rows(definition)


def _only_defines(before: TableDefinition, altered: Altered[TableDefinition]) -> bool:
    """Return whether no column changes, so that the Delta table remains as it is."""
    after, numbers = altered.definition, list(range(len(before.columns)))
    plain = {"visible": True, "kept": False, "logged": None}
    kept = [
        o.number if isinstance(o, CarriedColumn) and not o.written else None
        for o in altered.origins
    ]
    return (
        not (altered.rows_go or altered.gone)
        and kept == numbers
        and all(
            replace(a, **plain) == replace(b, **plain)  # type: ignore[arg-type]
            for a, b in zip(before.columns, after.columns, strict=True)
        )
    )


def _more(altered: Altered[TargetTable]) -> str:
    """Return the names of the columns of which the target has more than the source."""
    return ", ".join(c.name for c in altered.definition.columns if c.kept or c.logged)


def check_managed_name(table: Table, after: str) -> None:
    """Raise StatementError for a table that a catalog manages: its name there is in its log."""
    if table.snapshot.is_managed:
        raise StatementError(
            f"the table gets the name {after}, and tables that a catalog manages keep their names",
            table=table.name,
            hint="leave the statement out (spark-repl skip --config F --gtid GTID) and copy the"
            f" table under its new name: spark-repl snapshot --config F --table {after}",
        )
