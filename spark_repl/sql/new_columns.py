"""Columns of new tables: a column clause becomes a ``Column``, with the attributes that the table's
TABLE_MAPs have.

Servers before 8.0 give TIMESTAMP columns NOT NULL and defaults that the statement does not have
(explicit_defaults_for_timestamp = OFF).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..binlog.charsets.charset import REPLACEMENT, charset_of, number_of
from ..errors import StatementError
from ..tables.column import BINARY, CHARACTER_TYPES, NUMERIC_TYPES, Column, ColumnType
from . import charsets, column_type
from .charsets import ASSUMED
from .default_clause import NOT_KNOWN, Default
from .default_literals import normalize_or_keep
from .string_literals import in_column

if TYPE_CHECKING:
    from .column_clause import ColumnClause
    from .session import Session

_ZERO = Default("'0000-00-00 00:00:00")


def new_columns(
    clauses: Sequence[ColumnClause], charset: str, primary: Collection[str], session: Session
) -> tuple[Column, ...]:
    """Return the columns of a new table. ``primary``: names of its key's columns in lower case.
    Raise StatementError."""
    written = [in_column(clause, charset) for clause in with_timestamps(clauses, session)]
    return tuple(
        new_column(
            clause,
            charset,
            session,
            nullable=is_nullable(clause) and clause.name.lower() not in primary,
        )
        for clause in written
    )


def is_nullable(clause: ColumnClause) -> bool:
    """Return whether the column accepts NULL, apart from the primary key."""
    return clause.nullable is not False and not clause.auto_increment


def with_timestamps(
    columns: Sequence[ColumnClause | Column], session: Session
) -> list[ColumnClause]:
    """Return the written columns of a table, with TIMESTAMP interpreted as in the session. Without
    explicit_defaults_for_timestamp it is NOT NULL, and the first one defaults to the current time.
    If the setting is not known, the default is NOT_KNOWN."""
    first, written = session.explicit_timestamps is False, []
    for column in columns:
        if isinstance(column, Column):
            is_timestamp = column.type in (ColumnType.TIMESTAMP, ColumnType.TIMESTAMP_OLD)
            first &= not (is_timestamp and not column.nullable)
            continue
        if session.explicit_timestamps is False and _implied(column):
            now = Default(now=True)
            if column.default is None and not (column.on_update and first):
                default = now if first and not column.on_update else _ZERO
                column = replace(column, default=default)
            column = replace(column, nullable=False)
            first = False
        elif session.explicit_timestamps is None and _implied(column) and column.default is None:
            column = replace(column, default=NOT_KNOWN)
        written.append(column)
    return written


def _implied(column: ColumnClause) -> bool:
    return (
        column.type.code == ColumnType.TIMESTAMP
        and column.nullable is not True
        and not column.generated
    )


_T = ColumnType
_VARCHAR_BYTES_MAX = 65_535
_OTHER_CASE = set(charsets.TURKISH.values())
_MOMENTS = (_T.DATETIME, _T.TIMESTAMP, _T.DATETIME_OLD, _T.TIMESTAMP_OLD)
_ZEROS = {
    _T.DATE: "'0000-00-00", _T.TIME: "'00:00:00", _T.TIME_OLD: "'00:00:00", _T.JSON: "'null",
    _T.BIT: "0", _T.SET: "'",
}  # fmt: skip


def new_column(clause: ColumnClause, charset: str, session: Session, *, nullable: bool) -> Column:
    """Return the column of a table whose character set or collation is ``charset``. Raise
    StatementError for an unknown character set."""
    kind, collation, meta, compares = clause.type, 0, clause.type.meta, 0
    assumed = clause.type.code in CHARACTER_TYPES and not clause.charset and charset == ASSUMED
    code = kind.code
    if code in CHARACTER_TYPES:
        named = clause.charset or charset
        named = _binary_of(named) if clause.binary else named
        collation, longest = charsets.collation(named)
        meta = column_type.meta(kind, longest)
        compares = 0 if assumed else number_of(named, session.utf8mb4_collation)
        if code == _T.VARCHAR and meta > _VARCHAR_BYTES_MAX:  # outside of strict mode
            code, meta = _T.BLOB, (meta.bit_length() + 7) // 8
    column = Column(
        name=clause.name,
        type=int(code),
        meta=meta,
        nullable=nullable,
        unsigned=kind.unsigned,
        collation=collation,
        literals=column_type.members(kind, clause.charset or charset, session.connection),
        visible=clause.visible,
        generated=clause.generated,
        auto_increment=clause.auto_increment,
        detail=kind.detail or _wide_set(clause, charset),
        compares=compares,
        assumed=assumed,
        comment=clause.comment,
    )
    if clause.default is None:
        return replace(column, default=implicit_default(column))
    literal = clause.default.literal
    if (
        literal and column.type == _T.BLOB
    ):  # outside of strict mode the server accepts '' and ignores it
        return replace(column, default=implicit_default(column))
    return replace(column, default=literal and normalize_or_keep(literal, column, session))


def _wide_set(clause: ColumnClause, charset: str) -> str:
    """Return the character set of an ENUM or SET if it has no ASCII, '' if it has."""
    if clause.type.code not in (_T.ENUM, _T.SET):
        return ""
    name = charset_of(charsets.collation(clause.charset or charset)[0])
    return name if name in charsets.WIDE else ""


def _binary_of(named: str) -> str:
    """Return the collation that BINARY after the type makes of the column's character set or
    collation."""
    charset = charset_of(charsets.collation(named)[0])
    return charset if charset == "binary" else f"{charset}_bin"


def implicit_default(column: Column) -> str | None:
    """Return the default of a column without DEFAULT: NULL, or its type's zero (outside of strict
    mode)."""
    zero = zero_of(column)
    if column.nullable:
        return "NULL"
    return (
        zero if column.type in (*CHARACTER_TYPES, *NUMERIC_TYPES, _T.ENUM, _T.SET, _T.BIT) else None
    )


def not_null(column: Column) -> Column:
    """Return the column as part of a primary key."""
    after = replace(column, nullable=False)
    return replace(after, default=implicit_default(after)) if column.default == "NULL" else after


def zero_of(column: Column) -> str | None:
    """Return the value of existing rows in a new column that is NOT NULL without a default; None if
    the type has no such value."""
    kind = column.type
    if kind in CHARACTER_TYPES:
        return "'"
    if kind == _T.ENUM:
        first = column.literals[0] if column.literals else REPLACEMENT
        return None if REPLACEMENT in first else f"'{first}"
    if kind in _MOMENTS:
        return "'0000-00-00 00:00:00"
    return "0" if kind in NUMERIC_TYPES else _ZEROS.get(_T(kind))


def in_charset(column: Column, charset: str, session: Session, table: str) -> Column:
    """Return a column after CONVERT TO CHARACTER SET. If the characters of a TEXT become longer, it
    becomes the next larger type (measured on 9.7.4). Binary columns do not change. ``table``: the
    table's previous character set or collation. Raise StatementError."""
    if column.type in (_T.ENUM, _T.SET):
        _check_members(column, {name.lower().partition("_")[0] for name in (charset, table)})
    if column.type not in CHARACTER_TYPES or column.collation == BINARY:
        return column
    before = charsets.collation(charset_of(column.collation))[1]
    number, longest = charsets.collation(charset)
    compares = number_of(charset, session.utf8mb4_collation)
    column = replace(column, compares=compares, assumed=False)
    if column.type == _T.BLOB:
        meta = min(4, column.meta + (longest > before))
        return replace(column, collation=number, meta=meta)
    meta = column.meta // before * longest
    if column.type == _T.VARCHAR and meta > _VARCHAR_BYTES_MAX:
        return replace(
            column, collation=number, type=int(_T.BLOB), meta=(meta.bit_length() + 7) // 8
        )
    return replace(column, collation=number, meta=meta)


def _check_members(column: Column, sets: set[str]) -> None:
    """Raise StatementError if CONVERT TO may change a column's members: the server reads their
    bytes as letters of the new character set (measured on 9.7.4). Their present character set is
    not known, as the column may have its own."""
    sets = sets | {column.detail or ""}
    if not all(member.isascii() for member in column.literals) or sets & {
        "binary",
        "swe7",
        *charsets.WIDE,
    }:
        raise StatementError(f"the members of column {column.name} behind CONVERT TO are not known")


def characters(column: Column) -> int:
    """Return the most characters (bytes, if it is binary) of a CHAR or VARCHAR; 0 for other
    types."""
    if column.type not in CHARACTER_TYPES or column.type == _T.BLOB:
        return 0
    if column.collation in (0, BINARY):
        return column.meta
    return column.meta // charsets.collation(charset_of(column.collation))[1]


def same_type(before: Column, after: Column) -> bool:
    """Return whether both columns store the same values in the same form, apart from name and
    NULL."""
    text = {c.collation and charset_of(c.collation) for c in (before, after)}
    parts = ("type", "meta", "unsigned", "literals")
    return len(text) == 1 and all(getattr(before, p) == getattr(after, p) for p in parts)


def is_longer(before: Column, after: Column) -> bool:
    """Return whether a VARCHAR or VARBINARY stores the same values, and longer ones."""
    varying = before.type == after.type == _T.VARCHAR
    one_set = charset_of(before.collation) == charset_of(after.collation) if varying else False
    return one_set and before.meta <= after.meta


def same_collation(before: Column, after: Column, *, written: bool) -> bool:
    """Return whether texts of both columns are known to compare equally. ``written``: whether the
    statement writes the column's type, or converts it."""
    if not written or before.type not in (*CHARACTER_TYPES, _T.ENUM, _T.SET):
        return True
    if before.collation == after.collation == BINARY:
        return True
    return before.compares == after.compares != 0


def prints_alike(before: Column, after: Column) -> bool:
    """Return whether values of both columns are known to be the same as text, also after a change
    of case."""
    other_case = {before.collation, after.collation} & _OTHER_CASE
    return before.detail == after.detail and (not other_case or before.collation == after.collation)
