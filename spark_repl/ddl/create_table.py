"""CREATE TABLE's columns and key -> TableDefinition, as the table's TABLE_MAPs will show them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..binlog.definition import (
    CHARACTER_TYPES,
    NUMERIC_TYPES,
    Column,
    ColumnType,
    ForeignKey,
    TableDefinition,
)
from ..errors import StatementError
from . import column_type, foreign_keys
from .alter_table import option
from .defaults import read_default

if TYPE_CHECKING:
    from .sql_tokens import Cursor

_QUERY = ("IGNORE", "REPLACE", "AS", "SELECT", "WITH", "TABLE", "VALUES")
SELECT = "CREATE TABLE ... SELECT makes rows from a query"
_KEYS = ("PRIMARY", "UNIQUE", "INDEX", "KEY", "FULLTEXT", "SPATIAL", "FOREIGN", "CHECK")


@dataclass(frozen=True, slots=True)
class Reading:
    """``definition`` or the ``reason`` why there is none.

    ``other_source``: columns or rows come from elsewhere (LIKE, SELECT). ``foreign_keys``: None
    when they are not understood either.
    """

    definition: TableDefinition | None = None
    reason: str = ""
    other_source: bool = False
    foreign_keys: tuple[ForeignKey, ...] | None = None


@dataclass(slots=True)
class _Column:
    name: str
    type: column_type.SqlType
    nullable: bool = True
    charset: str = ""
    visible: bool = True
    virtual: bool = False
    has_default: bool = False
    default: str | None = None


@dataclass(slots=True)
class _Table:
    """What is read so far. ``unique``: column name -> length of the prefix (0: whole)."""

    name: str
    columns: list[_Column] = field(default_factory=list)
    primary: list[str] = field(default_factory=list)
    unique: list[dict[str, int]] = field(default_factory=list)
    charset: str = ""
    engine: str = "DEFAULT"

    def find(self, name: str) -> int:
        for i, column in enumerate(self.columns):
            if column.name.lower() == name.lower():
                return i
        raise StatementError(f"the key's column {name} is not in the table")


def definition(cursor: Cursor, name: str) -> Reading:
    """Reads on behind ``CREATE TABLE name``; the cursor ends behind the statement.

    StatementError only for what might hide a query.
    """
    body = cursor.parentheses() if cursor.at_mark("(") else None
    if (body or cursor).at("LIKE"):
        return Reading(None, "CREATE TABLE ... LIKE copies another table's definition", True)
    if body is None or body.at_mark("(") or body.at(*_QUERY):
        return Reading(None, SELECT, True)
    table = _Table(name)
    reason = _options(cursor, table)
    if reason:
        return Reading(None, reason, reason == SELECT)
    parts = body.parts()
    keys = None
    try:
        keys = _foreign_keys(parts, table)
        for part in parts:
            _element(part, table)
        database, _, table_name = name.partition(".")
        columns = tuple(_finish(column, table) for column in table.columns)
        table_definition = TableDefinition(database, table_name, columns, _key(table), keys)
        table_definition.to_json().encode()
        return Reading(table_definition, foreign_keys=keys)
    except UnicodeEncodeError:
        return Reading(None, "the statement is not text in its client's character set")
    except StatementError as error:
        return Reading(None, error.message, foreign_keys=keys)


def _foreign_keys(parts: list[Cursor], table: _Table) -> tuple[ForeignKey, ...]:
    if table.engine.upper() not in foreign_keys.ENGINES:
        return ()
    return foreign_keys.of_table([part.again() for part in parts], table.name)


def _options(cursor: Cursor, table: _Table) -> str:
    """Reads the options behind the columns: '' or SELECT or why they aren't understood."""
    while not (cursor.done() or cursor.at_mark(";")):
        if cursor.at_mark("("):
            return SELECT
        if cursor.phrase("PARTITION BY"):
            return SELECT if _rest_has_query(cursor) else ""
        if cursor.phrase("START TRANSACTION") or cursor.mark(","):
            continue
        if cursor.word("UNION"):
            cursor.mark("=")
            cursor.parentheses()
        elif setting := option(cursor):
            if setting[0] in ("CHARSET", "COLLATE"):
                table.charset = _merged(table.charset, setting)
            elif setting[0] in ("ENGINE", "TYPE"):
                table.engine = setting[1]
        else:
            start = cursor.rest()
            return SELECT if _rest_has_query(cursor) else f"option {start} is not understood"
    return ""


def _rest_has_query(cursor: Cursor) -> bool:
    while not (cursor.done() or cursor.at_mark(";")):
        if cursor.at(*_QUERY):
            return True
        if cursor.at_mark("("):
            if cursor.parentheses().at("SELECT", "WITH", "TABLE"):
                return True
        else:
            cursor.next()
    return False


def _merged(before: str, setting: tuple[str, str]) -> str:
    """The character set or collation after ``setting``: a collation names its character set too,
    and CHARACTER SET beside it adds nothing."""
    return setting[1] if setting[0] == "COLLATE" or not before else before


def _element(cursor: Cursor, table: _Table) -> None:
    """Reads one column, key or constraint."""
    if cursor.word("CONSTRAINT") and not cursor.at(*_KEYS):
        cursor.name()
    kind = cursor.word(*_KEYS)
    if not kind:
        _column(cursor, table)
        return
    if kind == "PRIMARY":
        table.primary = list(_key_parts(cursor))
    elif kind == "UNIQUE" and (parts := _key_parts(cursor)):
        table.unique.append(parts)
    while not cursor.done():
        cursor.next()


def _key_parts(cursor: Cursor) -> dict[str, int]:
    """Reads ``[name] [USING x] (column [(prefix)] [ASC|DESC], ...)``: column -> its prefix's length
    (0: whole); {} with an expression among them."""
    while not cursor.at_mark("("):
        cursor.next()
    prefixes: dict[str, int] = {}
    for part in cursor.parentheses().parts():
        if part.at_mark("("):
            return {}
        name = part.name()
        prefix = 0
        if part.mark("("):
            prefix = part.number()
        prefixes[name] = prefix
    return prefixes


def _column(cursor: Cursor, table: _Table) -> None:
    name = cursor.name()
    kind = column_type.read(cursor)
    column = _Column(name, kind, nullable=not kind.serial, charset=kind.charset)
    table.columns.append(column)
    if kind.serial:
        table.unique.append({name: 0})
    while not cursor.done():
        _attribute(cursor, column, table)


def _attribute(cursor: Cursor, column: _Column, table: _Table) -> None:
    if cursor.phrase("NOT NULL") or cursor.word("AUTO_INCREMENT"):
        column.nullable = False
    elif any(cursor.phrase(text) for text in ("NULL", "NOT SECONDARY", "GENERATED ALWAYS")):
        pass
    elif cursor.word("DEFAULT"):
        column.default = read_default(cursor)
        column.has_default = True
    elif cursor.phrase("SERIAL DEFAULT VALUE"):
        column.nullable = False
        table.unique.append({column.name: 0})
    elif cursor.phrase("ON UPDATE"):
        read_default(cursor)
    elif cursor.at("REFERENCES"):
        foreign_keys.references(cursor, table.name)
    elif cursor.word("UNIQUE"):
        cursor.word("KEY")
        table.unique.append({column.name: 0})
    elif cursor.phrase("PRIMARY KEY") or cursor.word("KEY"):
        table.primary = [column.name]
    elif word := cursor.word("VISIBLE", "INVISIBLE"):
        column.visible = word == "VISIBLE"
    elif cursor.word("AS"):
        cursor.parentheses()
        column.virtual = cursor.word("VIRTUAL", "STORED", "PERSISTENT") in ("", "VIRTUAL")
    elif not (_character_set(cursor, column) or _other(cursor)):
        raise StatementError(f"column {column.name} is not understood from {cursor.rest()}")


def _character_set(cursor: Cursor, column: _Column) -> bool:
    if any(cursor.phrase(text) for text in ("CHARACTER SET", "CHARSET", "CHAR SET")):
        cursor.mark("=")
        column.charset = _merged(column.charset, ("CHARSET", cursor.next().text))
    elif cursor.word("COLLATE"):
        cursor.mark("=")
        column.charset = _merged(column.charset, ("COLLATE", cursor.next().text))
    elif cursor.word("ASCII"):
        column.charset = "latin1"
    elif cursor.word("UNICODE"):
        column.charset = "ucs2"
    elif cursor.word("BYTE"):
        column.charset = "binary"
    else:
        # The attribute BINARY means the character set's _bin collation: still text.
        return bool(cursor.word("BINARY"))
    return True


def _other(cursor: Cursor) -> bool:
    """Takes an attribute without meaning here, if one comes next."""
    if cursor.word("COMMENT", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE"):
        cursor.mark("=")
        cursor.string()
    elif cursor.word("COLUMN_FORMAT", "STORAGE", "SRID"):
        cursor.next()
    elif cursor.word("CONSTRAINT"):
        if not cursor.at("CHECK"):
            cursor.name()
    elif cursor.word("CHECK"):
        cursor.parentheses()
        cursor.word("NOT")
        cursor.word("ENFORCED")
    else:
        return False
    return True


def _finish(column: _Column, table: _Table) -> Column:
    kind, number, longest = column.type, 0, 1
    if kind.code in CHARACTER_TYPES:
        number, longest = column_type.collation(column.charset or table.charset or "utf8mb4")
    return Column(
        name=column.name,
        type=int(kind.code),
        meta=column_type.meta(kind, longest),
        nullable=column.nullable and column.name.lower() not in map(str.lower, table.primary),
        unsigned=kind.unsigned,
        collation=number,
        literals=kind.literals,
        visible=column.visible,
        default=column.default if column.has_default else _implicit(column),
    )


def _implicit(column: _Column) -> str | None:
    """What a column without DEFAULT gets: NULL, or its type's zero (outside of strict mode)."""
    kind = column.type
    if column.nullable:
        return "NULL"
    if kind.code in CHARACTER_TYPES or kind.code == ColumnType.SET:
        return "'"
    if kind.code == ColumnType.ENUM:
        return f"'{kind.literals[0]}"
    return "0" if kind.code in NUMERIC_TYPES or kind.code == ColumnType.BIT else None


def _key(table: _Table) -> tuple[int, ...]:
    """The primary key; without one, the UNIQUE index that the server logs as if it were.

    That is the first whose columns are all NOT NULL and whole, those over virtual columns last
    (measured on 9.7.4: the TABLE_MAP of such a table names it as its primary key).
    """
    if table.primary:
        return tuple(table.find(name) for name in table.primary)
    whole: list[tuple[int, ...]] = []
    for parts in table.unique:
        key = tuple(table.find(name) for name in parts)
        if all(_whole(table.columns[i], n) for i, n in zip(key, parts.values(), strict=True)):
            whole.append(key)
    whole.sort(key=lambda key: any(table.columns[i].virtual for i in key))
    return whole[0] if whole else ()


def _whole(column: _Column, prefix: int) -> bool:
    if column.nullable or not prefix:
        return not column.nullable
    return column.type.code != ColumnType.BLOB and prefix >= column.type.length
