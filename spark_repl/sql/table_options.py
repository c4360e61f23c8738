"""Read options of a table in CREATE TABLE and ALTER TABLE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import StatementError
from .sql_tokens import WORD

if TYPE_CHECKING:
    from .sql_tokens import Cursor

# Options that take one value, with or without "=".
_OPTIONS = (
    "AUTO_INCREMENT", "AVG_ROW_LENGTH", "CHECKSUM", "COMMENT", "COMPRESSION", "CONNECTION",
    "DELAY_KEY_WRITE", "ENCRYPTION", "ENGINE", "ENGINE_ATTRIBUTE", "INSERT_METHOD",
    "KEY_BLOCK_SIZE", "MAX_ROWS", "MIN_ROWS", "PACK_KEYS", "PASSWORD", "ROW_FORMAT",
    "SECONDARY_ENGINE", "SECONDARY_ENGINE_ATTRIBUTE", "STATS_AUTO_RECALC", "STATS_PERSISTENT",
    "STATS_SAMPLE_PAGES", "STORAGE", "TABLE_CHECKSUM", "TABLESPACE", "AUTOEXTEND_SIZE", "TYPE",
    "ALGORITHM", "LOCK",
)  # fmt: skip
OF_OTHERS = ("FEDERATED", "MERGE", "MRG_MYISAM")
"""engines whose tables show the rows of others"""
ROWLESS = ("BLACKHOLE", "EXAMPLE")
"""engines whose tables have no rows, whatever the log has of them"""
WITHOUT_ROWS = (*ROWLESS, *OF_OTHERS)
_INNODB = ("INNODB", "DEFAULT")
SETS = ("CHARACTER SET", "CHARSET", "CHAR SET", "COLLATE")


def other_engine(name: str) -> str:
    """Return the engine as in ``SourceTable.engine``."""
    return "" if name.upper() in _INNODB else name.upper()


def option(cursor: Cursor) -> tuple[str, str] | None:
    """Consume one table option; return (its name, its value as text), or None if none comes
    next."""
    if cursor.phrase("DATA DIRECTORY") or cursor.phrase("INDEX DIRECTORY"):
        cursor.symbol("=")
        return "DIRECTORY", cursor.string()
    default = cursor.word("DEFAULT")
    for name in SETS:
        if cursor.phrase(name):
            cursor.symbol("=")
            kind = "COLLATE" if name == "COLLATE" else "CHARSET"
            return kind, name_of_set(cursor)
    if default:
        raise StatementError(f"DEFAULT {cursor.rest()} is not understood")
    if cursor.word("UNION"):
        cursor.symbol("=")
        cursor.parentheses()
        return "UNION", ""
    if not (name := cursor.word(*_OPTIONS)):
        return None
    cursor.symbol("=")
    cursor.symbol("-")
    text = cursor.next().text
    return name, comment_of(text) if name == "COMMENT" else text


def comment_of(text: str) -> str:
    """Return a comment as text. Bytes that are no characters become U+FFFD."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def name_of_set(cursor: Cursor) -> str:
    """Consume the name of a character set or collation, which may be quoted; return it in lower
    case."""
    token = cursor.next()
    return (token.raw if token.kind == WORD else token.text).lower()


def merged(before: str, setting: tuple[str, str]) -> str:
    """Return the character set or collation after ``setting``. A collation also names its character
    set, so CHARACTER SET beside it adds nothing."""
    return setting[1] if setting[0] == "COLLATE" or not before else before
