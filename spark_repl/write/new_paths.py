"""NewPaths: gives each table that is made a folder which no table had before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..control.layout import Layout
from ..control.table_paths import copied_paths, used_paths
from ..delta import storage
from ..errors import TargetError

if TYPE_CHECKING:
    from ..binlog.definition import TableDefinition
    from ..control.control import Control
    from ..delta.table_log import TableLog


class NewPaths:
    """The control table is read at the start: this process alone gives paths from then on, but for
    those of copies, which are made beside."""

    def __init__(self, control: Control, layout: Layout) -> None:
        self._control, self._layout = control, layout
        self._used: set[str] = set()

    def load(self) -> None:
        self._used = used_paths(self._control)

    def new(self, definition: TableDefinition, delta: TableLog) -> str:
        """A path for the table: ``db/t``, or ``db/t@2`` and so on where that was used. Raises
        TargetError for a Delta table there that this channel did not make."""
        path = Layout.path_of(definition.database, definition.table)
        known = path in self._used
        if known or storage.exists(self._layout.table(path)):
            # What is there may be of an owner that has taken over: the control table says so.
            self._used |= (copied_paths if known else used_paths)(self._control)
            if path not in self._used and delta.snapshot(self._layout.table(path)) is not None:
                raise TargetError(
                    "there is a Delta table already that this channel did not make",
                    table=definition.name, file=self._layout.table(path),
                    hint="move it away, or use another target",
                )  # fmt: skip
            path = self._layout.fresh_path(definition.database, definition.table, self._used)
        self._used.add(path)
        return path
