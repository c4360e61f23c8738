"""Character sets and collations that no statement declared, as TABLE_MAPs log them.

A column without CHARACTER SET has its table's, and a table its database's. If that is not known,
utf8mb4 is assumed (``Column.assumed``) until the log has a row of the table.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..binlog.charsets.charset import charset_of, name_of
from ..sql.charsets import ASSUMED, collation
from ..sql.column_type import collation_name
from ..tables.column import BINARY, CHARACTER_TYPES

if TYPE_CHECKING:
    from ..tables.column import Column
    from ..tables.table_definition import TableDefinition


def with_logged_charsets(definition: TableDefinition, logged: TableDefinition) -> TableDefinition:
    """Return the definition with the character sets and collations of columns that a TABLE_MAP of
    the table logs. Return the same object if none is new."""
    columns, withheld = list(definition.columns), dict(definition.withheld)
    charset, new = definition.charset, False
    for number, (own, theirs) in enumerate(zip(definition.own, logged.columns, strict=True)):
        column = withheld[number] if own < 0 else columns[own].logged or columns[own]
        declared = _with_logged(column, theirs)
        if declared is column:
            continue
        new = True
        if column.assumed and charset in ("", ASSUMED):
            charset = name_of(theirs.compares)
        if own < 0:
            withheld[number] = declared
        elif columns[own].logged:
            columns[own] = replace(columns[own], logged=declared)
        else:
            columns[own] = declared
    if not new:
        return definition
    pairs = tuple(sorted(withheld.items()))
    return replace(definition, columns=tuple(columns), withheld=pairs, charset=charset)


def changes_charset(after: TableDefinition, before: TableDefinition) -> bool:
    """Return whether a column's character set changed, or was assumed, between the argument
    ``before`` and the result ``after`` of ``with_logged_charsets``."""
    pairs = zip(after.in_log.columns, before.in_log.columns, strict=True)
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
