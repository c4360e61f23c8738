"""Table: the state of one target table, and its live files at one version."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ...alter.rename import rename
from ...config.renaming import SHARD, is_shared, shard_of
from ...control.table.cut import TableVersion
from ...delta.files.delta_columns import Columns
from ...delta.log.add_actions import AddActions
from ..shared.shared_commits import ALONE, SharingChannels
from .table_metadata import COMPLETE, WITHOUT_HISTORY

if TYPE_CHECKING:
    from ...delta.log.log_replay import Action
    from ...delta.log.table_snapshot import Snapshot
    from ...tables.target_table import TargetTable


@dataclass(frozen=True)
class LiveFiles:
    """The ``add`` action of each data file that is live at ``version``, by path. ``origin`` stays
    the same object while only this process commits. In that case rows stay at their places, except
    those that this process marked."""

    version: int
    adds: AddActions
    origin: object

    def after(self, actions: Sequence[Action]) -> LiveFiles:
        """Return the live files after a commit of this process. A commit may remove a file and add
        it again with another deletion vector."""
        return LiveFiles(self.version + 1, self.adds.after([actions]), self.origin)


@dataclass
class DeltaState:
    """The state of a Delta table at ``snapshot``, the version that was read last. ``position``:
    packed end of the last transaction in it (0: none yet). ``files`` may be those of an earlier
    version.

    A thread that plans a commit, or changes this state, holds ``lock`` from its read to the end of
    the commit. It is a group's writer, or a compaction between two groups.
    """

    snapshot: Snapshot
    position: int
    files: LiveFiles | None = field(default=None, repr=False)
    pending: int | None = None
    """position of a commit of this process whose outcome is not known yet: it may be in the log"""
    sharing: SharingChannels = ALONE
    """the other channels that feed it"""
    tidies: bool = True
    """whether this channel removes files and commits of it that nothing needs"""
    own_shards: set[str] = field(default_factory=set, repr=False)
    """the partition values of this channel's shards, in a table that several channels feed"""
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    _shared: tuple[LiveFiles, Mapping[str | None, Mapping[str, Action]]] | None = field(
        default=None, repr=False
    )

    def shared(self, files: LiveFiles, column: str) -> Mapping[str | None, Mapping[str, Action]]:
        """Return the files of each shard, by the value of the partition's ``column``. They are
        grouped once for all shards."""
        if self._shared is None or self._shared[0] is not files:
            of_each: dict[str | None, dict[str, Action]] = {}
            for path, add in files.adds.items():
                value = (add.get("partitionValues") or {}).get(column)
                of_each.setdefault(value, {})[path] = add
            self._shared = files, of_each
        return self._shared[1]


@dataclass
class Table:
    """One target table. ``delta``: the state of its Delta table, which shards share; ``columns``:
    the table's columns in the Delta table."""

    name: str
    path: str
    folder: str
    definition: TargetTable
    complete: bool
    delta: DeltaState
    columns: Columns
    logged: TargetTable | None = None
    """the table's definition at the place that is applied, if the table is ahead of that place"""
    _of_cuts: tuple[Snapshot | None, TableVersion | None] = field(
        default=(None, None), repr=False, compare=False
    )

    @property
    def snapshot(self) -> Snapshot:
        """Return the version that was read last."""
        return self.delta.snapshot

    @property
    def position(self) -> int:
        """Return the packed end of the last transaction in the Delta table."""
        return self.delta.position

    @property
    def lock(self) -> threading.Lock:
        return self.delta.lock

    @property
    def is_shard(self) -> bool:
        """Return whether other tables may be in its Delta table."""
        return SHARD in self.path

    @property
    def is_shared(self) -> bool:
        """Return whether other channels feed its Delta table."""
        return is_shared(self.path)

    @property
    def all_columns(self) -> Columns:
        """Return the columns of the Delta table."""
        if not self.is_shard:
            return self.columns
        return Columns.of(self.snapshot.schema_string, self.snapshot.partition_columns)

    def own(self, files: LiveFiles) -> LiveFiles:
        """Return those of the Delta table's live files that have the table's rows."""
        if not self.is_shard:
            return files
        column = self.columns.physical[self.definition.shard_column]
        own = self.delta.shared(files, column).get(shard_of(self.name), {})
        return replace(files, adds=AddActions(None, own))

    @property
    def at_place(self) -> TargetTable:
        """Return the table's definition at the log position that is being applied."""
        return self.logged or self.definition

    @property
    def has_source_rows_alone(self) -> bool:
        """Return whether the table certainly has no row for a key that the source lacks, because
        all rows came through this log and the table keeps no deleted rows."""
        definition = self.definition
        return self.complete and not definition.truncated and not definition.keeps_deleted

    @property
    def without_history(self) -> bool:
        """Return whether the table lacks the rows from before its copy (``copy = "none"``)."""
        return self.snapshot.configuration.get(COMPLETE) == WITHOUT_HISTORY

    @property
    def has_rows_as_logged(self) -> bool:
        """Return whether the table has the rows and columns of the source's table, at the log
        position that is being applied."""
        return not self.without_history and self.at_place.is_mirror

    def define_at_place(self, definition: TargetTable) -> None:
        """Set the table's definition at the log position that is being applied, if the table is
        ahead of that position."""
        self.logged = definition

    @property
    def keeps_more(self) -> bool:
        """Return whether the target keeps more than the source has, at the log position that is
        being applied."""
        return bool(self.at_place.gone) or not self.at_place.is_mirror

    def rename(self, name: str) -> None:
        """Rename the table (db.table). Its folder, rows and log stay."""
        self.name, self.definition = name, rename(self.definition, name)
        self.logged = self.logged and rename(self.logged, name)

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Return the columns that identify a row, by their names in the data files: the key, or all
        columns."""
        chosen = self.definition.lookup_key or range(len(self.columns.names))
        return tuple(self.columns.physical[i] for i in chosen)

    @property
    def live_column(self) -> str:
        """Return the column that is true in the rows that look-ups need, by its name in the data
        files; "" if look-ups need all rows."""
        number = self.definition.current_column
        return self.columns.physical[number] if number >= 0 else ""

    @property
    def has_vectors(self) -> bool:
        """Return whether deletion vectors mark rows; otherwise files from which rows are removed
        are rewritten."""
        return self.snapshot.has("delta.enableDeletionVectors")

    def plan_on(self, snapshot: Snapshot) -> None:
        """Set the version on which the next commit is planned. Position and files do not change."""
        self.delta.snapshot = snapshot

    def shown_version(self, snapshot: Snapshot, position: int) -> TableVersion:
        """Return the version that cuts show. It is the same object while nothing changes."""
        version = TableVersion(self.path, snapshot.version, snapshot.metadata_id, position)
        _, before = self._of_cuts
        if before is not None and before == version:
            version = before
        self._of_cuts = snapshot, version
        return version

    def update(self, snapshot: Snapshot, position: int, files: LiveFiles | None = None) -> None:
        """Set the state of the Delta table after a commit. Earlier commits are then no longer
        pending. ``files``: all live files."""
        state = self.delta
        state.snapshot, state.position, state.files, state.pending = snapshot, position, files, None


def versions(tables: Iterable[tuple[str, Table]]) -> dict[str, TableVersion]:
    """Return the versions of tables that a cut shows, by name. All shards of a Delta table have the
    same version, even if a compaction commits meanwhile."""
    seen: dict[int, tuple[Snapshot, int]] = {}
    by_name: dict[str, TableVersion] = {}
    for name, table in tables:
        delta = table.delta
        state = delta.snapshot, delta.position
        if table.is_shard:
            state = seen.setdefault(id(delta), state)
        snapshot, version = table._of_cuts  # without a call: each statement's cut has all tables
        if version is None or snapshot is not state[0] or version.position != state[1]:
            version = table.shown_version(*state)
        by_name[name] = version
    return by_name
