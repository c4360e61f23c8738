"""Character sets and collations that no statement has said, taken over from TABLE_MAPs.

A statement without CHARACTER SET or COLLATE takes the table's or the database's, which its event
does not say. Statements on a table and cascades to it may come where no TABLE_MAP of it is near:
what earlier ones said is kept.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ...alter.declared_charsets import says_charset, told_by
from ...rules.disjoint_filters import check_as_told
from ...sql.folded_name import fold

if TYPE_CHECKING:
    from ...control.cut import Cut
    from ...tables.table_definition import TableDefinition
    from .table import Table
    from .tracking import Tracking


class ToldCollations:
    """Records what the log tells of one group's tables: each character set, collations of those
    with foreign keys; which tables others refer to is asked once."""

    def __init__(self, tracking: Tracking, before: Cut) -> None:
        self._tracking, self._before = tracking, before

    @cached_property
    def _parents(self) -> set[str]:
        known = self._tracking.foreign_keys().values()
        return {fold(key.parent) for keys in known for key in keys or ()}

    def take(self, table: Table, logged: TableDefinition) -> None:
        """Records it behind ``before``, once, with the next row of the control table. Raises
        SettingError where channels tell their rows apart by what was taken for known."""
        there = table.at_place
        told = told_by(there, logged)
        if told is there:
            return
        check_as_told(there, told)
        if not says_charset(told, there) and (
            there.in_log is not there  # no cascade goes there
            or not (there.foreign_keys or fold(table.name) in self._parents)
        ):
            return
        if table.logged is not None:  # it is ahead, and has been told
            table.take_at_place(told)
        else:
            self._tracking.definitions.record(
                table.path, told, self._before.position, with_next=True
            )
            table.definition = told
