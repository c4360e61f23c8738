"""Statements: applies a transaction that is one logged statement, or refuses an unknown one.

A statement is applied by itself: everything before it is committed, and nothing after it was read.
The next cut shows its changes of names (CREATE, DROP, RENAME), and only the cut records them. Its
changes of an existing table are one commit of that table (``write.alter``).

The pipeline calls it. Raises StatementError if the log does not determine the outcome, SettingError
and SchemaError if the target may not have it, and StaleCopyError if the statement makes a running
copy useless. Design: docs/design/schema-changes.md, docs/design/unknown-rows.md.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...alter.rename import like
from ...control.records.copies import last_copy
from ...control.table.cut import Waiting
from ...decode.metadata_values import metadata_of_truncate
from ...decode.stage_task import same_shape
from ...errors import SchemaError, SettingError, StaleCopyError, StatementError
from ...gtid import GtidSet
from ...position import OFFSET_BITS
from ...relay.record import Kind
from ...rules.table_mode import nullable
from ...sql.classify import classify_in
from ...sql.ddl_outcome import DdlOutcome
from ...sql.foreign_keys import named
from ...sql.policy import Policy
from ...sql.statement import TEMPORARY, Effect
from ...sql.table_options import OF_OTHERS
from ...tables.table_definition import SYSTEM_SCHEMAS
from ...tables.table_name import database_of
from ...write.rows.scd2_history import TruncatedVersions
from ...write.rows.soft_deletes import Truncated
from ..applied.quarantine_changes import check_quarantine
from ..applied.statement_event import (
    StatementEvent,
    StatementResult,
    before,
    check_dropped,
    concerned,
    read_query,
    shown,
)
from .alterations import Alterations, refused_by_policy
from .filtered_statements import FilteredStatements
from .renamed_statements import RenamedStatements
from .stale_copy import give_up
from .statement_sessions import StatementSessions
from .tool_tables import ToolTables

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from ...control.records.copies import CatchUp
    from ...control.table.cut import Cut
    from ...rules.rewrites import Rewrites
    from ...tables.target_table import TargetTable
    from ...write.alter.table_changes import TableChanges
    from ...write.tables.table import Table
    from ...write.tables.tracking import Tracking
    from ..applied.applied_log import AppliedLog
    from ..applied.statement_event import StatementEvent
    from ..start.resume import ResumePoint

logger = logging.getLogger(__name__)

_WHY = {
    Kind.STATEMENT: "the transaction changes rows by statements (binlog_format is not ROW)",
    Kind.INCIDENT: "the incident LOST_EVENTS occurred on the source",
}
_HINT = (
    "leave it out: spark-repl skip --config F --gtid GTID; then copy each table that it may have"
    " changed: spark-repl snapshot --config F --table DB.T"
)
_ENDS = (Effect.TRUNCATE_TABLE, Effect.DROP_TABLE, Effect.DROP_DATABASE)
_CATCHING_UP = "wait with it until the copy is shown, or copy the table again behind this statement"


class Statements:
    """Applies one statement after the other."""

    def __init__(
        self,
        tracking: Tracking,
        applied: AppliedLog,
        changes: TableChanges,
        catch_up: CatchUp,
        point: ResumePoint,
    ) -> None:
        self._tracking, self._log, self._changes = tracking, applied, changes
        self._catch_up, self._copies, self._skip = catch_up, point.copies, point.skip
        self._forms, self._options = tracking.options.forms, tracking.options
        self._control, self._names = tracking.control, tracking.names
        self._filters = tracking.filters
        self._definitions = tracking.definitions
        self._alterations = Alterations(tracking, changes)
        self._tools = ToolTables(tracking, self._alterations)
        self._filtered = FilteredStatements(tracking, self._tools, copies=point.copies)
        self._rewritten, self._sessions = RenamedStatements(tracking), StatementSessions(tracking)
        rules = tracking.column_rules
        self._literals = rules.withholding is None

    def apply(self, record: Any, cut: Cut) -> StatementResult:
        """Apply the one statement of an index record, and return its result. ``cut`` is the cut
        after it. For CREATE TABLE ... SELECT, create the table without its rows, which are in the
        same record. Raise StatementError before anything is done if the statement can't be applied.
        """
        kind, relay, base = Kind(int(record["kind"])), self._log.view.relay, self._log.base
        if kind in _WHY:
            number = 13119 if kind == Kind.INCIDENT else 0
            raise StatementError(_WHY[kind], hint=_HINT, number=number)
        query = read_query(record, relay, base)
        session = self._sessions.of(query)
        statement = classify_in(query.text, session)
        if statement.has_failed(query):
            logger.warning("a statement that failed on the source (%d) is passed over", query.error)
            return StatementResult(
                DdlOutcome.NOTHING, shown(query, session, literals=self._literals)
            )
        if self._skip and GtidSet.parse(cut.group_gtids).intersect(self._skip):
            self._sessions.pass_over(statement, cut)
            text = shown(query, session, literals=self._literals)
            return StatementResult(DdlOutcome.LEFT_OUT, text, statement.tables)
        self._sessions.see(statement, query, cut)
        statement, query = self._rewritten.rename(statement, query, cut)
        names = self._rewrites.names_in_statement(
            statement, [*self._tracking.tables, *self._tracking.waiting]
        )
        statement = self._names.statement(statement, names)
        source = relay.head((int(record["position"]) >> OFFSET_BITS) - base).source
        moment = int(record["commit_time"]), int(record["position"])
        logged = StatementEvent(statement, query, cut, source, session, *moment, self._literals)
        outcome, remaining = self._filtered.handle(logged)
        if outcome is None:
            check_dropped(remaining)
            self._check_copied(remaining)
            outcome = self._way(remaining)
        return StatementResult(outcome, logged.text, tuple(statement.tables))

    @property
    def _rewrites(self) -> Rewrites:
        return self._filters.now.rewrites

    def _way(self, logged: StatementEvent) -> DdlOutcome:
        if _is_systems(logged):
            return DdlOutcome.LEFT_OUT
        check_temporary_name(logged, self._tracking)
        try:
            check_quarantine(logged, self._tracking)
            outcome, remaining = self._tools.handle(logged)
            return outcome or self._carry_out(remaining)
        except SettingError:
            raise
        except StatementError as error:
            if not self._copies or not logged.statement.tables:
                raise
            policies = map(self._tracking.policy, logged.statement.tables)
            tables = filter(None, map(self._tracking.live, logged.statement.tables))
            kept = any(
                table.at_place.outlives_source or table.without_history or table.is_shard
                for table in tables
            )
            if kept or any(policy is not Policy.APPLY for policy in policies):
                raise  # a copy would lack what the target keeps
            self._wait(logged, f"{error.message}: {logged.text}")
            return DdlOutcome.COPY

    def _wait(self, logged: StatementEvent, reason: str) -> None:
        """Have the tables wait for a copy, because the log does not show their rows from here
        on."""
        statement, alteration, cut = logged.statement, logged.statement.alteration, logged.cut
        names = set(statement.tables)
        renamed = alteration.renamed if alteration else ""
        for name in sorted(names - {renamed}):
            logger.warning("%s waits for a copy: %s", name, reason)
            self._tracking.wait(name, Waiting(reason, logged.name))
        if alteration and renamed:
            self._alterations.rename(alteration.table, renamed, cut)

    def _carry_out(self, logged: StatementEvent) -> DdlOutcome:
        match logged.statement.effect:
            case Effect.NO_EFFECT if not logged.statement.alteration:
                return self._alterations.take_engine(logged)
            case Effect.CREATE_TABLE | Effect.CREATE_SELECT:
                with self._control.one_look():  # else ten looks for others' rows
                    return self._create(logged)
            case Effect.CREATE_LIKE:
                return self._create_like(logged)
            case Effect.DROP_TABLE | Effect.DROP_DATABASE:
                return self._drop(logged)
            case Effect.TRUNCATE_TABLE:
                return self._truncate(logged)
            case Effect.RENAME_TABLE:
                return self._rename(logged)
            case Effect.ALTER_TABLE | Effect.NO_EFFECT:
                return self._alterations.apply(logged)
            case _:
                raise self._refused(logged)

    def _drop(self, logged: StatementEvent) -> DdlOutcome:
        names: Iterable[str] = logged.statement.tables
        if logged.statement.effect is Effect.DROP_DATABASE:
            referring = [*self._tracking.foreign_keys(), *self._tracking.waiting]
            names = self._rewrites.in_database(logged.statement.database, referring)
        tables = [table for table in map(self._tracking.live, names) if table is not None]
        policies = {table.name: self._tracking.policy(table.name) for table in tables}
        for name, policy in policies.items():
            if policy is Policy.STOP:
                raise refused_by_policy(logged, name)
        kept = [table for table in tables if policies[table.name] is Policy.IGNORE_DROP]
        for table in kept:
            logger.warning("%s: policy ignore_drop: the table stays: %s", table.name, logged.text)
            self._tracking.define(table, replace(table.at_place, dropped=True), logged.cut)
        self._changes.drop([table for table in tables if table.is_shard], logged.cut)
        tracking = self._tracking  # a table that stays, also after an earlier DROP, is not live
        gone = [n for n in names if n not in tracking.tables or tracking.live(n) is not None]
        tracking.drop(gone, logged.cut.position)
        if kept:
            return DdlOutcome.LEFT_OUT
        return DdlOutcome.NAMES if tables else DdlOutcome.NOTHING

    def _truncate(self, logged: StatementEvent) -> DdlOutcome:
        name, cut = logged.statement.tables[0], logged.cut
        table, policy = self._tracking.live(name), self._tracking.policy(name)
        if table is None:
            return DdlOutcome.NOTHING
        if policy is Policy.STOP:
            raise refused_by_policy(logged, name)
        existing = table.at_place
        named = replace(existing, source_name=self._filters.source_names.of(name))
        if marks := truncation_marks(named, logged, policy):
            return self._changes.mark_rows(table, marks, cut)
        if existing.logs_changes and policy is not Policy.IGNORE_DROP:
            rows = truncation_row(nullable(named), logged)
            return self._changes.add_rows(table, nullable(existing), rows, cut)
        if existing.appends and not existing.has_versions:
            return DdlOutcome.LEFT_OUT
        if policy is Policy.IGNORE_DROP:
            logger.warning("%s: policy ignore_drop: its rows stay: %s", name, logged.text)
            self._tracking.define(table, replace(existing, truncated=True), cut)
            return DdlOutcome.LEFT_OUT
        whole = replace(existing, truncated=False)
        if not existing.truncated:
            self._changes.truncate(table, cut)
        elif self._tracking.has(table, cut):
            table.define_at_place(whole)
        else:
            self._changes.truncate(table, cut, whole)
        return DdlOutcome.METADATA

    def _rename(self, logged: StatementEvent) -> DdlOutcome:
        names: dict[str, str] = {}
        exists = False
        for old, new in logged.statement.renames:  # a name may come twice: a swap
            first = names.pop(old, old)
            names[new] = first
            if self._tracking.live(first) is not None:
                exists = True
                if self._tracking.policy(first) is Policy.STOP:
                    raise refused_by_policy(logged, first)
        for new, first in names.items():  # all are checked before the first is renamed
            self._alterations.check_renamed(first, new)
        for old, new in logged.statement.renames:
            self._alterations.rename(old, new, logged.cut)
        return DdlOutcome.NAMES if exists else DdlOutcome.NOTHING

    def _check_copied(self, logged: StatementEvent) -> None:
        """Raise StatementError if the statement changes a table whose copy catches up. The copy was
        read before or after the statement, and the applier can't know which. Raise StaleCopyError
        if the applier continues without the copy."""
        copied = self._catch_up.copies(GtidSet.parse(logged.cut.gtid_executed))
        names = concerned(logged.statement, self._tracking.tables, self._rewrites)
        changed = [name for name in names if name in copied and name not in self._tracking.waiting]
        if not changed:
            return
        reason = f"{logged.statement.verb} while the table's copy catches up"
        copy = last_copy(self._control)
        if copy is not None and copy.behind is not None:  # made beside the applier
            why = Waiting(reason, logged.name)
            give_up(self._control, copy, changed[0], why, copies=self._copies)
            raise StaleCopyError(f"a copy is out of date: {logged.text}", table=", ".join(changed))
        if not self._copies or any(map(self._tracking.is_shard, changed)):
            if copy is not None and _ends_rows(logged) and copy.exact.keys().isdisjoint(changed):
                return
            raise StatementError(
                f"{reason}: {logged.text}", table=", ".join(changed), hint=_CATCHING_UP
            )
        for name in changed:
            logger.warning("%s waits for a new copy: %s", name, logged.text)
            self._tracking.wait(name, Waiting(reason, logged.name))

    def _refused(self, logged: StatementEvent) -> StatementError:
        statement = logged.statement
        verb = statement.verb or "the statement"
        return StatementError(
            f"{verb} can't be applied ({statement.reason}): {logged.text}",
            table=", ".join(statement.tables) or None,
            hint=_HINT,
        )

    def _create(self, logged: StatementEvent) -> DdlOutcome:
        statement, cut = logged.statement, logged.cut
        if statement.made_nothing(logged.query):
            return DdlOutcome.NOTHING
        name, wanted, keys = statement.tables[0], statement.definition, statement.foreign_keys
        if name in self._tracking.waiting:
            return DdlOutcome.NOTHING  # the table exists
        if statement.engine.upper() in OF_OTHERS:
            raise SettingError(
                f"a table of ENGINE={statement.engine} shows rows of others, which the log does not"
                f" have as its own: {logged.text}",
                table=name,
                hint="make it a view on the source, and leave the statement out: spark-repl skip"
                " --config F --gtid GTID",
            )
        if statement.changes_rows:
            raise StatementError(f"{_WHY[Kind.STATEMENT]}: {logged.text}", table=name, hint=_HINT)
        if keys:
            created_keys = [key for key in keys if logged.source.has_inline_keys or not key.inline]
            keys = named(created_keys, name)
            wanted = wanted and replace(wanted, foreign_keys=keys)
        existing = self._tracking.live(name)
        if existing is not None:
            executed = GtidSet.parse(before(cut).gtid_executed)
            check_not_existing(existing, logged, self._tracking, self._catch_up.copies(executed))
        elif wanted is None:
            logger.warning("%s is made from its first TABLE_MAP: %s", name, statement.reason)
            if keys is not None:
                self._definitions.expect_keys(name, keys, cut.position)
        else:
            if statement.effect == Effect.CREATE_SELECT:  # its rows follow it
                cut = before(cut)
            stamp = self._tracking.stamp(cut)
            if self._tracking.is_shard(name):
                self._changes.widen_for(self._tracking.shaped(wanted), stamp)
            self._tracking.create(wanted, stamp, logged.name)
        return DdlOutcome.NAMES

    def _create_like(self, logged: StatementEvent) -> DdlOutcome:
        statement = logged.statement
        if self._copies and statement.like in self._tracking.waiting:
            raise StatementError(f"{statement.like} is not known", table=statement.tables[0])
        model = self._tracking.live(statement.like)
        if model is None:
            create = replace(statement, reason=f"{statement.like} is not known either")
        else:
            create = replace(statement, definition=like(model.at_place.source, statement.tables[0]))
        return self._create(replace(logged, statement=create))


def _ends_rows(logged: StatementEvent) -> bool:
    """Return whether the statement ends all existing rows. Then nothing remains of a copy of all
    tables that was read before and after the statement, and the log has each later row."""
    return logged.statement.effect in _ENDS


def _is_systems(logged: StatementEvent) -> bool:
    """Return whether all tables of the statement are the server's own. Raise StatementError if
    RENAME moves a table between a schema of the server and another one. Its rows are not in the
    target, or would be lost."""
    tables = logged.statement.tables
    own = [database_of(name) in SYSTEM_SCHEMAS for name in tables]
    if any(own) and not all(own) and logged.statement.renames:
        raise StatementError(
            f"{logged.statement.verb} between a schema of the server's own and another:"
            f" {logged.text}",
            table=", ".join(tables),
            hint=_HINT,
        )
    return bool(own) and all(own)


_HINT_TEMPORARY = (
    "let that session use binlog_format=ROW, or another name; to get past it leave the statement"
    " out (spark-repl skip --config F --gtid GTID), and copy the table again when the session has"
    " ended (spark-repl snapshot --config F --table DB.T)"
)


def check_temporary_name(logged: StatementEvent, tracking: Tracking) -> None:
    """Raise SettingError if a session in statement format creates a temporary table with a table's
    name. The log does not record to which of the two its later TRUNCATE and ALTER TABLE apply."""
    statement = logged.statement
    if statement.verb != TEMPORARY or tracking.live(statement.tables[0]) is None:
        return
    raise SettingError(
        "which statements are about the table from here on, and which about a temporary table of"
        f" its name, is not in the log: {logged.text}",
        table=statement.tables[0],
        hint=_HINT_TEMPORARY,
    )


_HINT_EXISTS = (
    "either filters left out the DROP of the table that the target has, or it is from elsewhere:"
    " copy it again: spark-repl snapshot --config F --table DB.T"
)


def check_not_existing(
    existing: Table, logged: StatementEvent, tracking: Tracking, copied: Container[str]
) -> None:
    """Raise SchemaError (1050) if ``existing`` is not the table that the statement creates.

    It is that table if an earlier attempt has applied the statement to it. It is also that table if
    it has the same columns and is in ``copied``: these tables were read before or after the
    statement.
    """
    cut, wanted = logged.cut, logged.statement.definition
    at = before(cut) if logged.statement.effect is Effect.CREATE_SELECT else cut
    if existing.position >= at.position or tracking.has(existing, cut):
        return
    if logged.statement.if_not_exists:
        return
    forms = tracking.options.forms
    same = wanted and same_shape(existing.definition.source, forms.apply(wanted))
    if same and existing.name in copied:
        return
    raise SchemaError(
        f"Table '{existing.name}' already exists: {logged.text}",
        table=existing.name,
        number=1050,
        hint=_HINT_EXISTS,
    )


def truncation_marks(
    definition: TargetTable, logged: StatementEvent, policy: Policy
) -> Truncated | TruncatedVersions | None:
    """Return the marks for the rows that a TRUNCATE removes on the source. Return None if the
    target removes the rows, or does not change them."""
    origin = logged.cut.group_gtids, logged.committed_us
    if definition.keeps_deleted:
        return Truncated(definition, *origin)
    if definition.has_versions and policy is not Policy.IGNORE_DROP:
        return TruncatedVersions(definition, *origin, logged.position)
    return None


def truncation_row(definition: TargetTable, logged: StatementEvent) -> pa.Table:
    """Return the row [1] of a TRUNCATE in a changelog. The source's columns are NULL."""
    values = metadata_of_truncate(
        definition, logged.cut.group_gtids, logged.committed_us, logged.position
    )
    schema = definition.arrow_schema()
    columns = [
        values[column.extra].cast(kind) if column.extra else pa.nulls(1, kind)
        for column, kind in zip(definition.columns, schema.types, strict=True)
    ]
    return pa.Table.from_arrays(columns, names=schema.names)
