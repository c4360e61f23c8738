"""What a logged statement does to tables: nothing, makes one, drops some, or can't be applied."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..errors import SparkReplError, StatementError
from .alter_table import Alteration, alteration
from .create_table import SELECT, definition
from .sql_tokens import Cursor, tokens

if TYPE_CHECKING:
    from ..binlog.definition import ForeignKey, TableDefinition


class Effect(enum.Enum):
    """What applying a statement comes to."""

    NO_EFFECT = "no effect"
    CREATE_TABLE = "create table"
    DROP_TABLE = "drop table"
    DROP_DATABASE = "drop database"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement as classified.

    ``tables`` are "db.table" names; ``database`` is that of CREATE, ALTER and DROP DATABASE.
    ``definition`` is None when the table has to be created from its first TABLE_MAP, ``reason``
    says why (or why the statement is UNSUPPORTED). ``unique`` says that the statement makes or
    drops an index that a TABLE_MAP may show as primary key: that of a table without PRIMARY KEY
    (the server logs its first UNIQUE index over NOT NULL columns as one). ``defaults``: new ones
    of columns, as ``Column.default`` has them. ``foreign_keys``: those that CREATE TABLE (None:
    nobody knows) or ALTER TABLE makes.
    """

    verb: str
    effect: Effect
    tables: tuple[str, ...] = ()
    database: str = ""
    if_exists: bool = False
    if_not_exists: bool = False
    definition: TableDefinition | None = None
    unique: bool = False
    defaults: tuple[tuple[str, str | None], ...] = ()
    foreign_keys: tuple[ForeignKey, ...] | None = ()
    dropped_constraints: tuple[str, ...] = ()
    reason: str = ""

    @property
    def changes_definition(self) -> bool:
        """Whether a statement without effect on rows changes what is known of a table."""
        return bool(self.unique or self.defaults or self.foreign_keys or self.dropped_constraints)

    @property
    def changes_rows(self) -> bool:
        """Whether it was logged in place of rows: its changes are nowhere else in the log."""
        return self.verb in _ROW_CHANGES or self.reason == SELECT


# Objects of CREATE, ALTER and DROP without rows: the words they are told by.
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
_ROW_CHANGES = ("INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "CALL", "DO", "WITH", "SELECT")


def classify(statement: str, database: str, sql_mode: int = 0) -> Statement:
    """The statement's effect; ``database`` and ``sql_mode`` are the session's. Never raises.

    What isn't understood is UNSUPPORTED, with a reason.
    """
    verb = ""
    try:
        cursor = Cursor(tokens(statement, sql_mode))
        first = cursor.peek()
        verb = first.text if first else ""
        result = _classify(cursor, database)
        if result.effect is not Effect.UNSUPPORTED:
            _finish(cursor, result)
        return result
    except SparkReplError as error:
        return Statement(verb, Effect.UNSUPPORTED, reason=error.message)


def _finish(cursor: Cursor, statement: Statement) -> None:
    """The parts that are read to the end must end: a second statement would go unnoticed."""
    cursor.mark(";")
    if not cursor.done() and (statement.tables or statement.effect is Effect.DROP_DATABASE):
        raise StatementError(f"{statement.verb} is not understood from {cursor.rest()}")


def _classify(cursor: Cursor, database: str) -> Statement:
    if verb := cursor.word("CREATE", "ALTER", "DROP"):
        return {"CREATE": _create, "ALTER": _alter, "DROP": _drop}[verb](cursor, database)
    if verb := cursor.word("RENAME"):
        return _rename(cursor, database)
    if verb := cursor.word("TRUNCATE"):
        cursor.word("TABLE")
        return _unsupported("TRUNCATE TABLE", "empties a table", cursor.table(database))
    if verb := cursor.word(*_MAINTENANCE):
        return Statement(verb, Effect.NO_EFFECT)
    if verb := cursor.word(*_ROW_CHANGES):
        return _unsupported(verb, "changes rows as a statement: the source needs binlog_format=ROW")
    return _unsupported("", f"the statement is not understood from {cursor.rest()}")


def _unsupported(verb: str, reason: str, *tables: str) -> Statement:
    return Statement(verb, Effect.UNSUPPORTED, tables, reason=f"{verb} {reason}".strip())


def _no_rows(cursor: Cursor, verb: str) -> Statement | None:
    for kind in _NO_ROWS:
        if cursor.phrase(kind):
            return Statement(f"{verb} {kind}", Effect.NO_EFFECT)
    return None


def _skip_definer(cursor: Cursor) -> None:
    """Skips ``ALGORITHM = x DEFINER = u@h SQL SECURITY x`` before VIEW, TRIGGER, PROCEDURE, ..."""
    while True:
        if cursor.word("ALGORITHM"):
            cursor.expect("=")
            cursor.next()
        elif cursor.word("DEFINER"):
            cursor.expect("=")
            cursor.next()
            if cursor.at_mark("("):
                cursor.parentheses()
            elif cursor.mark("@"):
                cursor.next()
        elif cursor.phrase("SQL SECURITY"):
            cursor.next()
        else:
            return


def _create(cursor: Cursor, database: str) -> Statement:
    replaces = cursor.phrase("OR REPLACE")
    _skip_definer(cursor)
    if without_rows := _no_rows(cursor, "CREATE"):
        return without_rows
    if cursor.word("DATABASE", "SCHEMA"):
        if_not_exists = cursor.phrase("IF NOT EXISTS")
        name = cursor.name()
        return Statement(
            "CREATE DATABASE", Effect.NO_EFFECT, database=name, if_not_exists=if_not_exists
        )
    kind = cursor.word("UNIQUE", "FULLTEXT", "SPATIAL")
    if cursor.word("INDEX"):
        return _index(cursor, database, "CREATE INDEX", kind == "UNIQUE")
    if cursor.word("TABLE"):
        if replaces:
            return _unsupported("CREATE TABLE", "replaces a table", cursor.table(database))
        return _create_table(cursor, database)
    return _unsupported("CREATE", f"is not understood from {cursor.rest()}")


def _index(cursor: Cursor, database: str, verb: str, unique: bool) -> Statement:
    while not cursor.word("ON"):
        cursor.next()
    table = cursor.table(database)
    while not cursor.done() and not cursor.at_mark(";"):
        cursor.next()
    return Statement(verb, Effect.NO_EFFECT, (table,), unique=unique)


def _create_table(cursor: Cursor, database: str) -> Statement:
    if_not_exists = cursor.phrase("IF NOT EXISTS")
    table = cursor.table(database)
    created = Statement("CREATE TABLE", Effect.CREATE_TABLE, (table,), if_not_exists=if_not_exists)
    reading = definition(cursor, table)
    if reading.other_source:
        return replace(created, effect=Effect.UNSUPPORTED, reason=reading.reason)
    return replace(
        created,
        definition=reading.definition,
        reason=reading.reason,
        foreign_keys=reading.foreign_keys,
    )


def _alter(cursor: Cursor, database: str) -> Statement:
    _skip_definer(cursor)
    if without_rows := _no_rows(cursor, "ALTER"):
        return without_rows
    if cursor.word("DATABASE", "SCHEMA"):
        options = ("DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "ENCRYPTION", "READ", "UPGRADE")
        name = database if cursor.at(*options) else cursor.name()
        if cursor.at("UPGRADE"):
            return _unsupported("ALTER DATABASE", "renames a database")
        return Statement("ALTER DATABASE", Effect.NO_EFFECT, database=name)
    cursor.word("ONLINE", "OFFLINE")
    ignore = cursor.word("IGNORE")
    if not cursor.word("TABLE"):
        return _unsupported("ALTER", f"is not understood from {cursor.rest()}")
    table = cursor.table(database)
    if ignore:
        reason = "removes the rows that a new key or partition has no place for"
        return _unsupported("ALTER IGNORE TABLE", reason, table)
    change: Alteration = alteration(cursor, table)
    if change.reason:
        return _unsupported("ALTER TABLE", change.reason, table)
    return Statement(
        "ALTER TABLE",
        Effect.NO_EFFECT,
        (table,),
        unique=change.unique,
        defaults=change.defaults,
        foreign_keys=change.foreign_keys,
        dropped_constraints=change.dropped_constraints,
    )


def _drop(cursor: Cursor, database: str) -> Statement:
    if without_rows := _no_rows(cursor, "DROP"):
        return without_rows
    if cursor.word("DATABASE", "SCHEMA"):
        if_exists = cursor.phrase("IF EXISTS")
        name = cursor.name()
        return Statement("DROP DATABASE", Effect.DROP_DATABASE, database=name, if_exists=if_exists)
    cursor.word("ONLINE", "OFFLINE")
    if cursor.word("INDEX"):
        token = cursor.peek()
        if token and token.text.upper() == "PRIMARY":
            cursor.next()
            cursor.expect("ON")
            return _unsupported("DROP INDEX", "drops the primary key", cursor.table(database))
        return _index(cursor, database, "DROP INDEX", unique=True)
    if not cursor.word("TABLE", "TABLES"):
        return _unsupported("DROP", f"is not understood from {cursor.rest()}")
    if_exists = cursor.phrase("IF EXISTS")
    names = [cursor.table(database)]
    while cursor.mark(","):
        names.append(cursor.table(database))
    cursor.word("RESTRICT", "CASCADE")
    return Statement("DROP TABLE", Effect.DROP_TABLE, tuple(names), if_exists=if_exists)


def _rename(cursor: Cursor, database: str) -> Statement:
    if cursor.word("USER"):
        return Statement("RENAME USER", Effect.NO_EFFECT)
    if not cursor.word("TABLE", "TABLES"):
        return _unsupported("RENAME", f"is not understood from {cursor.rest()}")
    names = []
    while True:
        names.append(cursor.table(database))
        cursor.expect("TO")
        names.append(cursor.table(database))
        if not cursor.mark(","):
            return _unsupported("RENAME TABLE", "renames tables", *names)
