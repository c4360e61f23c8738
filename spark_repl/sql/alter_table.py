"""Read ALTER TABLE into its actions, as they are written."""

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
    ChangePartitions,
    DropColumn,
    DropConstraint,
    DropIndex,
    PartitionBy,
    RenameColumn,
    RenameIndex,
    RenameTable,
    SetCharset,
    SetDefault,
    SetVisible,
    UnloggedRows,
)  # fmt: skip
from .column_clause import read_column
from .default_clause import read_default
from .keys import at_key, read_key
from .partition_clause import at_partitioning, read_partitioning, read_partitions
from .table_options import OF_OTHERS, SETS, WITHOUT_ROWS, name_of_set, option

if TYPE_CHECKING:
    from .session import Session
    from .sql_tokens import Cursor

# These move rows between partitions and remove none: a row without a partition is an error.
_PARTITIONS = (
    "COALESCE PARTITION", "REBUILD PARTITION", "ANALYZE PARTITION", "CHECK PARTITION",
    "OPTIMIZE PARTITION", "REPAIR PARTITION", "SECONDARY_LOAD PARTITION",
    "SECONDARY_UNLOAD PARTITION",
)  # fmt: skip
_CHANGED = ("ADD", "DROP", "TRUNCATE", "REORGANIZE")
_FREE = (
    "ENABLE KEYS", "DISABLE KEYS", "FORCE", "WITH VALIDATION", "WITHOUT VALIDATION",
    "SECONDARY_LOAD", "SECONDARY_UNLOAD", "UPGRADE PARTITIONING",
)  # fmt: skip
_ROWS_GO = {
    "DISCARD PARTITION": "the rows of a partition are discarded",
    "IMPORT PARTITION": "a partition's rows come from a file",
    "DISCARD TABLESPACE": "the table's rows are discarded",
    "IMPORT TABLESPACE": "the table's rows come from a file",
}


def read_alteration(cursor: Cursor, table: str, session: Session) -> Alteration:
    """Parse the actions after ``ALTER TABLE table``. Raise StatementError for text that is not
    understood, with the words at that place."""
    database = session.database
    actions: list[Action] = []
    exchanged, engine, copies = "", "", False
    comment: str | None = None
    while not (cursor.at_end() or cursor.at_symbol(";")):
        if cursor.phrase("EXCHANGE PARTITION"):
            partition, exchanged = _exchange(cursor, database)
            actions.append(ChangePartitions("EXCHANGE", (partition,)))
        else:
            engine = _value(cursor, "ENGINE", "TYPE").upper() or engine
            copies |= cursor.at_phrase("ORDER BY") or _value(cursor, "ALGORITHM").upper() == "COPY"
            comment = _value(cursor, "COMMENT") if cursor.at("COMMENT") else comment
            actions.extend(_actions(cursor, table, session))
        cursor.symbol(",")
    copies |= engine not in ("", "INNODB", *WITHOUT_ROWS)
    return Alteration(table, tuple(actions), exchanged, engine, copies, comment)


def _value(cursor: Cursor, *names: str) -> str:
    """Return the value of the next option; '' for any other option, or if none comes next."""
    return (option(cursor.again()) or ("", ""))[1] if cursor.at(*names) else ""


def _exchange(cursor: Cursor, database: str) -> tuple[str, str]:
    """Return (the partition's name, the other table's)."""
    partition = cursor.name()
    cursor.expect("WITH")
    cursor.expect("TABLE")
    return partition, cursor.table(database)


def _actions(cursor: Cursor, table: str, session: Session) -> Iterator[Action]:
    # COMMENT and the like are also names of columns, but only after ADD, DROP, ALTER, RENAME.
    for words, reason in _ROWS_GO.items():
        if cursor.phrase(words):
            _to_end(cursor)
            yield UnloggedRows(reason, come=words.startswith("IMPORT"))
            return
    if partitions := _partitions(cursor, session):
        _to_end(cursor)
        yield partitions
    elif any(cursor.phrase(text) for text in _PARTITIONS):
        _to_end(cursor)
    elif cursor.phrase("ORDER BY"):
        _skip_order(cursor)
    elif any(cursor.phrase(text) for text in _FREE):
        pass
    elif cursor.word("ADD"):
        yield from _add(cursor, table)
    elif cursor.word("DROP"):
        yield from _drop(cursor)
    elif verb := cursor.word("CHANGE", "MODIFY"):
        cursor.word("COLUMN")
        name = cursor.column()
        column = read_column(cursor, table, "" if verb == "CHANGE" else name)
        yield ChangeColumn(name, column, _place(cursor))
    elif cursor.word("RENAME"):
        yield _rename(cursor, session.database)
    elif cursor.word("ALTER"):
        yield from _alter(cursor)
    elif cursor.phrase("CONVERT TO"):
        yield _convert(cursor)
    else:
        yield from _option(cursor)


def _partitions(cursor: Cursor, session: Session) -> PartitionBy | ChangePartitions | None:
    if cursor.phrase("PARTITION BY"):
        return PartitionBy(read_partitioning(cursor, session))
    if cursor.phrase("REMOVE PARTITIONING"):
        return PartitionBy(None)
    verb = next((word for word in _CHANGED if cursor.phrase(f"{word} PARTITION")), "")
    if not verb:
        return None
    cursor.word("NO_WRITE_TO_BINLOG", "LOCAL")
    names: list[str] = []
    lists = _has_lists(cursor.again())
    try:
        if verb != "ADD" and not cursor.word("ALL"):
            names.append(cursor.name())
            while cursor.symbol(","):
                names.append(cursor.name())
        if verb == "REORGANIZE":
            cursor.expect("INTO")
        if verb in ("ADD", "REORGANIZE"):
            into = read_partitions(cursor, session)
            return ChangePartitions(verb, tuple(names), into, lists=lists)
    except StatementError as error:
        return ChangePartitions(verb, tuple(names), unknown=error.message, lists=lists)
    return ChangePartitions(verb, tuple(names))


def _has_lists(cursor: Cursor) -> bool:
    while not cursor.at_end():
        if cursor.phrase("VALUES IN"):
            return True
        cursor.next()
    return False


def _to_end(cursor: Cursor) -> None:
    while not (cursor.at_end() or cursor.at_symbol(";")):
        cursor.next()


def _skip_order(cursor: Cursor) -> None:
    """Skip ORDER BY to the end of the actions: columns follow its commas, never another action."""
    while not (cursor.at_end() or cursor.at_symbol(";") or at_partitioning(cursor)):
        cursor.next()


def _option(cursor: Cursor) -> Iterator[Action]:
    start = cursor.rest()
    setting = option(cursor)
    if setting is None:
        raise StatementError(f"ALTER TABLE is not understood from {start}")
    name, value = setting
    if name in ("ENGINE", "TYPE") and value.upper() in WITHOUT_ROWS:
        come = value.upper() in OF_OTHERS
        yield UnloggedRows(f"{start} leaves the table without its rows", come=come)
    elif name in ("CHARSET", "COLLATE"):
        while following := _another_set(cursor):
            if following[0] == "COLLATE":
                value = following[1]
        yield SetCharset("" if value.upper() == "DEFAULT" else value)


def _another_set(cursor: Cursor) -> tuple[str, str] | None:
    """Consume the COLLATE after a CHARACTER SET, or the CHARACTER SET after a COLLATE."""
    rest = cursor.again()
    rest.word("DEFAULT")
    return option(cursor) if any(rest.phrase(name) for name in SETS) else None


def _convert(cursor: Cursor) -> Action:
    if not any(cursor.phrase(name) for name in SETS[:-1]):
        raise StatementError(f"CONVERT TO is not understood from {cursor.rest()}")
    cursor.symbol("=")
    charset = name_of_set(cursor)
    if cursor.word("COLLATE"):
        cursor.symbol("=")
        charset = name_of_set(cursor)
    return SetCharset("" if charset.upper() == "DEFAULT" else charset, convert=True)


def _add(cursor: Cursor, table: str) -> Iterator[Action]:
    if at_key(cursor):
        key = read_key(cursor, table)
        if key.kind != "CHECK":
            yield AddKey(key)
        return
    cursor.word("COLUMN")
    if not cursor.at_symbol("("):
        yield AddColumn(read_column(cursor, table), _place(cursor))
        return
    for part in cursor.parentheses().parts():
        if at_key(part):
            key = read_key(part, table)
            if key.kind != "CHECK":
                yield AddKey(key)
        else:
            yield AddColumn(read_column(part, table))
        if not part.at_end():
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
        yield DropColumn(cursor.column())
        cursor.word("RESTRICT", "CASCADE")


def _rename(cursor: Cursor, database: str) -> Action:
    if kind := cursor.word("COLUMN", "INDEX", "KEY"):
        name = cursor.name()
        cursor.expect("TO")
        make = RenameColumn if kind == "COLUMN" else RenameIndex
        return make(name, cursor.name())
    if not cursor.word("TO", "AS"):
        cursor.symbol("=")
    return RenameTable(cursor.table(database))


def _alter(cursor: Cursor) -> Iterator[Action]:
    if cursor.word("INDEX", "CHECK", "CONSTRAINT"):
        cursor.name()
        cursor.word("NOT")
        if not cursor.word("VISIBLE", "INVISIBLE", "ENFORCED"):
            raise StatementError(f"ALTER is not understood from {cursor.rest()}")
        return
    cursor.word("COLUMN")
    name = cursor.column()
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
