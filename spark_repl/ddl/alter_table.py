"""ALTER TABLE: whether all it does leaves the rows and columns as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import StatementError
from . import foreign_keys
from .defaults import read_default

if TYPE_CHECKING:
    from ..binlog.definition import ForeignKey
    from .sql_tokens import Cursor


@dataclass(frozen=True, slots=True)
class Alteration:
    """``reason`` is empty when rows and columns stay; for the others see Statement."""

    reason: str = ""
    unique: bool = False
    defaults: tuple[tuple[str, str | None], ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    dropped_constraints: tuple[str, ...] = ()


# Table options that take one value, with or without "=".
_OPTIONS = (
    "AUTO_INCREMENT", "AVG_ROW_LENGTH", "CHECKSUM", "COMMENT", "COMPRESSION", "CONNECTION",
    "DELAY_KEY_WRITE", "ENCRYPTION", "ENGINE", "ENGINE_ATTRIBUTE", "INSERT_METHOD",
    "KEY_BLOCK_SIZE", "MAX_ROWS", "MIN_ROWS", "PACK_KEYS", "PASSWORD", "ROW_FORMAT",
    "SECONDARY_ENGINE", "SECONDARY_ENGINE_ATTRIBUTE", "STATS_AUTO_RECALC", "STATS_PERSISTENT",
    "STATS_SAMPLE_PAGES", "STORAGE", "TABLESPACE", "AUTOEXTEND_SIZE", "TYPE", "ALGORITHM", "LOCK",
)  # fmt: skip
# Engines whose tables have no rows, or those of others.
_WITHOUT_ROWS = ("BLACKHOLE", "FEDERATED", "MERGE", "MRG_MYISAM", "EXAMPLE")
_SETS = ("CHARACTER SET", "CHARSET", "CHAR SET", "COLLATE")
# Rows move between partitions, none goes: one that has no place is an error of the statement.
_PARTITIONS = (
    "ADD PARTITION", "REORGANIZE PARTITION", "COALESCE PARTITION", "REBUILD PARTITION",
    "ANALYZE PARTITION", "CHECK PARTITION", "OPTIMIZE PARTITION", "REPAIR PARTITION",
    "PARTITION BY",
)  # fmt: skip
_FREE = (
    "ENABLE KEYS", "DISABLE KEYS", "FORCE", "WITH VALIDATION", "WITHOUT VALIDATION",
    "SECONDARY_LOAD", "SECONDARY_UNLOAD", "REMOVE PARTITIONING",
)  # fmt: skip


def option(cursor: Cursor) -> tuple[str, str] | None:
    """Takes one table option: (its name, its value as text), or None if none comes next."""
    if cursor.phrase("DATA DIRECTORY") or cursor.phrase("INDEX DIRECTORY"):
        cursor.mark("=")
        return "DIRECTORY", cursor.string()
    default = cursor.word("DEFAULT")
    for name in _SETS:
        if cursor.phrase(name):
            cursor.mark("=")
            return ("COLLATE" if name == "COLLATE" else "CHARSET"), cursor.next().text
    if default:
        raise StatementError(f"DEFAULT {cursor.rest()} is not understood")
    if not (name := cursor.word(*_OPTIONS)):
        return None
    cursor.mark("=")
    cursor.mark("-")
    return name, cursor.next().text


def alteration(cursor: Cursor, table: str) -> Alteration:
    """Reads the actions behind ``ALTER TABLE table`` up to the first that changes anything."""
    whole = Alteration()
    while not cursor.done() and not cursor.at_mark(";"):
        action = _action(cursor, table)
        if action.reason:
            return action
        whole = Alteration(
            unique=whole.unique or action.unique,
            defaults=whole.defaults + action.defaults,
            foreign_keys=whole.foreign_keys + action.foreign_keys,
            dropped_constraints=whole.dropped_constraints + action.dropped_constraints,
        )
        cursor.mark(",")
    return whole


def _action(cursor: Cursor, table: str) -> Alteration:
    # COMMENT and the like are also names of columns, but only behind ADD, DROP, ALTER, RENAME.
    start = cursor.rest()
    if any(cursor.phrase(text) for text in _FREE):
        return Alteration()
    if any(cursor.phrase(text) for text in _PARTITIONS) or cursor.phrase("ORDER BY"):
        while not (cursor.done() or cursor.at_mark(";")):
            cursor.next()
        return Alteration()
    if cursor.word("ADD"):
        return _add(cursor, start, table)
    if verb := cursor.word("DROP", "RENAME", "ALTER"):
        return {"DROP": _drop, "RENAME": _rename, "ALTER": _alter_column}[verb](cursor, start)
    if setting := option(cursor):
        if setting[0] in ("ENGINE", "TYPE") and setting[1].upper() in _WITHOUT_ROWS:
            return Alteration(f"{start} leaves the table without its rows")
        return Alteration()
    return Alteration(f"{start} changes the table or is not understood")


def _refused(start: str) -> Alteration:
    return Alteration(f"{start} changes the table's columns, key or rows")


def _add(cursor: Cursor, start: str, table: str) -> Alteration:
    name = foreign_keys.constraint_name(cursor)
    if cursor.word("FOREIGN"):
        return Alteration(foreign_keys=(foreign_keys.foreign_key(cursor, table, name),))
    kind = cursor.word("INDEX", "KEY", "FULLTEXT", "SPATIAL", "UNIQUE", "CHECK")
    if not kind:
        return _refused(start)
    _to_comma(cursor)
    return Alteration(unique=kind == "UNIQUE")


def _to_comma(cursor: Cursor) -> None:
    """Skips the rest of one action; a comma within parentheses doesn't end it."""
    while not (cursor.done() or cursor.at_mark(",") or cursor.at_mark(";")):
        if cursor.at_mark("("):
            cursor.parentheses()
        else:
            cursor.next()


def _drop(cursor: Cursor, start: str) -> Alteration:
    if cursor.phrase("FOREIGN KEY") or cursor.word("CHECK"):
        return Alteration(dropped_constraints=(cursor.name(),))
    kind = cursor.word("INDEX", "KEY", "CONSTRAINT")
    if not kind or (name := cursor.name()).upper() == "PRIMARY":
        return _refused(start)
    # An index may be called as a foreign key is, and that one stays.
    dropped = (name,) if kind == "CONSTRAINT" else ()
    return Alteration(unique=True, dropped_constraints=dropped)


def _rename(cursor: Cursor, start: str) -> Alteration:
    if not cursor.word("INDEX", "KEY"):
        return _refused(start)
    cursor.name()
    cursor.expect("TO")
    cursor.name()
    return Alteration()


def _alter_column(cursor: Cursor, start: str) -> Alteration:
    if cursor.word("INDEX", "CHECK", "CONSTRAINT"):
        cursor.name()
        cursor.word("NOT")
        if not cursor.word("VISIBLE", "INVISIBLE", "ENFORCED"):
            return _refused(start)
        return Alteration()
    cursor.word("COLUMN")
    name = cursor.name()
    if cursor.phrase("DROP DEFAULT"):
        return Alteration(defaults=((name, None),))
    if cursor.phrase("SET DEFAULT"):
        return Alteration(defaults=((name, read_default(cursor)),))
    return _refused(start)
