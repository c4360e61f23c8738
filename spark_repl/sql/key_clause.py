"""Keys and constraints of CREATE TABLE, ALTER TABLE and CREATE INDEX as they are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import foreign_keys
from .partition_clause import at_partitioning

if TYPE_CHECKING:
    from ..tables.table_keys import ForeignKey
    from .sql_tokens import Cursor

KINDS = ("PRIMARY", "UNIQUE", "INDEX", "KEY", "FULLTEXT", "SPATIAL", "FOREIGN", "CHECK")


@dataclass(frozen=True, slots=True)
class KeyPart:
    """``column`` is '' for an expression; ``prefix``: characters or bytes, 0 for all."""

    column: str
    prefix: int = 0


@dataclass(frozen=True, slots=True)
class KeyClause:
    """``kind``: PRIMARY, UNIQUE, INDEX, FULLTEXT, SPATIAL, FOREIGN or CHECK. ``name``: the index's,
    '' where the server gives it one; ``foreign``: the foreign key, with the constraint's name."""

    kind: str
    name: str = ""
    parts: tuple[KeyPart, ...] = ()
    foreign: ForeignKey | None = None


def at_key(cursor: Cursor) -> bool:
    """Whether a key or constraint comes next, and no column."""
    return cursor.at("CONSTRAINT", *KINDS)


def read_key(cursor: Cursor, table: str) -> KeyClause:
    """Takes a key or constraint with its options. Raises StatementError."""
    constraint = ""
    if cursor.word("CONSTRAINT") and not cursor.at(*KINDS):
        constraint = cursor.name()
    kind = cursor.word(*KINDS)
    if kind == "FOREIGN":
        key = foreign_keys.foreign_key(cursor.again(), table, constraint)
        cursor.expect("KEY")
        own = "" if cursor.at_mark("(") else cursor.name()
        skip_to_end(cursor)
        parts = tuple(KeyPart(column) for column in key.columns)
        return KeyClause("FOREIGN", constraint or own, parts, key)
    if kind == "CHECK" or not kind:
        cursor.parentheses()
        skip_to_end(cursor)
        return KeyClause("CHECK", constraint)
    if kind in ("PRIMARY", "UNIQUE", "FULLTEXT", "SPATIAL"):
        cursor.word("KEY", "INDEX")
    name = "" if cursor.at_mark("(") or cursor.at("USING") else cursor.name()
    return index(cursor, "INDEX" if kind == "KEY" else kind, name or constraint)


def index(cursor: Cursor, kind: str, name: str) -> KeyClause:
    """Reads on behind an index's name: ``[USING x] (parts) options``. Raises StatementError."""
    if cursor.word("USING", "TYPE"):
        cursor.next()
    parts = tuple(_part(part) for part in cursor.parentheses().parts())
    skip_to_end(cursor)
    return KeyClause(kind, name, parts)


def _part(cursor: Cursor) -> KeyPart:
    if cursor.at_mark("("):
        return KeyPart("")
    name = cursor.name()
    prefix = cursor.number() if cursor.mark("(") else 0
    return KeyPart(name, prefix)


def skip_to_end(cursor: Cursor) -> None:
    """Skips the rest of one element; a comma within parentheses doesn't end it, PARTITION BY and
    REMOVE PARTITIONING do."""
    while not (
        cursor.done() or cursor.at_mark(",") or cursor.at_mark(";") or at_partitioning(cursor)
    ):
        if cursor.at_mark("("):
            cursor.parentheses()
        else:
            cursor.next()
