"""ALTER TABLE -> its actions, as they are written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..errors import StatementError
from .actions import (
    Action,
    AddColumn,
    AddKey,
    Alteration,
    ChangeColumn,
    DropColumn,
    DropConstraint,
    DropIndex,
    RenameColumn,
    RenameIndex,
    RenameTable,
    RowsGo,
    SetCharset,
    SetDefault,
    SetVisible,
)  # fmt: skip
from .column_clause import read_column
from .default_clause import read_default
from .key_clause import at_key, read_key
from .table_options import SETS, WITHOUT_ROWS, name_of_set, option

if TYPE_CHECKING:
    from .sql_tokens import Cursor

# Rows move between partitions, none goes: one that has no place is an error of the statement.
_PARTITIONS = (
    "ADD PARTITION", "REORGANIZE PARTITION", "COALESCE PARTITION", "REBUILD PARTITION",
    "ANALYZE PARTITION", "CHECK PARTITION", "OPTIMIZE PARTITION", "REPAIR PARTITION",
    "PARTITION BY", "SECONDARY_LOAD PARTITION", "SECONDARY_UNLOAD PARTITION",
)  # fmt: skip
_FREE = (
    "ENABLE KEYS", "DISABLE KEYS", "FORCE", "WITH VALIDATION", "WITHOUT VALIDATION",
    "SECONDARY_LOAD", "SECONDARY_UNLOAD", "REMOVE PARTITIONING",
)  # fmt: skip
_ROWS_GO = {
    "DROP PARTITION": "the rows of a partition are dropped",
    "TRUNCATE PARTITION": "the rows of a partition are removed",
    "DISCARD PARTITION": "the rows of a partition are discarded",
    "IMPORT PARTITION": "a partition's rows come from a file",
    "DISCARD TABLESPACE": "the table's rows are discarded",
    "IMPORT TABLESPACE": "the table's rows come from a file",
}


def read_alteration(cursor: Cursor, table: str, database: str) -> Alteration:
    """Reads the actions behind ``ALTER TABLE table``; ``database``: the session's. Raises
    StatementError for what is not understood, with the words where that begins."""
    actions: list[Action] = []
    exchanged = ""
    while not (cursor.done() or cursor.at_mark(";")):
        if cursor.phrase("EXCHANGE PARTITION"):
            exchanged = _exchange(cursor, database)
            actions.append(RowsGo(f"a partition's rows change places with {exchanged}'s"))
        else:
            actions.extend(_actions(cursor, table, database))
        cursor.mark(",")
    return Alteration(table, tuple(actions), exchanged)


def _exchange(cursor: Cursor, database: str) -> str:
    cursor.name()
    cursor.expect("WITH")
    cursor.expect("TABLE")
    return cursor.table(database)


def _actions(cursor: Cursor, table: str, database: str) -> Iterator[Action]:
    # COMMENT and the like are also names of columns, but only behind ADD, DROP, ALTER, RENAME.
    for words, reason in _ROWS_GO.items():
        if cursor.phrase(words):
            _to_end(cursor)
            yield RowsGo(reason)
            return
    if any(cursor.phrase(text) for text in _PARTITIONS) or cursor.phrase("ORDER BY"):
        _to_end(cursor)
    elif any(cursor.phrase(text) for text in _FREE):
        pass
    elif cursor.word("ADD"):
        yield from _add(cursor, table)
    elif cursor.word("DROP"):
        yield from _drop(cursor)
    elif verb := cursor.word("CHANGE", "MODIFY"):
        cursor.word("COLUMN")
        name = cursor.name()
        column = read_column(cursor, table, "" if verb == "CHANGE" else name)
        yield ChangeColumn(name, column, _place(cursor))
    elif cursor.word("RENAME"):
        yield _rename(cursor, database)
    elif cursor.word("ALTER"):
        yield from _alter(cursor)
    elif cursor.phrase("CONVERT TO"):
        yield _convert(cursor)
    else:
        yield from _option(cursor)


def _to_end(cursor: Cursor) -> None:
    while not (cursor.done() or cursor.at_mark(";")):
        cursor.next()


def _option(cursor: Cursor) -> Iterator[Action]:
    start = cursor.rest()
    setting = option(cursor)
    if setting is None:
        raise StatementError(f"ALTER TABLE is not understood from {start}")
    name, value = setting
    if name in ("ENGINE", "TYPE") and value.upper() in WITHOUT_ROWS:
        yield RowsGo(f"{start} leaves the table without its rows")
    elif name in ("CHARSET", "COLLATE"):
        while following := _another_set(cursor):
            if following[0] == "COLLATE":
                value = following[1]
        yield SetCharset("" if value.upper() == "DEFAULT" else value)


def _another_set(cursor: Cursor) -> tuple[str, str] | None:
    """Takes the COLLATE behind a CHARACTER SET, or the other way round."""
    rest = cursor.again()
    rest.word("DEFAULT")
    return option(cursor) if any(rest.phrase(name) for name in SETS) else None


def _convert(cursor: Cursor) -> Action:
    if not any(cursor.phrase(name) for name in SETS[:-1]):
        raise StatementError(f"CONVERT TO is not understood from {cursor.rest()}")
    cursor.mark("=")
    charset = name_of_set(cursor)
    if cursor.word("COLLATE"):
        cursor.mark("=")
        charset = name_of_set(cursor)
    return SetCharset("" if charset.upper() == "DEFAULT" else charset, convert=True)


def _add(cursor: Cursor, table: str) -> Iterator[Action]:
    if at_key(cursor):
        key = read_key(cursor, table)
        if key.kind != "CHECK":
            yield AddKey(key)
        return
    cursor.word("COLUMN")
    if not cursor.at_mark("("):
        yield AddColumn(read_column(cursor, table), _place(cursor))
        return
    for part in cursor.parentheses().parts():
        if at_key(part):
            key = read_key(part, table)
            if key.kind != "CHECK":
                yield AddKey(key)
        else:
            yield AddColumn(read_column(part, table))
        if not part.done():
            raise StatementError(f"ADD is not understood from {part.rest()}")


def _place(cursor: Cursor) -> str | None:
    if cursor.word("FIRST"):
        return ""
    return cursor.name() if cursor.word("AFTER") else None


def _drop(cursor: Cursor) -> Iterator[Action]:
    if cursor.phrase("FOREIGN KEY"):
        yield DropConstraint(cursor.name(), "FOREIGN")
    elif cursor.phrase("PRIMARY KEY"):
        yield DropIndex("PRIMARY")
    elif cursor.word("CHECK"):
        cursor.name()
    elif cursor.word("CONSTRAINT"):
        yield DropConstraint(cursor.name())
    elif cursor.word("INDEX", "KEY"):
        yield DropIndex(cursor.name())
    else:
        cursor.word("COLUMN")
        yield DropColumn(cursor.name())
        cursor.word("RESTRICT", "CASCADE")


def _rename(cursor: Cursor, database: str) -> Action:
    if kind := cursor.word("COLUMN", "INDEX", "KEY"):
        name = cursor.name()
        cursor.expect("TO")
        make = RenameColumn if kind == "COLUMN" else RenameIndex
        return make(name, cursor.name())
    if not cursor.word("TO", "AS"):
        cursor.mark("=")
    return RenameTable(cursor.table(database))


def _alter(cursor: Cursor) -> Iterator[Action]:
    if cursor.word("INDEX", "CHECK", "CONSTRAINT"):
        cursor.name()
        cursor.word("NOT")
        if not cursor.word("VISIBLE", "INVISIBLE", "ENFORCED"):
            raise StatementError(f"ALTER is not understood from {cursor.rest()}")
        return
    cursor.word("COLUMN")
    name = cursor.name()
    if cursor.phrase("DROP DEFAULT"):
        yield SetDefault(name, None)
    elif cursor.phrase("SET DEFAULT"):
        yield SetDefault(name, read_default(cursor))
    elif cursor.phrase("SET VISIBLE"):
        yield SetVisible(name, True)
    elif cursor.phrase("SET INVISIBLE"):
        yield SetVisible(name, False)
    else:
        raise StatementError(f"ALTER COLUMN is not understood from {cursor.rest()}")
