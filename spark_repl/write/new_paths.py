"""NewPaths: gives each table that is made a folder which no table had before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..config.renaming import whole_of
from ..control.layout import Layout
from ..control.table_paths import copied_paths, used_paths
from ..ddl.extra_columns import shard_column
from ..delta import storage
from ..errors import TargetError

if TYPE_CHECKING:
    from collections.abc import Iterable

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
        self._used = _with_wholes(used_paths(self._control))

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
        path = Layout.shard_path(whole, self._used, shared=shared)
        self._used.add(path)
        return path

    def _of(self, definition: TableDefinition, table: str, delta: TableLog) -> str:
        path = Layout.path_of(definition.database, table)
        known = path in self._used
        if known or storage.exists(self._layout.table(path)):
            # What is there may be of an owner that has taken over: the control table says so.
            self._used |= _with_wholes((copied_paths if known else used_paths)(self._control))
            if path not in self._used and delta.snapshot(self._layout.table(path)) is not None:
                raise TargetError(
                    "there is a Delta table already that this channel did not make",
                    table=definition.name, file=self._layout.table(path),
                    hint="move it away, or use another target",
                )  # fmt: skip
            path = self._layout.fresh_path(definition.database, table, self._used)
        self._used.add(path)
        return path


def _with_wholes(paths: set[str]) -> set[str]:
    """The paths, and those of the Delta tables that shards are in."""
    return paths | set(map(whole_of, paths))
