"""What a target's table is of the source's (``mode`` of ``[[tables]]``): its mirror, or a bag of
the rows that were ever inserted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import SettingError
from .extra_columns import keeps_deleted

if TYPE_CHECKING:
    from ..binlog.definition import TableDefinition

APPEND = "append"


def in_mode(table: TableDefinition, mode: str) -> TableDefinition:
    """The target's table, which was shaped as a mirror. Its rows are not told apart by the key."""
    if mode != APPEND:
        return table
    return replace(table, mode=mode, logged_key=table.primary_key, primary_key=())


def appends(table: TableDefinition | None) -> bool:
    """Whether rows come alone, and none goes."""
    return table is not None and table.mode == APPEND


def outlives_source(table: TableDefinition) -> bool:
    """Whether the target's table keeps rows that the source has deleted, which no copy has."""
    return appends(table) or keeps_deleted(table)


def check_mode(there: TableDefinition, wanted: str, reason: str) -> None:
    """Raises SettingError with the ``reason`` where a rule's mode is not the table's."""
    if (there.mode or "mirror") != wanted:
        raise SettingError(
            f'{reason} (mode "{wanted}", not "{there.mode or "mirror"}")',
            table=there.name,
            hint="give both names one mode, take the change back, or use an empty target",
        )
