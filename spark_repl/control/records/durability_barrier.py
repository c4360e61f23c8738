"""Settle: all that the newest cut stands on is on the disk, before what it was made from goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...delta.durable import Durable
from .table_paths import used_paths

if TYPE_CHECKING:
    from ..table.control import Control
    from ..table.layout import Layout


class DurabilityBarrier:
    """Makes one target durable, from one process; safe from any thread. Called it raises OSError
    when something can't be made durable: then nothing may be removed."""

    def __init__(self, control: Control, layout: Layout) -> None:
        self._control, self._layout = control, layout
        self.durable = Durable(layout.target, layout.durable)

    def __call__(self, *, checkpoint: bool = False) -> None:
        """Tables first, and of the control table no more than there was before: a cut that is on
        the disk names versions that are. ``checkpoint``: that of the control table too, while
        nobody publishes a cut."""
        rows = self.durable.newest(self._control.path)
        for path in sorted(used_paths(self._control)):
            self.durable.sync(self._layout.table(path))
        self.durable.sync(self._control.path, rows)
        if checkpoint:
            self.durable.sync_checkpoint(self._control.path)
