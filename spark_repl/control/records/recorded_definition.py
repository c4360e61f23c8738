"""Read recorded definitions, including those of versions that did not record their assumptions.

If no statement declared a table's character set, these versions assumed utf8mb4 or the session's
collation_database. Their records do not distinguish an assumed set from a declared one. A name that
no session's collation_database can have (latin2_general_ci for latin2_9) proves nothing either: a
statement may have declared it after the columns, or for the table that LIKE copied.
"""

from __future__ import annotations

from dataclasses import replace

from ...binlog.charsets.charset import charset_of
from ...sql.charsets import ASSUMED, collation
from ...tables.column import CHARACTER_TYPES, Column
from ...tables.target_table import TargetTable


def recorded_definition(text: str) -> TargetTable:
    """Return the definition in a JSON text. Raise DecodeError for a collation that is not known."""
    definition = TargetTable.from_json(text)
    if '"assumed":' in text:
        return definition
    recorded = definition.charset
    if unsaid := recorded in ("", ASSUMED):
        charset = charset_of(collation(ASSUMED)[0])
    elif "_" in recorded or '"compares":' not in text:  # later versions took a collation's name
        charset = charset_of(collation(recorded)[0])
    else:
        return definition

    def read(column: Column) -> Column:
        # ``compares`` is known only if a statement or a TABLE_MAP declared the collation.
        if column.type not in CHARACTER_TYPES or (unsaid and column.compares):
            return column
        number = column.collation
        return replace(column, assumed=bool(number) and charset_of(number) == charset)

    return replace(definition.with_each_column(read), charset=recorded if unsaid else ASSUMED)
