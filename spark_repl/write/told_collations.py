"""Collations that no statement has said, taken over from TABLE_MAPs of tables with foreign keys.

A statement without COLLATE takes the database's, which its event seldom says. A cascade goes to
tables that may be in no TABLE_MAP of its group: what earlier ones said is kept.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ..ddl.lower_names import fold
from ..decode.cascade_plan import told_by

if TYPE_CHECKING:
    from ..binlog.definition import TableDefinition
    from ..control.cut import Cut
    from .table import Table
    from .tracking import Tracking


class ToldCollations:
    """Records the collations that the log tells of one group's tables; which tables others refer to
    is asked once."""

    def __init__(self, tracking: Tracking, before: Cut) -> None:
        self._tracking, self._before = tracking, before

    @cached_property
    def _parents(self) -> set[str]:
        known = self._tracking.foreign_keys().values()
        return {fold(key.parent) for keys in known for key in keys or ()}

    def take(self, table: Table, logged: TableDefinition) -> None:
        """Records them behind ``before``, once. Raises what ``Control.write`` raises."""
        if table.at_place.in_log is not table.at_place:
            return  # no cascade goes there
        told = told_by(table.definition_in_log, logged)
        if told.columns_compare == table.definition_in_log.columns_compare:
            return
        if table.logged is not None:  # it is ahead, and has been told
            table.take_at_place(told)
        elif table.definition.foreign_keys or fold(table.name) in self._parents:
            self._tracking.definitions.record(table.path, told, self._before.position)
            table.definition = told
