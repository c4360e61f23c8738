"""Character sets and collations that no statement declared, as TABLE_MAPs log them.

A column without CHARACTER SET has its table's, and a table its database's. If that is not known,
utf8mb4 is assumed (``Column.assumed``) until the log has a row of the table.
"""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import TypeVar

from ..binlog.charsets.charset import charset_of, name_of
from ..sql.charsets import ASSUMED, collation
from ..sql.column_type import collation_name
from ..tables.column import BINARY, CHARACTER_TYPES, Column
from ..tables.source_table import SourceTable
from ..tables.target_table import TargetTable

Table = TypeVar("Table", SourceTable, TargetTable)


def with_logged_charsets(definition: Table, logged: SourceTable) -> Table:
    """Return the definition with the character sets and collations of columns that a TABLE_MAP of
    the table logs. Return the same object if none is new."""
    existing, charset, columns = definition.source_columns, definition.charset, list[Column]()
    for column, theirs in zip(existing, logged.columns, strict=True):
        columns.append(_with_logged(column, theirs))
        if columns[-1] is not column and column.assumed and charset in ("", ASSUMED):
            charset = name_of(theirs.compares)
    if all(map(operator.is_, columns, existing)):
        return definition
    return replace(definition.with_source_columns(tuple(columns)), charset=charset)


def changes_charset(after: TargetTable, before: TargetTable) -> bool:
    """Return whether a column's character set changed, or was assumed, between the argument
    ``before`` and the result ``after`` of ``with_logged_charsets``."""
    pairs = zip(after.source_columns, before.source_columns, strict=True)
    return any(a.collation != b.collation or a.assumed != b.assumed for a, b in pairs)


def _with_logged(column: Column, logged: Column) -> Column:
    if column.type not in CHARACTER_TYPES or column.type != logged.type or not logged.compares:
        return column
    if column.compares == logged.compares and not column.assumed:
        return column
    number = column.collation
    if BINARY in (number, logged.collation):  # both are binary, or the rows do not fit
        return column
    if charset_of(number) != charset_of(logged.compares):
        number = collation(collation_name(logged.compares))[0]
    return replace(
        column, collation=number, meta=logged.meta, compares=logged.compares, assumed=False
    )
