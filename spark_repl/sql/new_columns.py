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
    """The columns of a new table; ``primary``: names of its key's columns in lower case. Raises
    StatementError."""
    written = [in_column(clause, charset) for clause in with_timestamps(clauses, session)]
    return tuple(
        finished(
            clause,
            charset,
            session,
            nullable=is_nullable(clause) and clause.name.lower() not in primary,
        )
        for clause in written
    )


def is_nullable(clause: ColumnClause) -> bool:
    """Whether the column takes NULL, apart from what the primary key says."""
    return clause.nullable is not False and not clause.auto_increment


def with_timestamps(
    columns: Sequence[ColumnClause | Column], session: Session
) -> list[ColumnClause]:
    """The written ones among a table's columns; TIMESTAMP as the session understands it: without
    explicit_defaults_for_timestamp it is NOT NULL, the first with the moment as its default. Where
    that is not known its default is NOT_KNOWN."""
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


def finished(clause: ColumnClause, charset: str, session: Session, *, nullable: bool) -> Column:
    """The column of a table whose character set or collation is ``charset``. Raises StatementError
    for a character set that is not known."""
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
    )
    if clause.default is None:
        return replace(column, default=implicit_default(column))
    literal = clause.default.literal
    if literal and column.type == _T.BLOB:  # outside of strict mode '' is taken, and is none
        return replace(column, default=implicit_default(column))
    return replace(column, default=literal and normalize_or_keep(literal, column, session))


def _wide_set(clause: ColumnClause, charset: str) -> str:
    """Return the character set of an ENUM or SET if it has no ASCII, '' if it has."""
    if clause.type.code not in (_T.ENUM, _T.SET):
        return ""
    name = charset_of(charsets.collation(clause.charset or charset)[0])
    return name if name in charsets.WIDE else ""


def _binary_of(named: str) -> str:
    """What BINARY behind the type makes of the column's character set or collation."""
    charset = charset_of(charsets.collation(named)[0])
    return charset if charset == "binary" else f"{charset}_bin"


def implicit_default(column: Column) -> str | None:
    """What a column without DEFAULT gets: NULL, or its type's zero (outside of strict mode)."""
    zero = zero_of(column)
    if column.nullable:
        return "NULL"
    return (
        zero if column.type in (*CHARACTER_TYPES, *NUMERIC_TYPES, _T.ENUM, _T.SET, _T.BIT) else None
    )


def not_null(column: Column) -> Column:
    """The column as part of a primary key."""
    after = replace(column, nullable=False)
    return replace(after, default=implicit_default(after)) if column.default == "NULL" else after


def zero_of(column: Column) -> str | None:
    """What rows that are there get in a new column that is NOT NULL and has no default; None where
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
    """A column after CONVERT TO CHARACTER SET: a TEXT whose characters become longer becomes the
    next larger one (measured on 9.7.4). Binary columns stay. ``table``: the character set or
    collation that the table had. Raises StatementError."""
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
    """Raise StatementError if CONVERT TO may change a column's members: the server takes their
    bytes for letters of the new character set (seen on 9.7.4). Which set they are of now is not
    known, as the column may have one of its own."""
    sets = sets | {column.detail or ""}
    if not all(member.isascii() for member in column.literals) or sets & {
        "binary",
        "swe7",
        *charsets.WIDE,
    }:
        raise StatementError(f"the members of column {column.name} behind CONVERT TO are not known")


def characters(column: Column) -> int:
    """How many characters (bytes of a binary one) a CHAR or VARCHAR has at most; 0 for others."""
    if column.type not in CHARACTER_TYPES or column.type == _T.BLOB:
        return 0
    if column.collation in (0, BINARY):
        return column.meta
    return column.meta // charsets.collation(charset_of(column.collation))[1]


def same_type(before: Column, after: Column) -> bool:
    """Whether both hold the same values in the same way, apart from name and NULL."""
    text = {c.collation and charset_of(c.collation) for c in (before, after)}
    parts = ("type", "meta", "unsigned", "literals")
    return len(text) == 1 and all(getattr(before, p) == getattr(after, p) for p in parts)


def is_longer(before: Column, after: Column) -> bool:
    """Whether VARCHAR, or VARBINARY, holds the same values and longer ones."""
    varying = before.type == after.type == _T.VARCHAR
    one_set = charset_of(before.collation) == charset_of(after.collation) if varying else False
    return one_set and before.meta <= after.meta


def same_collation(before: Column, after: Column, *, written: bool) -> bool:
    """Whether it is known that texts of both are compared alike. ``written``: whether the statement
    says the column's type, or converts it."""
    if not written or before.type not in (*CHARACTER_TYPES, _T.ENUM, _T.SET):
        return True
    if before.collation == after.collation == BINARY:
        return True
    return before.compares == after.compares != 0


def prints_alike(before: Column, after: Column) -> bool:
    """Whether it is known that values of both are the same as text, and in its other case."""
    other_case = {before.collation, after.collation} & _OTHER_CASE
    return before.detail == after.detail and (not other_case or before.collation == after.collation)
