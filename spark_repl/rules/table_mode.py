"""What a target's table is of the source's (``mode`` of ``[[tables]]``): its mirror, a bag of the
rows that were ever inserted, all row images that the log ever had, or all versions of its rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import SettingError, StatementError, reset_table
from .metadata_columns import keeps_deleted

if TYPE_CHECKING:
    from ..tables.table_definition import TableDefinition

MIRROR, APPEND, CHANGELOG, HISTORY = "mirror", "append", "changelog", "history"
OF_IMAGES = (CHANGELOG, HISTORY)
"""those in which each row image counts, none folded with another"""


def in_mode(table: TableDefinition, mode: str) -> TableDefinition:
    """The target's table, which was shaped as a mirror. Its rows are not told apart by the key.
    Raises SettingError for a table that can't be in that mode."""
    if mode == MIRROR:
        return table
    if mode == HISTORY and not table.primary_key:
        raise SettingError(
            'mode = "history": the table has no key, by which the versions of a row are found',
            table=table.name,
            hint='give it a key, or another mode: "changelog" needs none',
        )
    own = replace(table, mode=mode, logged_key=table.primary_key, primary_key=())
    return nullable(own) if mode == CHANGELOG else own


def check_without_rows(table: TableDefinition) -> None:
    """Raise SettingError for a target's table that can't begin without rows."""
    if not table.mode and not table.primary_key:
        raise SettingError(
            'copy = "none": the table has no key, by which a change of a row from before the copy'
            " is told from one of a row that came since",
            table=table.name,
            hint='give it a key; or set mode = "append" or "changelog" beside copy = "none"',
        )


def nullable(table: TableDefinition) -> TableDefinition:
    """A changelog's table, in which a row may say nothing of the source's columns: NOT NULL is what
    the log's rows have alone."""
    columns = (
        column
        if column.nullable
        else replace(column, nullable=True, logged=column.logged or column)
        for column in table.columns
    )
    return replace(table, columns=tuple(columns))


def appends(table: TableDefinition | None) -> bool:
    """Whether no row goes, whatever becomes of the source's."""
    return table is not None and bool(table.mode)


def outlives_source(table: TableDefinition) -> bool:
    """Whether the target's table keeps rows that the source has deleted, which no copy has."""
    return appends(table) or keeps_deleted(table)


def keeps_more(table: TableDefinition) -> bool:
    """Return whether the target's table has, or may have, rows or columns that the source has no
    longer: a copy of the source's table lacks them."""
    left = table.dropped or table.truncated or any(column.kept for column in table.columns)
    return left or outlives_source(table)


def logs_changes(table: TableDefinition | None) -> bool:
    """Whether each image of the log's is a row."""
    return table is not None and table.mode == CHANGELOG


def has_versions(table: TableDefinition | None) -> bool:
    """Whether each version of a row is a row."""
    return table is not None and table.mode == HISTORY


def keeps_removed_rows(table: TableDefinition) -> bool:
    """Whether rows stay that the source's partitions lose. Raises StatementError where the table
    would have to say of each of them that it went."""
    if table.mode in OF_IMAGES:
        raise StatementError(
            "the statement takes rows of which the log tells none, and the table (mode"
            f' = "{table.mode}") would not say that they went',
            table=table.name,
            hint="if the table need not show it, leave the statement out: spark-repl skip"
            " --config F --gtid GTID",
        )
    return appends(table)


def check_mode(table: TableDefinition, wanted: str, reason: str) -> None:
    """Raises SettingError with the ``reason`` where a rule's mode is not the table's."""
    if (table.mode or MIRROR) != wanted:
        raise SettingError(
            f'{reason} (mode "{wanted}", not "{table.mode or MIRROR}")',
            table=table.name,
            hint=f"give both names one mode, take the change back, or {reset_table(table.name)}",
        )
