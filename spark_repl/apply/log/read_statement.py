"""Logged statements: how one is read from the log, and which tables it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import StatementError
from ...position import OFFSET_BITS, OFFSET_MASK
from ...relay.logged_query import read_statement
from ...relay.record import Flag, Kind
from ...relay.split import is_split, pieces_of
from ...sql.statement import UNKNOWN_TABLE, Effect

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...binlog.events.event import Query
    from ...relay.log import RelayLog
    from ...rules.rewrites import Rewrites
    from ...sql.statement import Statement
    from .statement_event import Logged

# A table of the name is not there before them.
_CREATES = (Effect.CREATE_TABLE, Effect.CREATE_LIKE, Effect.CREATE_SELECT)


def read_query(record: Any, relay: RelayLog, base: int) -> Query:
    """The Query event of an index record that has one. Raises LogError."""
    file = relay.file((int(record["position"]) >> OFFSET_BITS) - base)
    checksum = bool(int(record["flags"]) & Flag.CHECKSUM)
    if is_split(record):
        start = b"CREATE" if record["kind"] == Kind.DDL_ROWS else b""
        return read_statement(pieces_of(relay, record, base), 0, checksum=checksum, start=start)
    if record["kind"] == Kind.DDL_ROWS:  # among its rows, perhaps compressed with them
        offset = int(record["position"]) & OFFSET_MASK
        return read_statement(file.path, offset, checksum=checksum, start=b"CREATE")
    return read_statement(file.path, int(record["query_offset"]), checksum=checksum)


def check_dropped(logged: Logged) -> None:
    """Raises StatementError for a DROP TABLE of several tables that has failed after some of them,
    as on servers before 8.0 where a foreign key refers to one (1217)."""
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
    """The tables that were there before the statement and that it changes, in any way. ``tables``:
    all that are known, ``rewrites``: what they are called in the target."""
    if statement.effect == Effect.DROP_DATABASE:
        return rewrites.in_database(statement.database, tables)
    plain = statement.effect == Effect.NO_EFFECT and not statement.alteration
    return [] if plain or statement.effect in _CREATES else list(statement.tables)
