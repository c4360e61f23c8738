"""NewPaths: gives each table that is made a folder which no table had before."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ...config.renaming import whole_of
from ...control.given_paths import GivenPaths
from ...control.layout import Layout
from ...control.other_channels import OtherChannels
from ...control.table_paths import check_free, copied_paths, given_paths, newest_copy
from ...delta import storage
from ...errors import TargetError
from ...rules.metadata_columns import shard_column

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from ...control.control import Control
    from ...delta.table_log import TableLog
    from ...tables.table_definition import TableDefinition


class NewPaths:
    """This process alone gives paths to tables, and reads at the start which were given. Copies are
    planned beside, so their paths are asked for each time. Safe to call from several threads."""

    def __init__(self, control: Control, layout: Layout) -> None:
        self._control, self._layout = control, layout
        self._others = OtherChannels(control, layout.target)
        self._used = GivenPaths()
        self._copy: datetime | None = None  # when the row of the newest copy was written
        self._lock = threading.Lock()

    def load(self) -> None:
        self._copy = newest_copy(self._control)
        self._used = given_paths(self._control, self._others.given)

    def new(self, definition: TableDefinition, delta: TableLog, beside: Iterable[str] = ()) -> str:
        """A path for the table: ``db/t``, or ``db/t@2`` and so on where that was used; of a shard
        in the Delta table of those whose paths are ``beside``. Raises TargetError for a Delta table
        there that this channel did not make."""
        if shard_column(definition) < 0:
            return self._of(definition, definition.table, delta)
        whole = next(map(whole_of, beside), "") or self.whole(definition, delta)
        return self.shard(whole)

    def whole(self, shard: TableDefinition, delta: TableLog) -> str:
        """A path for the Delta table that a shard is to be in. Raises as ``new``."""
        return self._of(shard, whole_of(shard.table), delta)

    def shard(self, whole: str, *, shared: bool = False) -> str:
        """A path for a shard in the Delta table at ``whole``; ``shared``: other channels feed that,
        too."""
        with self._lock:
            path = Layout.shard_path(whole, self._used, shared=shared)
            self._used.add(path)
            return path

    def check(self, path: str) -> None:
        """Raise ConcurrentChangeError if a copy that was planned meanwhile has the path, or the
        Delta table that it is in."""
        if newest_copy(self._control) != self._copy:
            check_free(self._control, [path, whole_of(path)], copied_paths(self._control))

    def _of(self, definition: TableDefinition, table: str, delta: TableLog) -> str:
        path = Layout.path_of(definition.database, table)
        folder = self._layout.table(path)
        with self._lock:
            if (newest := newest_copy(self._control)) != self._copy:
                self._used.known |= copied_paths(self._control)
                self._copy = newest
            if path not in self._used and storage.exists(folder):
                # What is there may be of an owner that has taken over: the control table says so.
                self._used.add_all(given_paths(self._control))
                if path not in self._used and delta.snapshot(folder) is not None:
                    raise TargetError(
                        "there is a Delta table already that this channel did not make",
                        table=definition.name, file=folder,
                        hint="move it away, or use another target",
                    )  # fmt: skip
            path = self._layout.fresh_path(definition.database, table, self._used)
            self._used.add(path)
            return path
