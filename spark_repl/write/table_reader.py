"""TableReader: a table of the target as its own commits say that it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..control.by_hand import makes_rows_differ
from ..control.copies import consistent_paths
from ..control.foreign_changes import foreign_changes
from ..ddl.lower_names import folded_definition
from ..ddl.renamed import rename
from ..delta import features
from ..delta.columns import Columns
from ..errors import TargetError
from ..gtid import GtidSet
from .own_metadata import COMPLETE, COPIED, DEFINITION, created, held_gtids
from .table import Table

if TYPE_CHECKING:
    from ..binlog.definition import TableDefinition
    from ..control.control import Control
    from ..control.cut import Cut
    from ..control.definitions import Definitions
    from ..control.name_case import NameCase
    from ..delta.table_log import Snapshot, TableLog


class TableReader:
    """Reads tables of the channel whose commits bear ``app``; ``direct``: for which writer."""

    def __init__(
        self,
        control: Control,
        delta: TableLog,
        definitions: Definitions,
        names: NameCase,
        app: str,
        *,
        direct: bool,
    ) -> None:
        self._control, self._delta, self._app = control, delta, app
        self._definitions, self._names, self._direct = definitions, names, direct
        self._consistent: frozenset[str] = frozenset()
        self._decided = False  # then any table may have keys that no log holds
        self._changed: frozenset[str] = frozenset()

    def load(self) -> None:
        """Reads which tables have no rows but the log's."""
        own = self._names.of
        self._changed = frozenset(own(change.name) for change in foreign_changes(self._control))
        self._consistent = consistent_paths(self._control)
        self._decided = makes_rows_differ(self._control)

    def at(self, name: str, path: str, snapshot: Snapshot, cut: Cut | None) -> Table:
        """A table as it is, and, where it is ahead of the cut, as the log has it at the cut.
        Raises TargetError."""
        table = self.made(name, path, snapshot)
        executed = GtidSet.parse(cut.gtid_executed) if cut else GtidSet()
        at_cut = self._definitions.at(path, cut.position if cut else -1, executed)
        table.definition = self._named(name, at_cut or created(snapshot))
        if self._definitions.has(path) and (not cut or table.position > cut.position):
            held = executed.union(held_gtids(snapshot, self._app) or GtidSet())
            table.logged = table.definition
            now = self._definitions.at(path, table.position, held)
            table.definition = self._named(name, now or created(snapshot))
        table.complete &= name not in self._changed
        return table

    def made(self, name: str, path: str, snapshot: Snapshot) -> Table:
        """A table as it was created. Raises TargetError."""
        properties, position = snapshot.configuration, self._delta.last_txn(snapshot, self._app)
        if DEFINITION not in properties or position is None:
            raise TargetError(
                "the Delta table at this path was not made by this channel",
                table=name, file=snapshot.folder, hint="move it away, or use another target",
            )  # fmt: skip
        features.check(snapshot, direct=self._direct, table=name)
        complete = properties.get(COMPLETE)
        return Table(
            name,
            path,
            snapshot.folder,
            self._named(name, created(snapshot)),
            not self._decided
            and (complete == "true" or (complete == COPIED and path in self._consistent)),
            snapshot,
            position,
            Columns.of(snapshot.schema_string, snapshot.partition_columns),
        )

    def _named(self, name: str, definition: TableDefinition) -> TableDefinition:
        """The definition under the name that the table has now."""
        if definition.name != name and not self._names.folds:
            return rename(definition, name)
        return folded_definition(definition) if self._names.folds else definition
