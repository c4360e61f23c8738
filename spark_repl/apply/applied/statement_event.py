"""StatementEvent: one statement of the log, how it is read, which tables it changes, its result."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...errors import StatementError
from ...gtid import GtidSet
from ...position import OFFSET_BITS, OFFSET_MASK
from ...relay.logged_query import read_statement
from ...relay.record import Flag, Kind
from ...relay.source_places import SourcePlace
from ...relay.split_transactions import is_split, pieces_of
from ...sql.redaction import redact_literals, redact_secrets
from ...sql.statement import UNKNOWN_TABLE, Effect

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...binlog.events.event import FormatDescription, Query
    from ...control.table.cut import Cut
    from ...relay.log import RelayLog
    from ...rules.rewrites import Rewrites
    from ...sql.ddl_outcome import DdlOutcome
    from ...sql.session import Session
    from ...sql.statement import Statement

_TEXT_MAX = 200


@dataclass(frozen=True)
class StatementEvent:
    """One statement of the log, and its context.

    ``cut``: the cut after the statement. ``source``, ``session``: the server and the session that
    ran it. ``committed_us``: when it was committed, microseconds UTC. ``position``: the packed
    position where it begins in the relay log. ``literals``: whether messages may show the literals
    of its text.
    """

    statement: Statement
    query: Query
    cut: Cut
    source: FormatDescription
    session: Session
    committed_us: int = 0
    position: int = 0
    literals: bool = True

    @property
    def text(self) -> str:
        return shown(self.query, self.session, literals=self.literals)

    @property
    def name(self) -> str:
        """Return the statement's identity: its GTID, else its end on the source. If the log does
        not record that end, return its end in the log."""
        place = SourcePlace.of(self.cut.source)
        return self.cut.group_gtids or str(place or self.cut.position)


@dataclass(frozen=True)
class StatementResult:
    """What the applier did with a statement. ``names``: the tables that it concerns."""

    way: DdlOutcome
    text: str
    names: tuple[str, ...] = ()

    @property
    def tables(self) -> str:
        return ", ".join(self.names)


def shown(query: Query, session: Session, *, literals: bool) -> str:
    """Return a statement's text in one line, for messages. ``literals``: whether the text of a
    statement about tables may show its literals (secrets are always hidden)."""
    show = redact_secrets if literals else redact_literals
    text = show(query.text, session.sql_mode)
    flat = " ".join(text.split())
    return flat if len(flat) <= _TEXT_MAX else flat[:_TEXT_MAX] + "..."


def before(cut: Cut) -> Cut:
    """Return the cut within the transaction, before the part that is not applied yet."""
    executed = GtidSet.parse(cut.gtid_executed).subtract(GtidSet.parse(cut.group_gtids))
    return replace(
        cut,
        position=cut.position - 1,
        gtid_executed=str(executed),
        group_gtids="",
        source=cut.begin,
    )


# Before these statements no table has the name.
_CREATES = (Effect.CREATE_TABLE, Effect.CREATE_LIKE, Effect.CREATE_SELECT)


def read_query(record: Any, relay: RelayLog, base: int) -> Query:
    """Return the Query event of an index record that has one. Raise LogError if it can't be
    read."""
    file = relay.file((int(record["position"]) >> OFFSET_BITS) - base)
    checksum = bool(int(record["flags"]) & Flag.CHECKSUM)
    if is_split(record):
        start = b"CREATE" if record["kind"] == Kind.DDL_ROWS else b""
        return read_statement(pieces_of(relay, record, base), 0, checksum=checksum, start=start)
    if record["kind"] == Kind.DDL_ROWS:  # the event is among its rows, perhaps compressed with them
        offset = int(record["position"]) & OFFSET_MASK
        return read_statement(file.path, offset, checksum=checksum, start=b"CREATE")
    return read_statement(file.path, int(record["query_offset"]), checksum=checksum)


def check_dropped(logged: StatementEvent) -> None:
    """Raise StatementError for a DROP TABLE of several tables that failed after it dropped some of
    them. Servers before 8.0 can do this if a foreign key refers to a table (1217)."""
    query, statement = logged.query, logged.statement
    failed = query.error not in (0, UNKNOWN_TABLE)
    if failed and statement.effect == Effect.DROP_TABLE:
        raise StatementError(
            f"which tables were dropped before DROP TABLE failed on the source ({query.error}) is"
            f" not in the log: {logged.text}",
            table=", ".join(statement.tables),
            hint="leave it out: spark-repl skip --config F --gtid GTID; then copy each table that"
            " the source still has: spark-repl snapshot --config F --table DB.T; and remove the"
            " others: DROP TABLE IF EXISTS on the source",
        )


def concerned(statement: Statement, tables: Iterable[str], rewrites: Rewrites) -> list[str]:
    """Return the tables that existed before the statement and that it changes in any way.
    ``tables``: all tables of the target. ``rewrites``: maps the source's names to the target's."""
    if statement.effect == Effect.DROP_DATABASE:
        return rewrites.in_database(statement.database, tables)
    plain = statement.effect == Effect.NO_EFFECT and not statement.alteration
    return [] if plain or statement.effect in _CREATES else list(statement.tables)
