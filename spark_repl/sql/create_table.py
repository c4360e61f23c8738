"""Read the columns and keys of CREATE TABLE into a SourceTable, as the table's TABLE_MAPs will
have them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ..errors import DecodeError, StatementError
from ..tables.source_table import SourceTable
from ..tables.table_name import database_of, parts_of
from . import foreign_keys, keys
from .charsets import ASSUMED
from .column_clause import ColumnClause, read_column
from .keys import KeyClause, KeyPart, at_key, read_key
from .new_columns import is_nullable, new_columns
from .partition_clause import read_partitioning
from .statement import SELECT
from .table_options import ROWLESS, merged, option, other_engine

if TYPE_CHECKING:
    from ..tables.partitioning import Partitioning
    from ..tables.table_keys import ForeignKey
    from .session import Session
    from .sql_tokens import Cursor

_QUERY = ("IGNORE", "REPLACE", "AS", "SELECT", "WITH", "TABLE", "VALUES")
ROWS_FOLLOW = "CREATE TABLE ... SELECT: the log has its rows in the same transaction"


@dataclass(frozen=True, slots=True)
class ReadDefinition:
    """A parsed CREATE TABLE: its ``definition``, or the ``reason`` why there is none.

    ``query``: whether rows come from a query. ``rows_follow``: whether the log has these rows after
    the statement. ``like``: the table whose definition is copied. ``foreign_keys``: None if they
    are not understood either.
    """

    definition: SourceTable | None = None
    reason: str = ""
    query: bool = False
    rows_follow: bool = False
    like: str = ""
    foreign_keys: tuple[ForeignKey, ...] | None = None
    engine: str = ""


@dataclass(slots=True)
class _Table:
    """The parts of a table that have been read so far. ``keys`` include those of columns, in the
    order of the text."""

    name: str
    columns: list[ColumnClause] = field(default_factory=list)
    keys: list[KeyClause] = field(default_factory=list)
    charset: str = ""
    engine: str = "DEFAULT"
    comment: str = ""
    rows_follow: bool = False
    partitioning: Partitioning | None = None


def definition(cursor: Cursor, name: str, session: Session) -> ReadDefinition:
    """Parse the text after ``CREATE TABLE name`` to the end of the statement. Raise StatementError
    only for words that might hide a query."""
    if cursor.at("LIKE"):
        return _like(cursor, session)
    body = cursor.parentheses() if cursor.at_symbol("(") else None
    if body and body.at("LIKE"):
        return _like(body, session)
    if body is None or body.at_symbol("(") or body.at(*_QUERY):
        return ReadDefinition(None, SELECT, query=True)
    table = _Table(name)
    reason = _options(cursor, table, session)
    if reason:
        return ReadDefinition(None, reason, reason == SELECT)
    read = ReadDefinition(rows_follow=table.rows_follow, engine=table.engine)
    parts = body.parts()
    try:
        read = replace(read, foreign_keys=_foreign_keys(parts, table))
        for part in parts:
            _element(part, table)
        target = _finish(table, session, read.foreign_keys or ())
        if not is_text(target):
            reason = "the statement is not text in its client's character set"
            return replace(read, foreign_keys=None, reason=reason)
        return replace(read, definition=target, reason=ROWS_FOLLOW if read.rows_follow else "")
    except (StatementError, DecodeError) as error:
        return replace(read, reason=error.message)


def is_text(table: SourceTable) -> bool:
    """Return whether all names of the table are text, without bytes that are not characters."""
    try:
        table.to_json().encode()
    except UnicodeEncodeError:
        return False
    return True


def _like(cursor: Cursor, session: Session) -> ReadDefinition:
    cursor.expect("LIKE")
    reason = "CREATE TABLE ... LIKE copies another table's definition"
    return ReadDefinition(None, reason, like=cursor.table(session.database))


def _foreign_keys(parts: list[Cursor], table: _Table) -> tuple[ForeignKey, ...]:
    if table.engine.upper() not in foreign_keys.ENGINES:
        return ()
    return foreign_keys.of_table([part.again() for part in parts], table.name)


def _options(cursor: Cursor, table: _Table, session: Session) -> str:
    """Read the options after the columns. Return '', SELECT, or why they are not understood."""
    while not (cursor.at_end() or cursor.at_symbol(";")):
        if cursor.at_symbol("("):
            return SELECT
        if cursor.phrase("PARTITION BY"):
            table.partitioning = read_partitioning(cursor.again(), session)
            return SELECT if _rest_has_query(cursor) else ""
        if cursor.phrase("START TRANSACTION"):
            table.rows_follow = True
        elif cursor.symbol(","):
            continue
        elif setting := option(cursor):
            if setting[0] in ("CHARSET", "COLLATE"):
                table.charset = merged(table.charset, setting)
            elif setting[0] in ("ENGINE", "TYPE"):
                table.engine = setting[1]
            elif setting[0] == "COMMENT":
                table.comment = setting[1]
        else:
            start = cursor.rest()
            return SELECT if _rest_has_query(cursor) else f"option {start} is not understood"
    return ""


def _rest_has_query(cursor: Cursor) -> bool:
    while not (cursor.at_end() or cursor.at_symbol(";")):
        if cursor.at(*_QUERY):
            return True
        if cursor.at_symbol("("):
            if cursor.parentheses().at("SELECT", "WITH", "TABLE"):
                return True
        else:
            cursor.next()
    return False


def _element(cursor: Cursor, table: _Table) -> None:
    """Read one column, key or constraint."""
    if at_key(cursor):
        table.keys.append(read_key(cursor, table.name))
    else:
        column = read_column(cursor, table.name)
        table.columns.append(column)
        table.keys.extend(keys_of(column))
    if not cursor.at_end():
        raise StatementError(f"{cursor.rest()} is not understood")


def keys_of(column: ColumnClause) -> list[KeyClause]:
    """Return the keys that a column's attributes create."""
    parts = (KeyPart(column.name),)
    clauses = [KeyClause("PRIMARY", "", parts)] if column.primary else []
    clauses += [KeyClause("UNIQUE", "", parts)] if column.unique else []
    return clauses + [KeyClause("FOREIGN", "", parts, key) for key in column.references]


def _finish(table: _Table, session: Session, references: tuple[ForeignKey, ...]) -> SourceTable:
    charset = session.charset_of(database_of(table.name)) or ASSUMED
    if table.charset and table.charset.upper() != "DEFAULT":
        charset = table.charset
    primary = {
        part.column.lower() for key in table.keys if key.kind == "PRIMARY" for part in key.parts
    }
    columns = new_columns(table.columns, charset, primary, session)
    loose = {clause.name.lower() for clause in table.columns if is_nullable(clause)} & primary
    result = keys.ordered(keys.added([], table.keys, columns), columns, loose)
    database, name = parts_of(table.name)
    return SourceTable(
        database,
        name,
        columns,
        keys.logged(result, columns),
        references,
        has_primary=bool(primary),
        unique=keys.unique_of(result),
        charset=charset,
        indexes=keys.plain_of(result),
        partitioning=table.partitioning,
        rowless=table.engine.upper() in ROWLESS,
        engine=other_engine(table.engine),
        comment=table.comment,
    )
