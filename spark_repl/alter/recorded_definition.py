"""Definitions as they are recorded, also by versions that did not say what they had assumed.

Where no statement said a table's character set, these took it for utf8mb4, or for the session's
collation_database: in what they wrote the one looks like a set that was said. Nor does it tell that
a name is one which no session's had (latin2_general_ci for latin2_9): a statement may have said it
behind the columns, or of the table that LIKE has copied.
"""

from __future__ import annotations

from dataclasses import replace

from ..binlog.charsets.charset import charset_of
from ..sql.charsets import ASSUMED, collation
from ..tables.column import CHARACTER_TYPES, Column
from ..tables.table_definition import TableDefinition


def recorded_definition(text: str) -> TableDefinition:
    """The definition of a JSON. Raises DecodeError for a collation that is not known."""
    definition = TableDefinition.from_json(text)
    if '"assumed":' in text:
        return definition
    recorded = definition.charset
    if unsaid := recorded in ("", ASSUMED):
        charset = charset_of(collation(ASSUMED)[0])
    elif "_" in recorded or '"compares":' not in text:  # later a session's was a collation's name
        charset = charset_of(collation(recorded)[0])
    else:
        return definition

    def read(column: Column) -> Column:
        if column.logged:
            column = replace(column, logged=read(column.logged))
        # The number of a collation is known where a statement or a TABLE_MAP has said it.
        if column.type not in CHARACTER_TYPES or (unsaid and column.compares):
            return column
        number = column.collation
        return replace(column, assumed=bool(number) and charset_of(number) == charset)

    return replace(
        definition,
        columns=tuple(map(read, definition.columns)),
        withheld=tuple((number, read(column)) for number, column in definition.withheld),
        charset=recorded if unsaid else ASSUMED,
    )
