"""NULL or NOT NULL of columns as they are written, and the defaults that servers before 8.0 give to
TIMESTAMP (explicit_defaults_for_timestamp = OFF)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..tables.column import Column, ColumnType
from .columns import finished
from .default_clause import NOT_KNOWN, Default
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
    written = [in_column(one, charset) for one in with_timestamps(clauses, session)]
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
            kept = column.type in (ColumnType.TIMESTAMP, ColumnType.TIMESTAMP_OLD)
            first &= not (kept and not column.nullable)
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
