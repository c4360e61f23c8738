"""TableReader: reads a table of the target from its own commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...alter.rename import rename
from ...config.renaming import SHARD, is_shared, shard_of
from ...control.records.copies import consistent_paths
from ...control.records.operator_decisions import makes_rows_differ
from ...control.records.table_notes import foreign_changes
from ...control.records.table_paths import made_by_statements
from ...delta.files.delta_columns import Columns
from ...delta.log import table_protocol
from ...errors import TargetError
from ...gtid import GtidSet
from ...tables.case_folding import folded_definition
from ..shared.shard_tables import columns_of
from ..shared.shared_commits import SharingChannels
from .table import DeltaState, Table
from .table_metadata import COMPLETE, COPIED, DEFINITION, created, recorded_gtids

if TYPE_CHECKING:
    from ...control.records.definitions import Definitions
    from ...control.records.name_case import NameCase
    from ...control.table.control import Control
    from ...control.table.cut import Cut
    from ...delta.log.table_log import TableLog
    from ...delta.log.table_snapshot import Snapshot
    from ...tables.target_table import TargetTable
    from .target_options import TargetOptions


class TableReader:
    """Reads tables of the channel whose commits have the appId ``app``."""

    def __init__(
        self,
        control: Control,
        delta: TableLog,
        definitions: Definitions,
        names: NameCase,
        app: str,
        options: TargetOptions,
    ) -> None:
        self._control, self._delta, self._app = control, delta, app
        self._definitions, self._names, self._options = definitions, names, options
        self._consistent: frozenset[str] = frozenset()
        self.created_paths = set[str]()  # of tables that statements create
        self._decided = False  # if True, any table may have keys that no log has
        self._changed: frozenset[str] = frozenset()

    def load(self) -> None:
        """Determine which tables have only rows from the log."""
        own = self._names.of
        self._changed = frozenset(own(change.name) for change in foreign_changes(self._control))
        self._consistent = consistent_paths(self._control)
        self.created_paths = made_by_statements(self._control)
        self._decided = makes_rows_differ(self._control)

    def read(
        self, name: str, path: str, snapshot: Snapshot, cut: Cut | None, beside: Table | None
    ) -> Table:
        """Return a table in its current state. If it is ahead of the cut, its ``logged`` is the
        definition that the log has at the cut. ``beside``: another shard in its Delta table. Raise
        TargetError."""
        table = self.read_created(name, path, snapshot, beside)
        executed = GtidSet.parse(cut.gtid_executed) if cut else GtidSet()
        at_cut = self._definitions.at(path, cut.position if cut else -1, executed)
        table.definition = self._named(name, at_cut or self._created(path, snapshot))
        if self._definitions.has(path) and (not cut or table.position > cut.position):
            executed_by_table = executed.union(recorded_gtids(snapshot, self._app) or GtidSet())
            table.logged = table.definition
            now = self._definitions.at(path, table.position, executed_by_table)
            table.definition = self._named(name, now or self._created(path, snapshot))
            if table.definition == table.logged:
                table.logged = None
        if table.is_shard:
            table.columns = columns_of(table.all_columns, table.definition)
        table.complete &= name not in self._changed
        return table

    def read_created(
        self, name: str, path: str, snapshot: Snapshot, beside: Table | None = None
    ) -> Table:
        """Return a table with the definition that it had when it was created. ``beside``: another
        shard in its Delta table. Raise TargetError."""
        properties, position = snapshot.configuration, self._delta.last_txn(snapshot, self._app)
        if DEFINITION not in properties or position is None:
            raise TargetError(
                "the Delta table at this path was not made by this channel",
                table=name, file=snapshot.folder, hint="move it away, or use another target",
            )  # fmt: skip
        table_protocol.check(snapshot, table=name)
        complete = properties.get(COMPLETE)
        definition = self._named(name, self._created(path, snapshot))
        columns = Columns.of(snapshot.schema_string, snapshot.partition_columns)
        if shard := SHARD in path:
            complete = "true" if path in self.created_paths else COPIED
            columns = columns_of(columns, definition)
        table = Table(
            name,
            path,
            snapshot.folder,
            definition,
            not self._decided
            and (complete == "true" or (complete == COPIED and path in self._consistent)),
            beside.delta if shard and beside else self._state(name, path, snapshot, position),
            columns,
        )
        if table.is_shared:
            table.delta.own_shards.add(shard_of(name))
        return table

    def _state(self, name: str, path: str, snapshot: Snapshot, position: int) -> DeltaState:
        """Return the state of a Delta table, with the other channels that feed it."""
        state = DeltaState(snapshot, position)
        if is_shared(path):
            rule = self._options.rules_of(name, folds=self._names.folds)
            state.sharing = SharingChannels.beside(self._control.channel, rule.channels)
            state.tidies = self._control.channel in rule.channels[:1]
        return state

    def _created(self, path: str, snapshot: Snapshot) -> TargetTable:
        """Return the definition that the table was created with; for a shard, the first that is
        recorded."""
        first = self._definitions.first(path) if SHARD in path else None
        return first or created(snapshot)

    def _named(self, name: str, definition: TargetTable) -> TargetTable:
        """Return the definition with the table's present name."""
        if definition.name != name and not self._names.folds:
            return rename(definition, name)
        return folded_definition(definition) if self._names.folds else definition
