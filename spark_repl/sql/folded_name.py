"""Names as others compare them: a source with lower_case_table_names = 1 or 2, and Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import SettingError

if TYPE_CHECKING:
    from ..tables.table_definition import TableDefinition

CASE_HINT = (
    "set source.lower_case_table_names to what the source has: 0 (names of other letters are other"
    " tables), 1 or 2"
)
"""what to do where nobody has said whether the source folds names"""


def fold(name: str) -> str:
    """``name`` in lower case as MySQL has it: one character becomes one."""
    if name.isascii():
        return name.lower()
    return "".join(char.lower()[0] for char in name)


def unlike_rule(name: str, rules: str, log: str, hint: str = CASE_HINT) -> SettingError:
    """Rows of a table came whose name one of the ``rules`` has with other letters; ``log``: what
    that says, or does not say, of whether the source takes them for the same."""
    return SettingError(
        f"a rule of {rules} has the name {name} with other letters, and the log {log} the source"
        " takes them for the same",
        table=name,
        hint=hint,
    )


def check_columns(definition: TableDefinition) -> None:
    """Raise SettingError if two columns have one name for Spark and Delta, which compare names in
    lower case. MySQL has no other case for some letters (Cherokee, Glagolitic, Georgian)."""
    seen: dict[str, str] = {}
    for column in definition.columns:
        other = seen.setdefault(column.name.lower(), column.name)
        if other is not column.name:
            raise one_for_spark(other, column.name, definition.name)


def one_for_spark(name: str, other: str, table: str) -> SettingError:
    """Return the error for a table with two columns that Spark can't tell apart."""
    return SettingError(
        f"Spark takes the names of columns {name} and {other} for one",
        table=table,
        hint="leave out one of the columns (exclude in [[tables]]), or the table"
        " (filters.ignore_table)",
    )
