"""What a target's table is of the source's (``mode`` of ``[[tables]]``): its mirror, a bag of the
rows that were ever inserted, or of all row images that the log ever had."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import SettingError, StatementError
from .extra_columns import keeps_deleted

if TYPE_CHECKING:
    from ..binlog.definition import TableDefinition

MIRROR, APPEND, CHANGELOG = "mirror", "append", "changelog"


def in_mode(table: TableDefinition, mode: str) -> TableDefinition:
    """The target's table, which was shaped as a mirror. Its rows are not told apart by the key."""
    if mode not in (APPEND, CHANGELOG):
        return table
    return replace(table, mode=mode, logged_key=table.primary_key, primary_key=())


def appends(table: TableDefinition | None) -> bool:
    """Whether rows come alone, and none goes."""
    return table is not None and table.mode in (APPEND, CHANGELOG)


def outlives_source(table: TableDefinition) -> bool:
    """Whether the target's table keeps rows that the source has deleted, which no copy has."""
    return appends(table) or keeps_deleted(table)


def logs_changes(table: TableDefinition | None) -> bool:
    """Whether each image of the log's is a row."""
    return table is not None and table.mode == CHANGELOG


def keeps_rows(table: TableDefinition, *, ignored: bool = False) -> bool:
    """Whether rows stay that a statement takes on the source. Raises StatementError where the table
    has a row for each of them otherwise, unless its policy has such statements ``ignored``."""
    if logs_changes(table) and not ignored:
        raise StatementError(
            "the statement takes rows of which the log tells none, and a changelog would not say"
            " that they went",
            table=table.name,
            hint='on_ddl = "ignore_drop" passes over TRUNCATE; or leave the statement out'
            " (spark-repl skip)",
        )
    return appends(table)


def check_mode(there: TableDefinition, wanted: str, reason: str) -> None:
    """Raises SettingError with the ``reason`` where a rule's mode is not the table's."""
    if (there.mode or MIRROR) != wanted:
        raise SettingError(
            f'{reason} (mode "{wanted}", not "{there.mode or MIRROR}")',
            table=there.name,
            hint="give both names one mode, take the change back, or use an empty target",
        )
