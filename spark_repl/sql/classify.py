"""Classify a logged statement: what it does to tables, or why that is not known.

If a statement cannot be read as a whole, ``named_table`` returns the one table that it changes. The
applier can then copy the table, or leave the statement out by the table's name.

``apply.statements`` calls it for each logged statement, and ``alter.schema_history`` for
``read_changes``. It knows neither the target nor its rules. Raises StatementError with the reason.
Design: docs/design/ddl-parsing.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..binlog.charsets.charset import name_of
from ..errors import SparkReplError, StatementError
from .actions import AddKey, Alteration, ChangePartitions, DropIndex, RenameTable, UnloggedRows
from .alter_table import read_alteration
from .create_table import definition
from .keys import index
from .session import Session
from .sql_tokens import Cursor, Token, tokens
from .statement import ROW_CHANGES, TEMPORARY, Effect, Statement
from .string_literals import as_read
from .table_options import merged, option

if TYPE_CHECKING:
    from .sql_tokens import Cursor

__all__ = ("Effect", "Statement", "classify", "classify_in")

# Objects without rows of CREATE, ALTER and DROP, by the words that identify them.
_NO_ROWS = (
    "VIEW", "TRIGGER", "PROCEDURE", "FUNCTION", "EVENT", "USER", "ROLE", "SERVER", "TABLESPACE",
    "UNDO TABLESPACE", "LOGFILE GROUP", "RESOURCE GROUP", "SPATIAL REFERENCE SYSTEM",
    "AGGREGATE FUNCTION", "LIBRARY", "INSTANCE", "TEMPORARY TABLE", "TEMPORARY TABLES",
    "JSON RELATIONAL DUALITY VIEW", "JSON DUALITY VIEW", "MASKING POLICY", "PREPARE",
)  # fmt: skip
_MAINTENANCE = (
    "GRANT", "REVOKE", "SET", "ANALYZE", "OPTIMIZE", "REPAIR", "FLUSH", "CHECK", "CHECKSUM",
    "INSTALL", "UNINSTALL", "USE", "CACHE", "RESET", "KILL",
)  # fmt: skip


def classify(statement: str, database: str, sql_mode: int = 0) -> Statement:
    """Return the statement's effect. ``database`` and ``sql_mode`` are the session's. Never raise:
    a statement that is not understood is UNSUPPORTED, with a reason."""
    return classify_in(statement, Session(database, sql_mode))


def classify_in(statement: str, session: Session) -> Statement:
    """Return the statement's effect in a session. Its database's character set is the default of
    new tables, and explicit_defaults_for_timestamp decides what TIMESTAMP means. Never raise."""
    verb, items = "", list[Token]()
    try:
        items = as_read(tokens(statement, session.sql_mode), session)
        cursor = Cursor(items)
        first = cursor.peek()
        verb = first.text if first else ""
        result = _classify(cursor, session)
        if result.effect is not Effect.UNSUPPORTED:
            _finish(cursor, result)
        return result
    except SparkReplError as error:
        tables = named_table(Cursor(items), session.database)
        return Statement(verb, Effect.UNSUPPORTED, tables, reason=error.message)


def _finish(cursor: Cursor, statement: Statement) -> None:
    """Raise StatementError if words follow a statement that has been read to its end: a second
    statement would go unnoticed."""
    cursor.symbol(";")
    if not cursor.at_end() and (statement.tables or statement.effect is Effect.DROP_DATABASE):
        raise StatementError(f"{statement.verb} is not understood from {cursor.rest()}")


def _classify(cursor: Cursor, session: Session) -> Statement:
    database = session.database
    if cursor.word("CREATE"):
        return _create(cursor, session)
    if cursor.word("ALTER"):
        return _alter(cursor, session)
    if cursor.word("DROP"):
        return _drop(cursor, database)
    if cursor.word("RENAME"):
        return _rename(cursor, database)
    if cursor.word("TRUNCATE"):
        cursor.word("TABLE")
        return _truncate(cursor.table(database))
    if verb := cursor.word(*_MAINTENANCE):
        return Statement(verb, Effect.NO_EFFECT)
    if cursor.phrase("DELETE FROM"):
        # Outside of a transaction: a server before 8.0 has lost a MEMORY table by its restart.
        table = cursor.table(database)
        if cursor.at_end() or cursor.at_symbol(";"):
            return _truncate(table)
        return _row_change("DELETE")
    if verb := cursor.word(*ROW_CHANGES):
        return _row_change(verb)
    return _unsupported("", f"the statement is not understood from {cursor.rest()}")


def _unsupported(verb: str, reason: str, *tables: str) -> Statement:
    return Statement(verb, Effect.UNSUPPORTED, tables, reason=f"{verb} {reason}".strip())


def _row_change(verb: str) -> Statement:
    return _unsupported(verb, "changes rows as a statement: the source needs binlog_format=ROW")


def _truncate(table: str) -> Statement:
    reason = "TRUNCATE TABLE empties a table"
    return Statement("TRUNCATE TABLE", Effect.TRUNCATE_TABLE, (table,), reason=reason)


def _no_rows(cursor: Cursor, verb: str) -> Statement | None:
    for kind in _NO_ROWS:
        if cursor.phrase(kind):
            return Statement(f"{verb} {kind}", Effect.NO_EFFECT)
    return None


def _skip_definer(cursor: Cursor) -> None:
    """Skip ``ALGORITHM = x DEFINER = u@h SQL SECURITY x`` before VIEW, TRIGGER, PROCEDURE and
    others."""
    while True:
        if cursor.word("ALGORITHM"):
            cursor.expect("=")
            cursor.next()
        elif cursor.word("DEFINER"):
            cursor.expect("=")
            cursor.next()
            if cursor.at_symbol("("):
                cursor.parentheses()
            elif cursor.symbol("@"):
                cursor.next()
        elif cursor.phrase("SQL SECURITY"):
            cursor.next()
        else:
            return


def _create(cursor: Cursor, session: Session) -> Statement:
    database = session.database
    replaces = cursor.phrase("OR REPLACE")
    _skip_definer(cursor)
    if cursor.phrase("TEMPORARY TABLE"):
        cursor.phrase("IF NOT EXISTS")
        table = cursor.table(database)
        _to_end(cursor)
        return Statement(TEMPORARY, Effect.NO_EFFECT, (table,))
    if without_rows := _no_rows(cursor, "CREATE"):
        return without_rows
    if cursor.word("DATABASE", "SCHEMA"):
        if_not_exists = cursor.phrase("IF NOT EXISTS")
        name = cursor.name()
        return Statement(
            "CREATE DATABASE",
            Effect.NO_EFFECT,
            database=name,
            if_not_exists=if_not_exists,
            database_charset=_database_charset(cursor, session) or _of_server(session),
        )
    cursor.word("ONLINE", "OFFLINE")
    kind = cursor.word("UNIQUE", "FULLTEXT", "SPATIAL")
    if cursor.word("INDEX"):
        cursor.phrase("IF NOT EXISTS")
        name = cursor.name()
        if cursor.word("USING", "TYPE"):
            cursor.next()
        cursor.expect("ON")
        table = cursor.table(database)
        key = index(cursor, kind or "INDEX", name)
        _to_end(cursor)
        return _altering("CREATE INDEX", Alteration(table, (AddKey(key),)))
    if cursor.word("TABLE"):
        if replaces:
            return _unsupported("CREATE TABLE", "replaces a table", cursor.table(database))
        return _create_table(cursor, session)
    return _unsupported("CREATE", f"is not understood from {cursor.rest()}")


def _database_charset(cursor: Cursor, session: Session) -> str:
    """Return the character set or collation of CREATE or ALTER DATABASE; '' for none."""
    charset = ""
    while not (cursor.at_end() or cursor.at_symbol(";")):
        if cursor.at("DEFAULT", "CHARACTER", "CHARSET", "CHAR", "COLLATE"):
            cursor.word("DEFAULT")
            if cursor.at("CHARACTER", "CHARSET", "CHAR", "COLLATE"):
                charset = merged(charset, option(cursor) or ("", ""))
                continue
        cursor.next()
    return _of_server(session) if charset == "default" else charset


def _of_server(session: Session) -> str:
    return name_of(session.server_collation) if session.server_collation else ""


def _to_end(cursor: Cursor) -> None:
    while not (cursor.at_end() or cursor.at_symbol(";")):
        cursor.next()


def _create_table(cursor: Cursor, session: Session) -> Statement:
    if_not_exists = cursor.phrase("IF NOT EXISTS")
    table = cursor.table(session.database)
    reading = definition(cursor, table, session)
    effect = Effect.CREATE_LIKE if reading.like else Effect.CREATE_TABLE
    if reading.query or reading.rows_follow:
        effect = Effect.CREATE_SELECT
        _to_end(cursor)
    return Statement(
        "CREATE TABLE",
        effect,
        (table, reading.like) if reading.like else (table,),
        if_not_exists=if_not_exists,
        definition=reading.definition,
        foreign_keys=reading.foreign_keys,
        like=reading.like,
        reason=reading.reason,
        engine=reading.engine,
    )


def _altering(verb: str, alteration: Alteration) -> Statement:
    """Return the effect of actions on a table: no effect if they change nothing that definitions
    keep."""
    actions, table = alteration.actions, alteration.table
    tables: tuple[str, ...] = (table,)
    renames: tuple[tuple[str, str], ...] = ()
    if alteration.renamed:
        tables, renames = (table, alteration.renamed), ((table, alteration.renamed),)
    if alteration.exchanged:
        tables = (*tables, alteration.exchanged)
    only_renames = all(isinstance(action, RenameTable) for action in actions)
    if renames and only_renames and alteration.comment is None:
        reason = f"{verb} renames a table"
        return Statement(verb, Effect.RENAME_TABLE, tables, renames=renames, reason=reason)
    if alteration.is_plain:
        has_work = actions or alteration.copies or alteration.comment is not None
        remaining = alteration if has_work else None
        engine = alteration.engine
        return Statement(verb, Effect.NO_EFFECT, tables, alteration=remaining, engine=engine)
    gone = [a.reason for a in actions if isinstance(a, UnloggedRows | ChangePartitions)]
    reason = "; ".join(filter(None, gone)) or f"{verb} changes the table's columns or keys"
    return Statement(
        verb, Effect.ALTER_TABLE, tables, renames=renames, alteration=alteration, reason=reason
    )


def _alter(cursor: Cursor, session: Session) -> Statement:
    database = session.database
    _skip_definer(cursor)
    if without_rows := _no_rows(cursor, "ALTER"):
        return without_rows
    if cursor.word("DATABASE", "SCHEMA"):
        options = ("DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "ENCRYPTION", "READ", "UPGRADE")
        name = database if cursor.at(*options) else cursor.name()
        if cursor.at("UPGRADE"):
            return _unsupported("ALTER DATABASE", "renames a database")
        charset = _database_charset(cursor, session)
        return Statement(
            "ALTER DATABASE", Effect.NO_EFFECT, database=name, database_charset=charset
        )
    cursor.word("ONLINE", "OFFLINE")
    ignore = cursor.word("IGNORE")
    if not cursor.word("TABLE"):
        return _unsupported("ALTER", f"is not understood from {cursor.rest()}")
    table = cursor.table(database)
    if ignore:
        reason = "removes the rows that a new key or partition has no place for"
        return _unsupported("ALTER IGNORE TABLE", reason, table)
    return _altering("ALTER TABLE", read_alteration(cursor, table, session))


def _drop(cursor: Cursor, database: str) -> Statement:
    if without_rows := _no_rows(cursor, "DROP"):
        return without_rows
    if cursor.word("DATABASE", "SCHEMA"):
        if_exists = cursor.phrase("IF EXISTS")
        name = cursor.name()
        return Statement("DROP DATABASE", Effect.DROP_DATABASE, database=name, if_exists=if_exists)
    cursor.word("ONLINE", "OFFLINE")
    if cursor.word("INDEX"):
        dropped = DropIndex(cursor.name())
        cursor.expect("ON")
        table = cursor.table(database)
        _to_end(cursor)
        return _altering("DROP INDEX", Alteration(table, (dropped,)))
    if not cursor.word("TABLE", "TABLES"):
        return _unsupported("DROP", f"is not understood from {cursor.rest()}")
    if_exists = cursor.phrase("IF EXISTS")
    names = [cursor.table(database)]
    while cursor.symbol(","):
        names.append(cursor.table(database))
    cursor.word("RESTRICT", "CASCADE")
    return Statement("DROP TABLE", Effect.DROP_TABLE, tuple(names), if_exists=if_exists)


def _rename(cursor: Cursor, database: str) -> Statement:
    if cursor.word("USER"):
        return Statement("RENAME USER", Effect.NO_EFFECT)
    if not cursor.word("TABLE", "TABLES"):
        return _unsupported("RENAME", f"is not understood from {cursor.rest()}")
    renames = []
    while True:
        old = cursor.table(database)
        cursor.expect("TO")
        renames.append((old, cursor.table(database)))
        if not cursor.symbol(","):
            break
    return Statement(
        "RENAME TABLE",
        Effect.RENAME_TABLE,
        tuple(name for pair in renames for name in pair),
        renames=tuple(renames),
        reason="RENAME TABLE renames tables",
    )


_NOT_OF_TABLES = ("COLUMN", "INDEX", "KEY")


def named_table(cursor: Cursor, database: str) -> tuple[str, ...]:
    """Return the one table that ALTER TABLE, CREATE TABLE, CREATE or DROP INDEX changes, as
    db.table. Return () if that is not certain: the statement may rename a table, or another
    statement follows."""
    try:
        name = _name(cursor, database)
    except StatementError:
        return ()
    return () if not name or _is_of_others(cursor) else (name,)


def _name(cursor: Cursor, database: str) -> str:
    verb = cursor.word("ALTER", "CREATE", "DROP")
    cursor.word("ONLINE", "OFFLINE")
    cursor.word("IGNORE", "UNIQUE", "FULLTEXT", "SPATIAL")
    if verb in ("ALTER", "CREATE") and cursor.word("TABLE"):
        cursor.phrase("IF NOT EXISTS")
        return cursor.table(database)
    if verb in ("CREATE", "DROP") and cursor.word("INDEX"):
        while not cursor.word("ON"):
            cursor.next()
        return cursor.table(database)
    return ""


def _is_of_others(cursor: Cursor) -> bool:
    """Return whether the following words may name another table that changes."""
    while not cursor.at_end():
        if cursor.word("RENAME"):
            if not cursor.at(*_NOT_OF_TABLES):
                return True
        elif cursor.phrase("EXCHANGE PARTITION"):
            return True
        elif cursor.symbol(";"):
            return not cursor.at_end()
        else:
            cursor.next()
    return False
