"""Statements: what is done with a transaction that is one logged statement, or unknown."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..ddl.effect import Effect, Statement, classify
from ..ddl.foreign_keys import altered, named
from ..decode.staged import same_shape
from ..errors import SchemaError, StatementError
from ..position import OFFSET_BITS
from ..relay.record import Flag, Kind
from ..relay.statement import read_statement
from ..write.tracking import Tracking, user_metadata

if TYPE_CHECKING:
    from ..binlog.events.event import Query
    from ..control.cut import Cut
    from ..relay.log import RelayLog
    from .applied_log import AppliedLog

log = logging.getLogger(__name__)

_TEXT_MAX = 200
_WHY = {
    Kind.STATEMENT: "the transaction changes rows by statements (binlog_format is not ROW)",
    Kind.INCIDENT: "the incident LOST_EVENTS occurred on the source",
    Kind.DDL_ROWS: "CREATE TABLE ... SELECT is not supported by this version",
}
_HINT = "copy the tables anew behind this transaction, into an empty target"


class Statements:
    """Applies CREATE TABLE, lets pass what has no effect on rows, and stops at all else."""

    def __init__(self, tracking: Tracking, log: AppliedLog) -> None:
        self.tracking, self._log = tracking, log
        self._forms = tracking.options.forms

    def apply(self, record: Any, cut: Cut) -> None:
        """Carries out the one statement of an index record; ``cut`` is behind it. Raises
        StatementError for what this version does not apply."""
        kind, relay, base = Kind(int(record["kind"])), self._log.relay, self._log.base
        if kind != Kind.QUERY:
            number = 13119 if kind == Kind.INCIDENT else 0
            raise StatementError(_WHY[kind], hint=_HINT, number=number)
        query = _read(record, relay, base)
        text = query.text
        logged = classify(text, query.database, query.sql_mode)
        statement = self.tracking.names.statement(logged, self.tracking.tables)
        if statement.effect == Effect.CREATE_TABLE:
            if statement.if_not_exists and query.made_nothing:
                return
            self._create(_with_keys(statement, relay, record, base), text, cut)
        elif self._passes(statement):
            self._alter(statement, cut.position)
        else:
            reason = statement.reason or "it changes tables that this target has"
            raise StatementError(
                f"{statement.verb} is not supported by this version ({reason}): {_short(text)}",
                table=", ".join(statement.tables) or None,
                hint=_HINT,
            )

    def _passes(self, statement: Statement) -> bool:
        tables = self.tracking.tables
        if statement.effect == Effect.NO_EFFECT:
            return not statement.unique or all(self._keyed(name) for name in statement.tables)
        if statement.effect == Effect.DROP_TABLE:
            return not any(name in tables for name in statement.tables)
        if statement.effect == Effect.DROP_DATABASE:
            return not any(t.definition.database == statement.database for t in tables.values())
        return False

    def _alter(self, statement: Statement, position: int) -> None:
        """Takes over what ALTER TABLE changes beside columns and rows; and that a table is gone
        which no row has made yet."""
        if statement.effect in (Effect.DROP_TABLE, Effect.DROP_DATABASE):
            for name, keys in self.tracking.foreign_keys().items():
                gone = name in statement.tables or name.startswith(f"{statement.database}.")
                if keys and gone:
                    self.tracking.set_foreign_keys(name, (), position)
            return
        table = self.tracking.tables.get(statement.tables[0]) if statement.tables else None
        if table is None:
            return
        if statement.defaults:
            self.tracking.set_defaults(table.name, statement.defaults, position)
        before, added = table.definition.foreign_keys, statement.foreign_keys
        if before is not None and (added or statement.dropped_constraints):
            keys = altered(before, table.name, added or (), statement.dropped_constraints)
            self.tracking.set_foreign_keys(table.name, keys, position)

    def _keyed(self, name: str) -> bool:
        table = self.tracking.tables.get(name)
        return table is None or bool(table.definition.primary_key)

    def _create(self, statement: Statement, text: str, cut: Cut) -> None:
        name = statement.tables[0]
        known = self.tracking.tables.get(name)
        if known is not None:
            replayed = known.position >= cut.position
            if replayed or statement.if_not_exists:
                return
            wanted = statement.definition
            if wanted is None or not same_shape(known.definition, self._forms.apply(wanted)):
                raise SchemaError(
                    f"Table '{name}' already exists: {_short(text)}",
                    table=name,
                    number=1050,
                    hint="the log creates a table that the target has from elsewhere: use an empty"
                    " target",
                )
            return
        if statement.definition is None:
            log.warning("%s is made from its first TABLE_MAP: %s", name, statement.reason)
            if statement.foreign_keys is not None:
                self.tracking.set_foreign_keys(name, statement.foreign_keys, cut.position)
            return
        self.tracking.create(
            statement.definition,
            complete=True,
            position=cut.position,
            user_metadata=user_metadata(cut, self.tracking.control.channel),
        )


def _read(record: Any, relay: RelayLog, base: int) -> Query:
    """The Query event of a record that has one."""
    file = relay.file((int(record["position"]) >> OFFSET_BITS) - base)
    checksum = bool(int(record["flags"]) & Flag.CHECKSUM)
    return read_statement(file.path, int(record["query_offset"]), checksum=checksum)


def _with_keys(statement: Statement, relay: RelayLog, record: Any, base: int) -> Statement:
    """A CREATE TABLE with its foreign keys as the server of that log made them."""
    if not statement.foreign_keys:
        return statement
    source = relay.head((int(record["position"]) >> OFFSET_BITS) - base).source
    keys = [key for key in statement.foreign_keys if source.has_inline_keys or not key.inline]
    made = named(keys, statement.tables[0])
    definition = statement.definition and replace(statement.definition, foreign_keys=made)
    return replace(statement, foreign_keys=made, definition=definition)


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _TEXT_MAX else flat[:_TEXT_MAX] + "..."
