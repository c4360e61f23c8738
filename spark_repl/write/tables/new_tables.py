"""NewTables: creates tables in Delta, each with the position from which it holds rows, in a folder
that no table had before."""

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
from ...delta import storage
from ...delta.stamp import Stamp
from ...errors import ConcurrentChangeError, TargetError, about_table
from ...rules.metadata_columns import shard_column
from ...rules.row_filters import check_row_filter
from ...sql.case_folding import check_columns
from ..shared.shard_tables import beside, check_policy
from ..shared.shared_metadata import Joining, left_over, make_or_join, widen
from .table_metadata import COMPLETE, COPIED, columns_of_all, own_properties

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from datetime import datetime

    from ...control.records.definitions import Definitions
    from ...control.records.name_case import NameCase
    from ...control.records.names import Names
    from ...control.table.control import Control
    from ...control.table.layout import Layout
    from ...delta.snapshot import NewTable, Snapshot
    from ...delta.table_log import TableLog
    from ...tables.table_definition import TableDefinition
    from .table import Table
    from .table_commits import TableCommits
    from .table_options import TableOptions

_TRIES = 10


class NewTables:
    """``names``: how the source compares names, which says whose the rules of columns are;
    ``taken``: whose each name is among the target's channels."""

    def __init__(
        self,
        layout: Layout,
        control: Control,
        delta: TableLog,
        options: TableOptions,
        names: NameCase,
        taken: Names,
        commits: TableCommits,
        definitions: Definitions,
    ) -> None:
        self._layout, self._control, self._delta = layout, control, delta
        self._options, self._names, self._taken = options, names, taken
        self._commits, self._definitions = commits, definitions
        self._paths = NewPaths(control, layout)

    def load(self) -> None:
        """Reads which paths were used."""
        self._paths.load()

    def shaped(self, definition: TableDefinition) -> TableDefinition:
        """The target's table of the source's. Raises SettingError."""
        rules = self._options.columns_of(folds=self._names.folds)
        shaped = rules.shaped(self._options.forms.apply(definition))
        check_row_filter(shaped, rules)
        check_columns(shaped)
        if shard_column(shaped) >= 0:
            folds = self._names.folds
            check_policy(shaped, self._options.policy(shaped.name, folds=folds))
        return shaped

    def make(
        self, shaped: TableDefinition, stamp: Stamp, made_by: str, tables: Iterable[Table]
    ) -> str:
        """Makes a table at a new path, which is returned; a shard in the Delta table of those of
        the ``tables`` that are to be beside it. Raises TargetError, SettingError."""
        others = beside(shaped.name, tables)
        if shared := self._shared(shaped):
            return self._make_shared(shaped, shared, stamp, made_by, others)
        names = [shaped.name]
        if shard_column(shaped) >= 0:
            names.append(whole_of(shaped.name))
        path = self._announce(shaped, stamp, made_by, names, [one.path for one in others])
        complete = str(made_by != MADE_BY_ROWS).lower()
        self._make(shaped, path, stamp, complete, others)
        return path

    def _announce(
        self,
        shaped: TableDefinition,
        stamp: Stamp,
        made_by: str,
        names: Iterable[str],
        others: list[str],
    ) -> str:
        """Announce the table at a path that no copy has, by the version of the control table that
        the announcement follows; return the path. ``names``: what is noted of it."""
        check = self._taken.before_creating(names)
        for left in reversed(range(_TRIES)):
            path = self._paths.new(shaped, self._delta, others)
            checks = partial(_both, check, partial(self._paths.check, path))
            with suppress(*[ConcurrentChangeError] if left else ()):
                announce(self._control, shaped.name, path, stamp.position, made_by, checks)
                break
        return path

    def record(self, shaped: TableDefinition, path: str) -> None:
        """Records what is known of this channel's rows of a table at ``path`` that others may feed,
        too. Raises SettingError where others may have them."""
        if (shared := self._shared(shaped)) is not None:
            self._taken.share(shared, partial(whole_of, path))

    def _shared(self, shaped: TableDefinition) -> SharedTable | None:
        """What the configuration says of the table that a shard is in, where other channels may
        feed that, too."""
        rule = self._options.rules_of(shaped.name, folds=self._names.folds)
        return SharedTable.of(rule, shaped) if rule.channels else None

    def _make_shared(
        self,
        shaped: TableDefinition,
        wanted: SharedTable,
        stamp: Stamp,
        made_by: str,
        others: list[Table],
    ) -> str:
        """The same of a shard in a table that other channels may feed, too: where they have it."""
        whole = self._taken.share(wanted, partial(self._paths.whole, shaped, self._delta)).path
        folder = self._layout.table(whole)
        there = self._delta.version(folder)
        check = self._taken.before_creating([shaped.name])
        path = self._paths.shard(whole, shared=True)
        name, position = shaped.name, stamp.position
        announce(self._control, name, path, position, made_by, check, since=max(there, 0))
        self._join(shaped, path, stamp, others)
        return path

    def _join(
        self,
        shaped: TableDefinition,
        path: str,
        stamp: Stamp,
        others: list[Table],
        gone: Collection[str] = (),
    ) -> None:
        """Brings a shard into a table that other channels may feed, too; ``gone``: as ``Joining``
        has it."""
        if others:
            self._widen(others, shaped, stamp)
            self._empty(others[0], gone)
        else:
            new, hours = self._new(shaped, "true"), self._options.retention_hours
            one = Joining(shaped, new, gone, hours, self._commits.time.now_ms())
            make_or_join(self._delta, self._layout.table(path), one, stamp)
        self._definitions.record(path, shaped, stamp.position)

    def _empty(self, table: Table, shards: Collection[str]) -> None:
        """Takes out the files of this channel's shards."""
        if not shards:
            return
        commits = self._commits
        stamp = Stamp(columns_of_all(commits.app), table.position, "{}")
        with table.lock:
            commits.refresh(table)
            files, now_ms = commits.all_live(table).adds, commits.time.now_ms()
            gone = left_over(table.all_columns, files, shards, now_ms)
            if gone:
                version = commits.commit(table, gone, stamp)
                commits.landed(table, gone, table.position, version)

    def make_copy(
        self,
        shaped: TableDefinition,
        path: str,
        stamp: Stamp,
        there: Table | None,
        *,
        complete: str = COPIED,
    ) -> None:
        """Makes the table of a copy, unless it is there: the control table names its path;
        ``there``: a table that is in its Delta table; ``complete``: as its properties have it."""
        if is_shared(path):
            if not self._definitions.has(path):
                self.record(shaped, path)
                copy = last_copy(self._control)
                copied = {shard_of(name) for name in (copy.paths if copy else ())}
                gone = shards_had(self._control, whole_of(path)) - copied
                others = [there] if there else []
                self._join(shaped, path, stamp, others, gone | {shard_of(shaped.name)})
            return
        snapshot = None if there else self._delta.snapshot(self._layout.table(path))
        if snapshot is not None:
            self._check_copied(shaped.name, snapshot, stamp, complete)
        else:
            self._make(shaped, path, stamp, complete, [there] if there else [])

    def _check_copied(self, name: str, snapshot: Snapshot, stamp: Stamp, complete: str) -> None:
        """Raise TargetError for a table that is no copy's, or that has other positions than the
        copy's own: rows of the log are in it."""
        position = self._delta.last_txn(snapshot, stamp.app)
        made = snapshot.configuration.get(COMPLETE)
        if made != complete or position not in (None, stamp.position):
            raise TargetError(
                "the table at the path of the copy holds rows of the log", table=name,
                file=snapshot.folder,
                hint=f"copy it again: spark-repl snapshot --config F --table {name}",
            )  # fmt: skip

    def _make(
        self, shaped: TableDefinition, path: str, stamp: Stamp, complete: str, others: list[Table]
    ) -> None:
        """A shard's definition is noted once the Delta table has its columns: so it is made."""
        if others:
            self._widen(others, shaped, stamp)
        else:
            with about_table(shaped.name):
                self._delta.create(self._layout.table(path), self._new(shaped, complete), stamp)
        if shard_column(shaped) >= 0:
            self._definitions.record(path, shaped, stamp.position)

    def _widen(self, others: list[Table], shaped: TableDefinition, stamp: Stamp) -> None:
        """Gives the Delta table of ``others`` what a new shard needs."""
        table = others[0]
        with table.lock:
            widen(self._commits, table, shaped, others, stamp)

    def _new(self, definition: TableDefinition, complete: str) -> NewTable:
        return self._options.new_table(definition, own_properties(definition, complete))


def _both(first: Callable[[], object], second: Callable[[], object]) -> None:
    first()
    second()


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
                self._used.recorded |= copied_paths(self._control)
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
