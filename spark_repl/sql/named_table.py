"""named_table: the table of a statement that is not understood as a whole.

By it a statement is left out, or its table copied: so it must be about no other table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import StatementError

if TYPE_CHECKING:
    from .sql_tokens import Cursor

_NOT_OF_TABLES = ("COLUMN", "INDEX", "KEY")


def named_table(cursor: Cursor, database: str) -> tuple[str, ...]:
    """The one table that ALTER TABLE, CREATE TABLE, CREATE or DROP INDEX changes, as db.table;
    () where that is not sure: it may rename one, or another statement follows."""
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
    """Whether what follows may name another table that changes."""
    while not cursor.done():
        if cursor.word("RENAME"):
            if not cursor.at(*_NOT_OF_TABLES):
                return True
        elif cursor.phrase("EXCHANGE PARTITION"):
            return True
        elif cursor.mark(";"):
            return not cursor.done()
        else:
            cursor.next()
    return False
