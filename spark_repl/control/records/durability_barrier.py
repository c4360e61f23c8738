"""DurabilityBarrier: syncs the tables of the newest cut before their sources are removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...delta.log.durable import Durable
from .table_paths import used_paths

if TYPE_CHECKING:
    from ..table.control import Control
    from ..table.layout import Layout


class DurabilityBarrier:
    """Makes one target durable, from one process; thread-safe. A call raises OSError if something
    can't be made durable; nothing may then be removed."""

    def __init__(self, control: Control, layout: Layout) -> None:
        self._control, self._layout = control, layout
        self.durable = Durable(layout.target, layout.durable)

    def __call__(self, *, checkpoint: bool = False) -> None:
        """Sync the tables first, then only the rows that the control table had before: so a cut
        that is durable names durable versions. ``checkpoint``: sync also the control table's
        checkpoint; no process publishes a cut meanwhile."""
        rows = self.durable.newest(self._control.path)
        self.durable.sync_tables(map(self._layout.table, sorted(used_paths(self._control))))
        self.durable.sync(self._control.path, rows)
        if checkpoint:
            self.durable.sync_checkpoint(self._control.path)

    def before_first_sync(self, folder: str) -> None:
        """Pass the barrier if the table at ``folder`` has never been synced, so that the row that
        announces it is also durable. Otherwise, after a power failure, there could be a durable
        table without that row, which would belong to no channel. Raise OSError."""
        if not self.durable.has_synced(folder):
            self()
