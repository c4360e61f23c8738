"""Statements: what is done with a transaction that is one logged statement, or unknown.

A statement is applied alone: everything before it has landed, nothing behind it has been read.
What it changes of names (CREATE, DROP, RENAME) is shown by the next cut and recorded by it alone;
what it changes of a table that is there is one commit of that table (``write.table_changes``).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..ddl.alteration import Altered, Kept
from ..ddl.altered import alter
from ..ddl.effect import classify_in
from ..ddl.foreign_keys import named
from ..ddl.referring import with_parent, with_referenced
from ..ddl.renamed import like
from ..ddl.session import Session
from ..ddl.statement import Effect, Statement
from ..decode.staged import same_shape
from ..errors import SchemaError, StatementError
from ..gtid import GtidSet
from ..position import OFFSET_BITS, OFFSET_MASK
from ..relay.record import Flag, Kind
from ..relay.statement import read_statement
from ..write.altered_rows import without_zero_dates
from ..write.table_changes import UNKNOWN_ROWS
from ..write.tracking import Tracking, user_metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..binlog.definition import ForeignKey, TableDefinition
    from ..binlog.events.event import Query
    from ..control.copies import CatchUp
    from ..control.cut import Cut
    from ..ddl.actions import Alteration
    from ..relay.log import RelayLog
    from ..write.table import Table
    from ..write.table_changes import TableChanges
    from .applied_log import AppliedLog

    ForeignKeys = tuple[ForeignKey, ...]

log = logging.getLogger(__name__)

_TEXT_MAX = 200
_UNKNOWN_TABLE = 1051
_WHY = {
    Kind.STATEMENT: "the transaction changes rows by statements (binlog_format is not ROW)",
    Kind.INCIDENT: "the incident LOST_EVENTS occurred on the source",
}
_HINT = "copy the tables anew behind this transaction, into an empty target"
_CATCHING_UP = "wait with it until the copy is shown, or copy the table again behind this statement"


@dataclass(frozen=True)
class _Logged:
    """A statement with what surrounds it. ``cut``: what a cut behind it says; ``inline_keys``:
    whether the source makes foreign keys of REFERENCES among a column's attributes."""

    statement: Statement
    query: Query
    cut: Cut
    inline_keys: bool

    @property
    def text(self) -> str:
        flat = " ".join(self.query.text.split())
        return flat if len(flat) <= _TEXT_MAX else flat[:_TEXT_MAX] + "..."

    @property
    def name(self) -> str:
        """What tells the statement from others: its GTID, or where it ends."""
        return self.cut.group or str(self.cut.position)


class Statements:
    """Applies one statement after the other."""

    def __init__(
        self, tracking: Tracking, applied: AppliedLog, changes: TableChanges, catch_up: CatchUp
    ) -> None:
        self._tracking, self._log, self._changes = tracking, applied, changes
        self._catch_up = catch_up
        self._forms = tracking.options.forms

    def apply(self, record: Any, cut: Cut) -> None:
        """Carries out the one statement of an index record; ``cut`` is behind it. Of CREATE TABLE
        ... SELECT it makes the table, without the rows that the record has, too. Raises
        StatementError for what can't be applied, before anything of it is done."""
        kind, relay, base = Kind(int(record["kind"])), self._log.relay, self._log.base
        if kind in _WHY:
            number = 13119 if kind == Kind.INCIDENT else 0
            raise StatementError(_WHY[kind], hint=_HINT, number=number)
        query = _read(record, relay, base)
        statement = classify_in(query.text, Session.of(query))
        if query.error and not (
            query.error == _UNKNOWN_TABLE and statement.effect == Effect.DROP_TABLE
        ):
            log.warning("a statement that failed on the source (%d) is passed over", query.error)
            return
        statement = self._tracking.names.statement(statement, self._tracking.tables)
        source = relay.head((int(record["position"]) >> OFFSET_BITS) - base).source
        logged = _Logged(statement, query, cut, source.has_inline_keys)
        self._check_copied(logged)
        self._carry_out(logged)

    def _carry_out(self, logged: _Logged) -> None:
        match logged.statement.effect:
            case Effect.NO_EFFECT if not logged.statement.alteration:
                return
            case Effect.CREATE_TABLE | Effect.CREATE_SELECT:
                self._create(logged)
            case Effect.CREATE_LIKE:
                self._create_like(logged)
            case Effect.DROP_TABLE:
                self._tracking.drop(logged.statement.tables, logged.cut.position)
            case Effect.DROP_DATABASE:
                database = logged.statement.database
                tables = self._tracking.foreign_keys()
                names = [name for name in tables if name.startswith(f"{database}.")]
                self._tracking.drop(names, logged.cut.position)
            case Effect.TRUNCATE_TABLE:
                if table := self._tracking.tables.get(logged.statement.tables[0]):
                    self._changes.truncate(table, logged.cut)
            case Effect.RENAME_TABLE:
                for before, after in logged.statement.renames:
                    self._rename(before, after, logged.cut)
            case Effect.ALTER_TABLE | Effect.NO_EFFECT:
                self._alter(logged)
            case _:
                raise self._refused(logged)

    def _check_copied(self, logged: _Logged) -> None:
        """Raises StatementError for what changes a table that is catching up with its copy: it was
        read before the statement or behind it, nobody knows which."""
        if logged.statement.effect in (Effect.NO_EFFECT, Effect.CREATE_TABLE):
            return
        executed = GtidSet.parse(logged.cut.gtid_executed)
        names = self._concerned(logged.statement)
        if copied := [name for name in names if name in self._catch_up.copies(executed)]:
            raise StatementError(
                f"{logged.statement.verb} while the table's copy catches up: {logged.text}",
                table=", ".join(copied),
                hint=_CATCHING_UP,
            )

    def _concerned(self, statement: Statement) -> Iterable[str]:
        if statement.effect == Effect.DROP_DATABASE:
            prefix = f"{statement.database}."
            return [name for name in self._tracking.tables if name.startswith(prefix)]
        return statement.tables

    def _refused(self, logged: _Logged) -> StatementError:
        statement = logged.statement
        return StatementError(
            f"{statement.verb} can't be applied ({statement.reason}): {logged.text}",
            table=", ".join(statement.tables) or None,
            hint=_HINT,
        )

    def _create(self, logged: _Logged) -> None:
        statement, cut = logged.statement, logged.cut
        if statement.if_not_exists and logged.query.made_nothing:
            return
        name, wanted, keys = statement.tables[0], statement.definition, statement.foreign_keys
        if keys:
            made = [key for key in keys if logged.inline_keys or not key.inline]
            keys = named(made, name)
            wanted = wanted and replace(wanted, foreign_keys=keys)
        known = self._tracking.tables.get(name)
        if known is not None:
            self._check_same(known, logged)
        elif wanted is None:
            log.warning("%s is made from its first TABLE_MAP: %s", name, statement.reason)
            if keys is not None:
                self._tracking.definitions.expect_keys(name, keys, cut.position)
        else:
            if statement.effect == Effect.CREATE_SELECT:  # its rows come behind it
                cut = _before(cut)
            self._tracking.create(
                wanted,
                complete=True,
                position=cut.position,
                user_metadata=user_metadata(cut, self._tracking.control.channel),
                made_by=logged.name,
            )

    def _check_same(self, known: Table, logged: _Logged) -> None:
        """Raises SchemaError where a table is there that is not the one of the statement."""
        wanted = logged.statement.definition
        if known.position >= logged.cut.position or logged.statement.if_not_exists:
            return
        if wanted is None or not same_shape(known.definition, self._forms.apply(wanted)):
            raise SchemaError(
                f"Table '{known.name}' already exists: {logged.text}",
                table=known.name,
                number=1050,
                hint="the log creates a table that the target has from elsewhere: use an empty"
                " target",
            )

    def _create_like(self, logged: _Logged) -> None:
        statement = logged.statement
        model = self._tracking.tables.get(statement.like)
        if model is None:
            made = replace(statement, reason=f"{statement.like} is not known either")
        else:
            made = replace(statement, definition=like(model.definition_in_log, statement.tables[0]))
        self._create(replace(logged, statement=made))

    def _alter(self, logged: _Logged) -> None:
        name, cut = logged.statement.tables[0], logged.cut
        table, alteration = self._tracking.tables.get(name), logged.statement.alteration
        assert alteration is not None
        if table is not None:
            self._check_exchanged(alteration)
            before, session = table.definition_in_log, Session.of(logged.query)
            made = alter(before, alteration, session, inline_keys=logged.inline_keys)
            made = replace(made, definition=self._forms.apply(made.definition))
            if self._forms.zero_dates == "null":
                made = without_zero_dates(made)
            if _only_defines(before, made):
                self._tracking.define(table, made.definition, cut)
            elif self._tracking.has(table, cut):
                table.logged = made.definition
            else:
                way = self._changes.alter(table, made, session, cut)
                log.info("%s: %s: %s", name, way, logged.text)
            self._follow_columns(before, made, cut)
        if alteration.renamed:
            self._rename(name, alteration.renamed, cut)

    def _check_exchanged(self, alteration: Alteration) -> None:
        """Raises StatementError where EXCHANGE PARTITION brings rows of another table."""
        other = self._tracking.tables.get(alteration.exchanged)
        if other is not None and not self._changes.is_empty(other):
            raise StatementError(
                f"which rows are exchanged with {other.name} is not in the log",
                table=alteration.table,
                hint=UNKNOWN_ROWS,
            )

    def _rename(self, before: str, after: str, cut: Cut) -> None:
        self._tracking.rename(before, after, cut.position)
        self._follow(lambda keys: with_parent(keys, before, after), cut)

    def _follow_columns(self, before: TableDefinition, made: Altered, cut: Cut) -> None:
        """Foreign keys that refer to columns which have other names now."""
        names = {
            before.columns[origin.number].name: column.name
            for origin, column in zip(made.origins, made.definition.columns, strict=True)
            if isinstance(origin, Kept) and before.columns[origin.number].name != column.name
        }
        if names:
            self._follow(lambda keys: with_referenced(keys, before.name, names), cut)

    def _follow(self, change: Callable[[ForeignKeys], ForeignKeys], cut: Cut) -> None:
        tracking = self._tracking
        for table in list(tracking.tables.values()):
            definition = table.definition_in_log
            keys = definition.foreign_keys
            if keys and (changed := change(keys)) != keys:
                tracking.define(table, replace(definition, foreign_keys=changed), cut)
        for name, keys in tracking.definitions.expected_keys().items():
            if (changed := change(keys)) != keys:
                tracking.definitions.expect_keys(name, changed, cut.position)


def _before(cut: Cut) -> Cut:
    """The cut within the transaction, before what is left of it."""
    executed = GtidSet.parse(cut.gtid_executed).subtract(GtidSet.parse(cut.group))
    return replace(cut, position=cut.position - 1, gtid_executed=str(executed), group="")


def _only_defines(before: TableDefinition, made: Altered) -> bool:
    """Whether no column changes, so that the Delta table stays as it is."""
    after, numbers = made.definition, list(range(len(before.columns)))
    return (
        not made.rows_go
        and [o.number if isinstance(o, Kept) and not o.written else None for o in made.origins]
        == numbers
        and all(
            replace(a, visible=True) == replace(b, visible=True)
            for a, b in zip(before.columns, after.columns, strict=True)
        )
    )


def _read(record: Any, relay: RelayLog, base: int) -> Query:
    """The Query event of a record that has one."""
    file = relay.file((int(record["position"]) >> OFFSET_BITS) - base)
    checksum = bool(int(record["flags"]) & Flag.CHECKSUM)
    if record["kind"] == Kind.DDL_ROWS:  # among its rows, perhaps compressed with them
        offset = int(record["position"]) & OFFSET_MASK
        return read_statement(file.path, offset, checksum=checksum, start=b"CREATE")
    return read_statement(file.path, int(record["query_offset"]), checksum=checksum)
