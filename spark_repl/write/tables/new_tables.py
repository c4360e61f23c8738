"""NewTables: creates tables in Delta, each with the position from which it holds rows, in a folder
that no table had before.

``Tracking`` calls it for CREATE TABLE, for a table that is first seen in a TABLE_MAP, for shards
and for the tables of copies. The control table announces a path before the Delta table is created
there, so a crash in between leaves a name on record and no table without an owner. A table's first
commit has its definition and position.

Invariants: a path is given once, also if another process plans a copy meanwhile: an announcement
that a newer copy overtakes is tried again with another path. A name belongs to one channel of the
target, unless its rule allows several. Raises TargetError if another writer has a Delta table at
the path, or another channel the name, and SettingError for rules that do not fit the table. Design:
docs/design/table-definitions.md, docs/design/shards.md.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from ...config.renaming import is_shared, shard_of, whole_of
from ...control.records.copies import last_copy
from ...control.records.name_registry import OtherChannels, shards_had
from ...control.records.shared_tables import SharedTable
from ...control.records.table_paths import (
    MADE_BY_ROWS,
    announce,
    check_free,
    copied_paths,
    given_paths,
    newest_copy,
)
from ...control.table.given_paths import GivenPaths
from ...control.table.layout import Layout
from ...delta.log.stamp import Stamp
from ...delta.store import storage
from ...errors import ConcurrentChangeError, TargetError, about_table
from ...rules.row_filters import check_row_filter
from ...tables.case_folding import check_columns
from ..shared.shard_tables import check_policy, shards_beside
from ..shared.shared_metadata import Joining, left_over, make_or_join, widen
from .source_description import at_place
from .table_metadata import COMPLETE, COPIED, columns_of_all, own_properties

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from datetime import datetime

    from ...control.records.claimed_names import ClaimedNames
    from ...control.records.definitions import Definitions
    from ...control.records.name_case import NameCase
    from ...control.table.control import Control
    from ...control.table.layout import Layout
    from ...delta.log.committer import TableCatalog
    from ...delta.log.table_log import TableLog
    from ...delta.log.table_snapshot import Snapshot
    from ...tables.source_table import SourceTable
    from ...tables.target_table import TargetTable
    from .table import Table
    from .table_commits import TableCommits
    from .target_options import TargetOptions

_TRIES = 10


class NewTables:
    """Creates tables. ``names``: how the source compares names, which decides whose column rules
    apply; ``claimed_names``: which of the target's channels has claimed each name."""

    def __init__(
        self,
        layout: Layout,
        control: Control,
        delta: TableLog,
        options: TargetOptions,
        names: NameCase,
        claimed_names: ClaimedNames,
        commits: TableCommits,
        definitions: Definitions,
    ) -> None:
        self._layout, self._control, self._delta = layout, control, delta
        self._options, self._names, self._claimed_names = options, names, claimed_names
        self._commits, self._definitions = commits, definitions
        self.paths = NewPaths(control, layout)

    def shaped(self, definition: SourceTable) -> TargetTable:
        """Return the target's table for a table of the source. Raise SettingError."""
        rules = self._options.columns_of(folds=self._names.folds)
        shaped = rules.shaped(self._options.forms.apply(definition))
        check_row_filter(shaped, rules)
        check_columns(shaped)
        if shaped.is_shard:
            folds = self._names.folds
            check_policy(shaped, self._options.policy(shaped.name, folds=folds))
        return shaped

    def make(self, shaped: TargetTable, stamp: Stamp, made_by: str, tables: Iterable[Table]) -> str:
        """Create a table at a new path and return the path. A shard goes into the Delta table of
        its siblings among ``tables``. Raise TargetError, SettingError."""
        siblings = shards_beside(shaped.name, tables) if shaped.is_shard else []
        if shared := self._shared(shaped):
            return self._make_shared(shaped, shared, stamp, made_by, siblings)
        names = [shaped.name]
        if shaped.is_shard:
            names.append(whole_of(shaped.name))
        path = self._announce(shaped, stamp, made_by, names, [sibling.path for sibling in siblings])
        complete = str(made_by != MADE_BY_ROWS).lower()
        self._make(shaped, path, stamp, complete, siblings)
        return path

    def _announce(
        self,
        shaped: TargetTable,
        stamp: Stamp,
        made_by: str,
        names: Iterable[str],
        siblings: list[str],
    ) -> str:
        """Announce the table at a path that no copy has, according to the version of the control
        table that the announcement follows. Return the path. ``names``: recorded for the table."""
        check = self._claimed_names.before_creating(names)
        for left in reversed(range(_TRIES)):
            path = self.paths.new(shaped, self._delta, siblings)
            checks = partial(_both, check, partial(self.paths.check, path))
            with suppress(*[ConcurrentChangeError] if left else ()):
                announce(self._control, shaped.name, path, stamp.position, made_by, checks)
                break
        return path

    def record(self, shaped: TargetTable, path: str) -> None:
        """Record which rows of a table at ``path`` this channel has, if other channels may feed the
        table. Raise SettingError if they may have the same rows."""
        if (shared := self._shared(shaped)) is not None:
            self._claimed_names.share(shared, partial(whole_of, path))

    def _shared(self, shaped: TargetTable) -> SharedTable | None:
        """Return the configuration of the table that a shard is in, None if no other channel may
        feed it."""
        rule = self._options.rules_of(shaped.name, folds=self._names.folds)
        return SharedTable.of(rule, shaped) if rule.channels else None

    def _make_shared(
        self,
        shaped: TargetTable,
        wanted: SharedTable,
        stamp: Stamp,
        made_by: str,
        siblings: list[Table],
    ) -> str:
        """Create a shard in a table that other channels may feed, at the path that they use, and
        return its path."""
        whole = self._claimed_names.share(
            wanted, partial(self.paths.whole, shaped, self._delta)
        ).path
        folder = self._layout.table(whole)
        version = self._delta.version(folder)
        check = self._claimed_names.before_creating([shaped.name])
        path = self.paths.shard(whole, shared=True)
        name, position = shaped.name, stamp.position
        announce(self._control, name, path, position, made_by, check, since=max(version, 0))
        self._join(shaped, path, stamp, siblings)
        return path

    def _join(
        self,
        shaped: TargetTable,
        path: str,
        stamp: Stamp,
        siblings: list[Table],
        gone: Collection[str] = (),
    ) -> None:
        """Add a shard to a table that other channels may feed. ``gone``: as in ``Joining``."""
        if siblings:
            self._widen(siblings, shaped, stamp)
            self._empty(siblings[0], gone)
        else:
            new = self._options.new_table(shaped, own_properties(shaped, "true"))
            hours, now_ms = self._options.retention_hours, self._commits.time.now_ms()
            joining = Joining(shaped, new, gone, hours, now_ms)
            make_or_join(self._delta, self._layout.table(path), joining, stamp)
        self._definitions.record(path, shaped, stamp.position)

    def _empty(self, table: Table, shards: Collection[str]) -> None:
        """Remove the files of this channel's ``shards``."""
        if not shards:
            return
        commits = self._commits
        stamp = Stamp(columns_of_all(commits.app), table.position, "{}")
        with table.lock:
            commits.refresh(table)
            files, now_ms = commits.all_live(table).adds, commits.time.now_ms()
            gone = left_over(table.all_columns, files, shards, now_ms)
            if gone:
                version = commits.commit_actions(table, gone, stamp)
                commits.record_commit(table, gone, table.position, version)

    def make_copy(
        self,
        shaped: TargetTable,
        path: str,
        stamp: Stamp,
        sibling: Table | None,
        *,
        complete: str = COPIED,
    ) -> None:
        """Create the table of a copy at the path that the control table records, unless it exists.
        ``sibling``: a table in the same Delta table; ``complete``: the value for its properties."""
        if is_shared(path):
            if not self._definitions.has(path):
                self.record(shaped, path)
                copy = last_copy(self._control)
                copied = {shard_of(name) for name in (copy.paths if copy else ())}
                gone = shards_had(self._control, whole_of(path)) - copied
                siblings = [sibling] if sibling else []
                self._join(shaped, path, stamp, siblings, gone | {shard_of(shaped.name)})
            return
        snapshot = None if sibling else self._delta.snapshot(self._layout.table(path))
        if snapshot is not None:
            self._check_copied(shaped.name, snapshot, stamp, complete)
        else:
            self._make(shaped, path, stamp, complete, [sibling] if sibling else [])

    def _check_copied(self, name: str, snapshot: Snapshot, stamp: Stamp, complete: str) -> None:
        """Raise TargetError for a table that is not a copy's, or that has other positions than the
        copy's own: rows of the log are in it."""
        position = self._delta.last_txn(snapshot, stamp.app)
        recorded = snapshot.configuration.get(COMPLETE)
        if recorded != complete or position not in (None, stamp.position):
            raise TargetError(
                "the table at the path of the copy holds rows of the log", table=name,
                file=snapshot.folder,
                hint=f"copy it again: spark-repl snapshot --config F --table {name}",
            )  # fmt: skip

    def _make(
        self, shaped: TargetTable, path: str, stamp: Stamp, complete: str, siblings: list[Table]
    ) -> None:
        """Create a table, or a shard in the Delta table of ``siblings``. A shard's definition is
        recorded after the Delta table has its columns: it then counts as created."""
        if siblings:
            self._widen(siblings, shaped, stamp)
        else:
            with about_table(shaped.name):
                new = self._options.new_table(shaped, own_properties(shaped, complete))
                self._delta.create(self._layout.table(path), at_place(new, stamp), stamp)
        if shaped.is_shard:
            self._definitions.record(path, shaped, stamp.position)

    def _widen(self, siblings: list[Table], shaped: TargetTable, stamp: Stamp) -> None:
        """Give the Delta table of ``siblings`` what a new shard needs."""
        table = siblings[0]
        with table.lock:
            widen(self._commits, table, shaped, siblings, stamp)


def _both(first: Callable[[], object], second: Callable[[], object]) -> None:
    first()
    second()


def assigned_path(managed: TableCatalog, layout: Layout, name: str) -> str:
    """Return the path of the folder that the catalog assigns to the new table ``name``. Raise
    OSError, TargetError, and ConfigError if the folder is outside of the target."""
    return layout.path_in(managed.assign(name), name)


class NewPaths:
    """Chooses for each new table a path that was never used.

    Only this process chooses paths for tables; at the start it reads which were used. Another
    process may meanwhile plan a copy, so the paths of copies are read each time. Safe to call from
    several threads.
    """

    def __init__(self, control: Control, layout: Layout) -> None:
        self._control, self._layout = control, layout
        self._channels = OtherChannels(control, layout.target)
        self._used = GivenPaths()
        self._copy: datetime | None = None  # when the row of the newest copy was written
        self._lock = threading.Lock()

    def load(self) -> None:
        self._copy = newest_copy(self._control)
        self._used = given_paths(self._control, self._channels.given)

    def new(self, definition: TargetTable, delta: TableLog, siblings: Iterable[str] = ()) -> str:
        """Return a new path for the table: ``db/t``, or ``db/t@2`` and so on if that was used; for
        a shard, a path in the Delta table of the paths ``siblings``. Raise TargetError if another
        writer has a Delta table at the path."""
        if not definition.is_shard:
            return self._of(definition, definition.table, delta)
        whole = next(map(whole_of, siblings), "") or self.whole(definition, delta)
        return self.shard(whole)

    def whole(self, shard: TargetTable, delta: TableLog) -> str:
        """Return a path for the Delta table of a shard. Raise what ``new`` raises."""
        return self._of(shard, whole_of(shard.table), delta)

    def shard(self, whole: str, *, shared: bool = False) -> str:
        """Return a path for a shard in the Delta table at ``whole``. ``shared``: whether other
        channels feed that table."""
        with self._lock:
            path = Layout.shard_path(whole, self._used, shared=shared)
            self._used.add(path)
            return path

    def check(self, path: str) -> None:
        """Raise ConcurrentChangeError if a copy that was planned meanwhile uses the path, or the
        path of its Delta table."""
        if newest_copy(self._control) != self._copy:
            check_free(self._control, [path, whole_of(path)], copied_paths(self._control))

    def _of(self, definition: TargetTable, table: str, delta: TableLog) -> str:
        if delta.managed is not None:
            return assigned_path(delta.managed, self._layout, f"{definition.database}.{table}")
        path = Layout.path_of(definition.database, table)
        folder = self._layout.table(path)
        with self._lock:
            if (newest := newest_copy(self._control)) != self._copy:
                self._used.recorded |= copied_paths(self._control)
                self._copy = newest
            if path not in self._used and storage.exists(folder):
                # A newer owner of the target may have created it: the control table has its paths.
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
