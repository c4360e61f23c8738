"""Fold names to the case in which others compare them: Spark, and a source with
lower_case_table_names = 1 or 2.

Such a source has names in lower case in its TABLE_MAPs. It logs statements as they were written.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import SettingError

if TYPE_CHECKING:
    from .table_definition import Definition, TableDefinition

CASE_HINT = (
    "set source.lower_case_table_names to what the source has: 0 (names of other letters are other"
    " tables), 1 or 2"
)
"""what to do if it is not known whether the source folds names"""


def fold(name: str) -> str:
    """Return ``name`` in lower case as MySQL folds it: one character always becomes one
    character."""
    if name.isascii():
        return name.lower()
    return "".join(char.lower()[0] for char in name)


def letter_case_error(name: str, rules: str, log: str, hint: str = CASE_HINT) -> SettingError:
    """Return the error for a table of the log whose name differs from a name in ``rules`` only by
    case. ``log``: what the log shows about whether the source folds names."""
    return SettingError(
        f"a rule of {rules} has the name {name} with other letters, and the log {log} the source"
        " takes them for the same",
        table=name,
        hint=hint,
    )


def check_columns(definition: TableDefinition) -> None:
    """Raise SettingError if two columns have the same name for Spark and Delta, which compare names
    in lower case. For some letters MySQL does not fold case (Cherokee, Glagolitic, Georgian)."""
    seen: dict[str, str] = {}
    for column in definition.columns:
        other = seen.setdefault(column.name.lower(), column.name)
        if other is not column.name:
            raise same_name_error(other, column.name, definition.name)


def same_name_error(name: str, other: str, table: str) -> SettingError:
    """Return the error for a table with two columns that Spark can't distinguish."""
    return SettingError(
        f"Spark takes the names of columns {name} and {other} for one",
        table=table,
        hint="leave out one of the columns (exclude in [[tables]]), or the table"
        " (filters.ignore_table)",
    )


def folded_definition(definition: Definition) -> Definition:
    """Return the definition with the names of its database and tables folded."""
    return replace(
        definition,
        database=fold(definition.database),
        table=fold(definition.table),
        source_name=fold(definition.source_name),
    )
