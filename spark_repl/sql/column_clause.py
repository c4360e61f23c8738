"""ColumnClause: one column as CREATE TABLE and ALTER TABLE write it, with name, type and
attributes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..errors import StatementError
from . import column_type, foreign_keys
from .default_clause import Default, read_default, words
from .partition_clause import at_partitioning
from .table_options import SETS, comment_of, merged

if TYPE_CHECKING:
    from ..tables.table_keys import ForeignKey
    from .sql_tokens import Cursor

_CHARSETS = {"ASCII": "latin1", "UNICODE": "ucs2", "BYTE": "binary"}
_SERIAL: dict[str, Any] = {"nullable": False, "auto_increment": True, "unique": True}


@dataclass(frozen=True, slots=True)
class ColumnClause:
    """A column as a statement writes it. ``nullable``: None if neither NULL nor NOT NULL is
    written. ``binary``: the attribute of a character column. ``charset``: a character set or
    collation, '' for the table's. ``generated``: as in ``Column.generated``."""

    name: str
    type: column_type.SqlType
    nullable: bool | None = None
    charset: str = ""
    visible: bool = True
    default: Default | None = None
    on_update: bool = False
    generated: str = ""
    binary: bool = False
    auto_increment: bool = False
    primary: bool = False
    unique: bool = False
    references: tuple[ForeignKey, ...] = ()
    comment: str = ""


def read_column(cursor: Cursor, table: str, name: str = "") -> ColumnClause:
    """Parse ``name type attributes`` up to a comma, FIRST or AFTER. If ``name`` is given, parse
    only what follows a name. Raise StatementError for text that is not understood."""
    name = name or cursor.column()
    kind = column_type.read(cursor)
    column = ColumnClause(name, kind, charset=kind.charset)
    if kind.serial:
        column = replace(column, **_SERIAL)
    while not _at_end(cursor):
        column = _attribute(cursor, column, table)
    return column


def _at_end(cursor: Cursor) -> bool:
    return (
        cursor.at_end()
        or cursor.at_symbol(",")
        or cursor.at_symbol(";")
        or cursor.at("FIRST", "AFTER")
        or at_partitioning(cursor)
    )


def _attribute(cursor: Cursor, column: ColumnClause, table: str) -> ColumnClause:
    if cursor.phrase("NOT NULL"):
        return replace(column, nullable=False)
    if cursor.word("AUTO_INCREMENT"):
        return replace(column, auto_increment=True)
    if cursor.word("NULL"):
        return replace(column, nullable=True)
    if cursor.word("DEFAULT"):
        return replace(column, default=read_default(cursor))
    if cursor.phrase("SERIAL DEFAULT VALUE"):
        return replace(column, **_SERIAL)
    if cursor.phrase("ON UPDATE"):
        read_default(cursor)
        return replace(column, on_update=True)
    if cursor.at("REFERENCES"):
        key = foreign_keys.inline(foreign_keys.references(cursor, table), column.name)
        return replace(column, references=(*column.references, key))
    if cursor.word("COMMENT"):
        cursor.symbol("=")
        return replace(column, comment=comment_of(cursor.string()))
    if cursor.word("UNIQUE"):
        cursor.word("KEY")
        return replace(column, unique=True)
    if cursor.phrase("PRIMARY KEY") or cursor.word("KEY"):
        return replace(column, primary=True)
    if word := cursor.word("VISIBLE", "INVISIBLE"):
        return replace(column, visible=word == "VISIBLE")
    if cursor.word("AS"):
        return replace(column, generated=_generated(cursor))
    if cursor.word("BINARY"):
        # BINARY means the _bin collation of the character set here: the column is still text.
        return replace(column, binary=True)
    if (charset := _character_set(cursor, column.charset)) is not None:
        return replace(column, charset=charset)
    if not _other(cursor):
        raise StatementError(f"column {column.name} is not understood from {cursor.rest()}")
    return column


def _generated(cursor: Cursor) -> str:
    expression = words(cursor.parentheses())
    stored = cursor.word("VIRTUAL", "STORED", "PERSISTENT") in ("STORED", "PERSISTENT")
    return f"({expression}) {'STORED' if stored else 'VIRTUAL'}"


def _character_set(cursor: Cursor, before: str) -> str | None:
    if any(cursor.phrase(text) for text in SETS[:-1]):
        cursor.symbol("=")
        return merged(before, ("CHARSET", cursor.next().text))
    if cursor.word("COLLATE"):
        cursor.symbol("=")
        return merged(before, ("COLLATE", cursor.next().text))
    if word := cursor.word(*_CHARSETS):
        return _CHARSETS[word]
    return None


def _other(cursor: Cursor) -> bool:
    """Consume the next attribute if it has no meaning for the target."""
    if cursor.phrase("NOT SECONDARY") or cursor.phrase("GENERATED ALWAYS"):
        return True
    if cursor.word("ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE"):
        cursor.symbol("=")
        cursor.string()
    elif cursor.word("COLUMN_FORMAT", "STORAGE", "SRID"):
        cursor.next()
    elif cursor.word("CONSTRAINT"):
        if not cursor.at("CHECK"):
            cursor.name()
    elif cursor.word("CHECK"):
        cursor.parentheses()  # a NOT NULL after it is the column's
        _ = cursor.phrase("NOT ENFORCED") or cursor.word("ENFORCED")
    else:
        return False
    return True
