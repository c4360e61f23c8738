"""Table: what is known of one target table, and its live files at one version."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ...alter.rename import rename
from ...config.renaming import SHARD, is_shared, shard_of
from ...control.table.cut import TableVersion
from ...delta.add_actions import AddActions
from ...delta.columns import Columns
from ...rules.metadata_columns import keeps_deleted, numbers_of, shard_column
from ..shared.shared_commits import ALONE, SharingChannels
from .table_metadata import COMPLETE, WITHOUT_HISTORY

if TYPE_CHECKING:
    from ...delta.log_replay import Action
    from ...delta.snapshot import Snapshot
    from ...tables.table_definition import TableDefinition


@dataclass(frozen=True)
class LiveFiles:
    """The ``add`` action of each data file that is live at ``version``, by path. ``origin`` stays
    the same object while nobody but us commits: rows lie where they lay, but for what we marked."""

    version: int
    adds: AddActions
    origin: object

    def behind(self, actions: Sequence[Action]) -> LiveFiles:
        """The live files behind a commit of ours. Within a commit a file may go and come again,
        with another deletion vector."""
        return LiveFiles(self.version + 1, self.adds.after([actions]), self.origin)


@dataclass
class DeltaState:
    """A Delta table, as of the version ``snapshot`` that was last looked at. ``position``: packed
    end of the last transaction in it (0: none yet). ``files`` may be of a version before.

    Whoever looks at the table to plan a commit, or changes this state, holds ``lock`` from there
    to the commit's end: a group's writer, or a compaction between two groups.
    """

    snapshot: Snapshot
    position: int
    files: LiveFiles | None = field(default=None, repr=False)
    pending: int | None = None
    """position of a commit of ours whose outcome is not known yet: it may be in the log"""
    sharing: SharingChannels = ALONE
    """the other channels that feed it"""
    tidies: bool = True
    """whether it is this channel that removes what of it nobody needs"""
    own_shards: set[str] = field(default_factory=set, repr=False)
    """of a table that others feed, too: what tells this channel's shards apart"""
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    _shared: tuple[LiveFiles, Mapping[str | None, Mapping[str, Action]]] | None = field(
        default=None, repr=False
    )

    def shared(self, files: LiveFiles, column: str) -> Mapping[str | None, Mapping[str, Action]]:
        """The files of each shard, by the value of the partition's ``column``. Put in order once
        for all shards."""
        if self._shared is None or self._shared[0] is not files:
            of_each: dict[str | None, dict[str, Action]] = {}
            for path, add in files.adds.items():
                value = (add.get("partitionValues") or {}).get(column)
                of_each.setdefault(value, {})[path] = add
            self._shared = files, of_each
        return self._shared[1]


@dataclass
class Table:
    """One target table. ``delta``: what is known of its Delta table, which shards share; their
    ``columns`` are those of the Delta table that they have."""

    name: str
    path: str
    folder: str
    definition: TableDefinition
    complete: bool
    delta: DeltaState
    columns: Columns
    logged: TableDefinition | None = None
    """what the table is at the place that is applied, where it is ahead of it"""
    _shown: TableVersion | None = field(default=None, repr=False, compare=False)

    @property
    def snapshot(self) -> Snapshot:
        """The version that was last looked at."""
        return self.delta.snapshot

    @property
    def position(self) -> int:
        """Packed end of the last transaction in the Delta table."""
        return self.delta.position

    @property
    def lock(self) -> threading.Lock:
        return self.delta.lock

    @property
    def is_shard(self) -> bool:
        """Whether others may be in its Delta table, too."""
        return SHARD in self.path

    @property
    def is_shared(self) -> bool:
        """Whether other channels feed its Delta table, too."""
        return is_shared(self.path)

    @property
    def all_columns(self) -> Columns:
        """Those of the Delta table."""
        if not self.is_shard:
            return self.columns
        return Columns.of(self.snapshot.schema_string, self.snapshot.partition_columns)

    def own(self, files: LiveFiles) -> LiveFiles:
        """Those of the Delta table's live files that have the table's rows."""
        if not self.is_shard:
            return files
        column = self.columns.physical[shard_column(self.definition)]
        own = self.delta.shared(files, column).get(shard_of(self.name), {})
        return replace(files, adds=AddActions(None, own))

    @property
    def at_place(self) -> TableDefinition:
        """The table at the place that is applied."""
        return self.logged or self.definition

    @property
    def definition_in_log(self) -> TableDefinition:
        """What the log's rows of the table are, at the place that is applied."""
        return self.at_place.in_log

    @property
    def has_source_rows_alone(self) -> bool:
        """Whether a key that the source has not is surely no row's: all of its rows came here, and
        none stays that the source has deleted."""
        there = self.definition
        return self.complete and not there.truncated and not keeps_deleted(there)

    @property
    def without_history(self) -> bool:
        """Return whether the table lacks the rows from before its copy (``copy = "none"``)."""
        return self.snapshot.configuration.get(COMPLETE) == WITHOUT_HISTORY

    @property
    def has_rows_as_logged(self) -> bool:
        """Return whether the table has the rows and columns of the source's, at the place that is
        applied."""
        return not self.without_history and self.at_place.in_log is self.at_place

    def take_at_place(self, definition: TableDefinition) -> None:
        """The table is ahead of the place that is applied: what it is there."""
        self.logged = definition

    @property
    def keeps_more(self) -> bool:
        """Whether the target keeps more than the source has, at the place that is applied."""
        return bool(self.at_place.gone) or self.at_place.in_log is not self.at_place

    def rename(self, name: str) -> None:
        """Gives the table another name (db.table); its folder, rows and log stay."""
        self.name, self.definition = name, rename(self.definition, name)
        self.logged = self.logged and rename(self.logged, name)

    @property
    def key_columns(self) -> tuple[str, ...]:
        """What tells rows apart, by its names in the data files: the key, or all columns."""
        chosen = self.definition.sought_key or range(len(self.columns.names))
        return tuple(self.columns.physical[i] for i in chosen)

    @property
    def live_column(self) -> str:
        """The column that is true in the rows which are looked for, by its name in the data files;
        "": all are."""
        number = numbers_of(self.definition).get("current", -1)
        return self.columns.physical[number] if number >= 0 else ""

    @property
    def has_vectors(self) -> bool:
        """Whether rows are marked in deletion vectors; else files that lose rows are rewritten."""
        return self.snapshot.has("delta.enableDeletionVectors")

    def look_at(self, snapshot: Snapshot) -> None:
        """The version that the next commit is planned on; position and files stay what they are."""
        self.delta.snapshot = snapshot

    def shown(self, snapshot: Snapshot, position: int) -> TableVersion:
        """What cuts show of it: the same object while it is the same."""
        one, version, metadata_id = self._shown, snapshot.version, snapshot.metadata_id
        if (
            one is None
            or one.version != version
            or one.position != position
            or one.metadata_id != metadata_id
        ):
            one = self._shown = TableVersion(self.path, version, metadata_id, position)
        return one

    def take(self, snapshot: Snapshot, position: int, files: LiveFiles | None = None) -> None:
        """What the Delta table is from here on: nothing is left to be known of an earlier commit.
        ``files``: all of its live ones."""
        state = self.delta
        state.snapshot, state.position, state.files, state.pending = snapshot, position, files, None


def versions(tables: Iterable[tuple[str, Table]]) -> dict[str, TableVersion]:
    """What a cut shows of tables, by name. Shards have one version of their Delta table, whatever
    is folded in it meanwhile."""
    seen: dict[int, tuple[Snapshot, int]] = {}
    shown: dict[str, TableVersion] = {}
    for name, table in tables:
        delta = table.delta
        there = delta.snapshot, delta.position
        snapshot, position = seen.setdefault(id(delta), there) if table.is_shard else there
        shown[name] = table.shown(snapshot, position)
    return shown
