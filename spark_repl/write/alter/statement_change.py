"""StatementChange: what a statement does to a table, in one commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import about_table

if TYPE_CHECKING:
    from ...control.cut import Cut
    from ...delta.log_replay import Action
    from ...delta.snapshot import NewTable
    from ..tables.table import Table
    from ..tables.tracking import Tracking


@dataclass(frozen=True)
class StatementChange:
    """``new``: what becomes of the metadata, None: it stays. ``files``: those that were made for
    it."""

    new: NewTable | None = None
    actions: Sequence[Action] = ()
    files: Sequence[str] = ()

    def send(self, tracking: Tracking, table: Table, cut: Cut) -> int:
        """Commits it, as what comes before ``cut``; returns the version."""
        delta, planned, stamp = tracking.delta, table.snapshot, tracking.stamp(cut)
        with about_table(table.name):
            actions = list(self.actions)
            if self.new is None:
                return delta.commit(planned, actions, stamp)
            return delta.alter(planned, self.new, actions, stamp)
