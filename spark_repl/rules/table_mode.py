"""The mode of a table (``mode`` of ``[[tables]]``): a mirror of the source's table, all rows that
were ever inserted (append), all row images of the log (changelog), or all versions of rows
(history)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import SettingError, StatementError, reset_table
from ..tables.target_table import CHANGELOG, HISTORY

if TYPE_CHECKING:
    from ..tables.target_table import TargetTable

MIRROR = "mirror"


def in_mode(table: TargetTable, mode: str) -> TargetTable:
    """Return the target's table, which is a mirror so far, in a ``mode``. Other modes do not
    identify rows by the key. Raise SettingError if the table cannot have the mode."""
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


def check_without_rows(table: TargetTable) -> None:
    """Raise SettingError for a target's table that cannot start without rows."""
    if not table.mode and not table.primary_key:
        raise SettingError(
            'copy = "none": the table has no key, by which a change of a row from before the copy'
            " is told from one of a row that came since",
            table=table.name,
            hint='give it a key; or set mode = "append" or "changelog" beside copy = "none"',
        )


def nullable(table: TargetTable) -> TargetTable:
    """Return a changelog's table with nullable columns: its rows may lack values of the source's
    columns. NOT NULL holds only for the log's rows."""
    columns = (
        column if column.nullable else replace(column, nullable=True, logged=column.as_logged)
        for column in table.columns
    )
    return replace(table, columns=tuple(columns))


def keeps_removed_rows(table: TargetTable) -> bool:
    """Return whether the target keeps rows that are removed from the source's partitions. Raise
    StatementError if the table's mode would have to record each removed row."""
    if table.keeps_images:
        raise StatementError(
            "the statement takes rows of which the log tells none, and the table (mode"
            f' = "{table.mode}") would not say that they went',
            table=table.name,
            hint="if the table need not show it, leave the statement out: spark-repl skip"
            " --config F --gtid GTID",
        )
    return table.appends


def check_mode(table: TargetTable, wanted: str, reason: str) -> None:
    """Raise SettingError with the ``reason`` if the ``wanted`` mode is not the table's."""
    if (table.mode or MIRROR) != wanted:
        raise SettingError(
            f'{reason} (mode "{wanted}", not "{table.mode or MIRROR}")',
            table=table.name,
            hint=f"give both names one mode, take the change back, or {reset_table(table.name)}",
        )
