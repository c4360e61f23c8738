"""TableCommits: commits to a table, this process's own, and those since the last read of its log.

TableCommits reads every commit since the last read. Such a commit is one of three kinds:

- a commit of this process that landed although its answer was lost;
- a commit of another writer, which ``target.on_foreign_change`` judges (foreign_commits);
- a commit of a previous owner of the target that slept.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from ...control.records.table_notes import ForeignChange, record_foreign_change
from ...delta.files.delta_columns import Columns
from ...delta.log import foreign_commits, table_protocol
from ...delta.log.foreign_commits import changes_rows, same_rows
from ...delta.log.log_replay import Action, commits_after, each_commit_after
from ...delta.log.stamp import Stamp
from ...delta.log.table_log import TableLog, fenced
from ...delta.store import storage
from ...errors import (
    ConcurrentChangeError,
    FormerOwnerError,
    SparkReplError,
    TargetError,
    about_table,
)
from ...runtime.target_uri import is_remote
from ...runtime.threads import map_at_once
from ...runtime.wall_clock import SteadyTime
from ..files.write_task import PlannedFiles
from ..shared.shared_commits import check_shared_commit, columns_in, leaves_shards
from .source_description import completed
from .table import LiveFiles, Table
from .table_metadata import columns_of_all, keeps_position, position_of

if TYPE_CHECKING:
    from ...control.table.control import Control
    from ...delta.files.delta_columns import Columns
    from ...delta.log.log_replay import Action
    from ...delta.log.table_log import TableLog
    from ...delta.log.table_snapshot import Snapshot
    from .table import LiveFiles, Table
    from .target_options import TargetOptions

logger = logging.getLogger(__name__)

_SNAPSHOT = "spark-repl snapshot --config F --table"
_SHARING_MAX = 100
"""attempts of a commit, each after commits of other channels that came first"""
_AT_ONCE = 16
"""tables that are looked at at once on an object store"""


def gone_table(name: str, folder: str) -> TargetError:
    """Return the error for a table that a cut shows but that has no log."""
    return TargetError("the table is gone", table=name, file=folder, hint=_put_back(name))


def overwritten_table(name: str, folder: str, version: int) -> TargetError:
    """Return the error for a table whose commit at the cut's version has a position other than the
    cut's."""
    return TargetError(
        f"version {version}, which the last cut shows, was written over by another writer",
        table=name,
        file=folder,
        hint=f"copy it again: {_SNAPSHOT} {name}",
    )


def _put_back(name: str) -> str:
    return f"copy it again: {_SNAPSHOT} {name}; or put its folder back as it was at the stop"


class Outcome(Enum):
    """The outcome of an attempt to commit. BEATEN: another commit has its version. UNKNOWN: it is
    not in the log, but may still appear."""

    LANDED, BEATEN, UNKNOWN = range(3)


class TableCommits:
    """The commits of one channel's tables. ``app``: the appId of the channel's positions in them;
    ``time``: clock for removed files. The caller holds the lock of the table in question."""

    def __init__(self, control: Control, delta: TableLog, app: str, options: TargetOptions) -> None:
        self.delta, self.app = delta, app
        self._control, self._options = control, options
        self.inline_vector_bytes = options.inline_vector_bytes
        self.time = SteadyTime()

    def refresh(self, table: Table) -> None:
        """Read commits since the last read. Raise TargetError, FencedError, FormerOwnerError."""
        if not self._is_newest(table):
            self._read_newer(table)

    def refresh_all(self, tables: Sequence[Table]) -> None:
        """Refresh tables, each as ``refresh`` does. On an object store, look for newer commits in
        parallel, because each check takes two requests."""
        if not (tables and is_remote(tables[0].folder)):
            for table in tables:
                self.refresh(table)
            return
        newest = map_at_once(self._is_newest, tables, _AT_ONCE)
        for table, is_newest in zip(tables, newest, strict=True):
            if not is_newest:
                self._read_newer(table)

    def _is_newest(self, table: Table) -> bool:
        with about_table(table.name):
            return self.delta.is_newest(table.snapshot)

    def _read_newer(self, table: Table) -> None:
        newest = self.delta.snapshot(table.folder)
        self.check(table, table.snapshot.metadata_id, table.snapshot.version, newest)

    def check(
        self, table: Table, metadata_id: str, version: int, snapshot: Snapshot | None
    ) -> None:
        """Read all commits after ``version`` up to ``snapshot`` (None if the table no longer
        exists). The positions of commits up to the table's own version are already known."""
        if snapshot is None:
            raise gone_table(table.name, table.folder)
        if snapshot.metadata_id != metadata_id:
            raise TargetError(
                "the table has been replaced by another one",
                table=table.name,
                file=table.folder,
                hint=_put_back(table.name),
            )
        if snapshot.version < version:
            raise TargetError(
                f"the table's log ends with version {snapshot.version}, and {version} was there:"
                " an older state of its folder was put back",
                table=table.name,
                file=table.folder,
                hint=f"put a later one back, or copy it: {_SNAPSHOT} {table.name}",
            )
        seen = SeenCommits.at(table, version)
        position = self._walk(table, version, seen, snapshot)
        table_protocol.check(snapshot, table=table.name)
        table.update(snapshot, position, seen.files)

    def _walk(self, table: Table, version: int, seen: SeenCommits, snapshot: Snapshot) -> int:
        """Return the table's position after the commits that follow ``version``, up to
        ``snapshot``. Raise an error for what other writers did, unless they have undone it."""
        # ``sound``: versions whose rows are accepted. A restore to one of them undoes ``refused``.
        position, sound, refused = table.position, [version], None
        newer = each_commit_after(table.folder, version, snapshot.version)
        for number, actions in enumerate(newer, version + 1):
            own_position = position_of(actions, self.app)
            is_ours = own_position is not None or keeps_position(actions, self.app)
            columns = None if is_ours else seen.before(self.delta, number, actions)
            if columns and not table.delta.sharing.has_made(actions):
                # Not refused at once: a later RESTORE may undo it.
                refused = refused or self._foreign(table, number, actions, columns)
                if not refused:
                    sound.append(number)
                seen.pass_others(actions)
                continue
            if refused:  # this channel, or one that shares the table, has committed after it
                below = self.delta.snapshot(table.folder, number - 1)
                if not below or not _undone(sound, below, seen):
                    raise self._refused(table, refused, None)
                refused = None
            if own_position is not None and number > table.snapshot.version:
                if own_position != table.delta.pending:
                    raise self.not_ours(table.name)
                position = own_position
            if columns:
                self._check_sharing(table, number, actions, columns)
                seen.pass_others(actions, columns=True)
            else:
                seen.pass_ours(actions)
            sound = [number]
        if refused:
            if not _undone(sound, snapshot, seen):
                raise self._refused(table, refused, sound[-1])
            logger.warning("%s: what another writer changed was undone", table.name)
        return position

    def _check_sharing(
        self, table: Table, version: int, actions: list[Action], columns: Columns
    ) -> None:
        """Raise TargetError if a channel that shares the table committed something that it may not
        commit."""
        try:
            new, own = columns_in(actions), table.delta.own_shards
            check_shared_commit(version, actions, columns, new, own)
        except TargetError as error:
            raise self._refused(table, error, None) from None

    @staticmethod
    def _refused(table: Table, error: TargetError, base: int | None) -> TargetError:
        error.hint = foreign_commits.way_out(table.folder, table.name, base, shared=table.is_shard)
        return error.at(table=table.name, file=table.folder)

    def not_ours(self, name: str) -> SparkReplError:
        """Return the error for a commit of this channel that another process made: a second
        applier, or a former one that was suspended and committed after this process read the table.
        """
        if self._control.is_owner():
            return FormerOwnerError(
                "an applier that owned the target before has committed late", table=name
            )
        return self._control.named(fenced(name))

    def _foreign(
        self, table: Table, version: int, actions: list[Action], columns: Columns
    ) -> TargetError | None:
        """Return the error that refuses another writer's commit, None if the commit may pass. If it
        changed rows, record first that the table has keys that no log has. Raise what
        ``Control.write`` raises."""
        added = pa.array([a["add"]["path"] for a in actions if "add" in a], pa.string())
        try:
            table_protocol.check_file_paths(table.folder, added)
            changes = foreign_commits.check(
                version, actions, columns, accept=self._options.accept_foreign
            )
        except TargetError as error:
            return error
        if changes:
            logger.warning("%s: another writer changed rows in version %d", table.name, version)
            self.has_other_keys(table, version)
        return None

    def has_other_keys(self, table: Table, version: int) -> None:
        """Record that the table may have keys that are in no log."""
        if table.complete:
            record_foreign_change(self._control, ForeignChange(table.name, version))
        table.complete = False

    def live_files(self, table: Table) -> PlannedFiles:
        """Return the files of the version that was read last. The caller holds the table's lock."""
        live = self.live(table).adds
        return PlannedFiles(live.paths(), live.vectors())

    def live(self, table: Table) -> LiveFiles:
        """Return the live files of the version that was read last. The caller holds the table's
        lock."""
        return table.own(self.all_live(table))

    def all_live(self, table: Table) -> LiveFiles:
        """Return the live files of the table's Delta table, including those of other shards. The
        caller holds its lock."""
        assert table.lock.locked(), f"{table.name} is read without its lock"
        files, snapshot = table.delta.files, table.snapshot
        if files is None or files.version != snapshot.version:
            adds = self.delta.files(snapshot)
            table_protocol.check_file_paths(table.folder, adds.paths(), table=table.name)
            files = LiveFiles(snapshot.version, adds, object())
            table.delta.files = files
        return files

    @contextmanager
    def explain_gone_files(self, tables: Iterable[Table]) -> Iterator[None]:
        """Explain an error about a data file that disappeared while a commit is planned on the
        ``tables``, whose locks are held. If another writer's OPTIMIZE replaced the file and its
        VACUUM removed it, raise ConcurrentChangeError, so that the caller plans again. If the
        newest version names the file, raise TargetError."""
        try:
            yield
        except Exception as error:
            table = next((t for t in tables if storage.is_gone(error, t.folder)), None)
            if table is None:
                raise
            if not self.delta.is_newest(table.snapshot):
                raise ConcurrentChangeError(
                    "a data file is gone", table=table.name, file=table.folder
                ) from error
            raise TargetError(
                f"a data file that the table's newest version names is gone: {error}",
                table=table.name,
                file=table.folder,
                hint="bring that file back from a backup, or copy the table again:"
                f" {_SNAPSHOT} {table.name}",
            ) from error

    def action(self, table: Table, path: str) -> Action:
        """Return the ``add`` action of a file that a plan uses. Raise ConcurrentChangeError if the
        file is no longer live."""
        add = self.all_live(table).adds.get(path)
        if add is None:
            raise ConcurrentChangeError(f"{path} is gone", table=table.name, file=table.folder)
        return add

    def record_commit(
        self, table: Table, actions: list[Action], position: int, version: int
    ) -> None:
        """Set the table's state after this process's commit, planned on the version that was read
        last, became ``version``. The next ``refresh`` reads later commits of other writers. Live
        files that were not read before are not read now: an idle table may have many."""
        files = None if table.delta.files is None else self.all_live(table).after(actions)
        table.update(self.delta.advance(table.snapshot, version), position, files)

    def set_properties(self, table: Table, properties: Mapping[str, str]) -> None:
        """Commit properties; position and rows do not change. If other writers committed since the
        last read, raise what ``refresh`` raises."""
        planned = table.snapshot
        with about_table(table.name):
            version = self.delta.set_properties(planned, properties, self.app)
        if version == planned.version + 1:  # no other commit came between
            self.record_commit(table, [], table.position, version)
        else:
            self.refresh(table)

    def declare(self, table: Table) -> None:
        """Commit the declarations of MySQL that the table's metadata lacks. Position and rows do
        not change. It holds the table's lock meanwhile. Raise what a commit to the table raises."""
        if completed(table.snapshot, table.definition) is None:
            return
        with table.lock:
            self.refresh(table)
            new = completed(table.snapshot, table.definition)
            if new is not None:
                stamp = Stamp(columns_of_all(self.app), table.position, "{}")
                with about_table(table.name):
                    version = self.delta.alter(table.snapshot, new, [], stamp)
                self.record_commit(table, [], table.position, version)
                logger.info("%s: added MySQL's declarations to its metadata", table.name)

    def commit_rewrite(self, table: Table, actions: list[Action]) -> None:
        """Commit other files with the same rows. Position and everything else do not change."""

        def rewrite() -> int:
            return self.delta.rewrite(table.snapshot, actions, self.app)

        version = self.commit_after_sharing(table, rewrite)
        self.record_commit(table, actions, table.position, version)

    def commit_actions(self, table: Table, actions: list[Action], stamp: Stamp) -> int:
        """Commit ``actions`` that were planned on the version that was read last, as
        ``commit_after_sharing`` does, and return the version."""

        def attempt() -> int:
            return self.delta.commit(table.snapshot, actions, stamp)

        return self.commit_after_sharing(table, attempt)

    def commit_after_sharing(self, table: Table, commit: Callable[[], int]) -> int:
        """Return what ``commit`` returns. It is tried on the version that was read last. If
        channels that share the table committed first, and did not change files of this channel, it
        is tried again after their commits. Raise what ``commit`` raises."""
        for tries_left in reversed(range(_SHARING_MAX)):
            try:
                with about_table(table.name):
                    return commit()
            except ConcurrentChangeError:
                if not tries_left or not self._apply_sharing(table):
                    raise
        raise AssertionError

    def _apply_sharing(self, table: Table) -> bool:
        """Read what channels that share the table have committed since the last read, and return
        True. If there is nothing, or anything else, return False and change nothing."""
        if not table.delta.sharing:
            return False
        version, pending = table.snapshot.version, table.delta.pending
        newer, columns = self._newer(table), table.all_columns
        # Only commits that leave this channel's files pass: the plan is then still right.
        for actions in newer:
            shared = table.delta.sharing.has_made(actions)
            if position_of(actions, self.app) is not None or not (
                shared or not changes_rows(actions)
            ):
                return False
            if not leaves_shards(actions, columns, table.delta.own_shards):
                return False
        if newer:
            snapshot = self.delta.snapshot(table.folder, version + len(newer))
            self.check(table, table.snapshot.metadata_id, version, snapshot)
            table.delta.pending = pending  # the check has reset it, and the commit is tried again
        return bool(newer)

    def resolve(self, table: Table, position: int) -> Outcome:
        """Return the outcome of this process's attempt to commit ``position``, according to the
        table's log, regardless of the answer to the attempt.

        Raise TargetError for commits of others before it, FencedError and FormerOwnerError for a
        commit of another process.
        """
        if table.position >= position:
            return Outcome.LANDED
        newer = self._newer(table)
        for number, actions in enumerate(newer, table.snapshot.version + 1):
            if position_of(actions, self.app) == position:
                self._apply_ours(table, newer[: number - table.snapshot.version], position)
                return Outcome.LANDED
            if position_of(actions, self.app) is not None:
                raise self.not_ours(table.name)
        if newer:  # another commit has the only version that this one could have had
            table.delta.pending = None
            return Outcome.BEATEN
        # It may still land. Its files stay, and the next attempt is for the same version: one of
        # the two lands there, and both have this position.
        return Outcome.UNKNOWN

    def _newer(self, table: Table) -> list[list[Action]]:
        newest = self.delta.version(table.folder)
        return commits_after(table.folder, table.snapshot.version, newest)

    def _apply_ours(self, table: Table, upto: list[list[Action]], position: int) -> None:
        """Read a commit of this process. ``upto``: the commits after the version that was read
        last; the last of them is this process's."""
        version = table.snapshot.version
        snapshot = self.delta.snapshot(table.folder, version + len(upto))
        assert snapshot is not None
        refused: TargetError | None = None
        for number, actions in enumerate(upto[:-1], version + 1):
            if wrong := self._foreign(table, number, actions, table.all_columns):
                refused = refused or self._refused(table, wrong, None)
        table.update(snapshot, position)
        if refused:
            raise refused


def _undone(before: Iterable[int], snapshot: Snapshot, seen: SeenCommits) -> bool:
    """Return whether ``snapshot`` again has the rows and columns of one of the versions
    ``before``."""
    return seen.has_columns(snapshot) and same_rows(snapshot.folder, snapshot.version, before)


@dataclass
class SeenCommits:
    """The state of a table while its new commits are read, one after another. ``columns``: the
    Delta table's columns, None if they are not read yet; ``files``: the live files of a table that
    other channels feed, None if they have to be read again."""

    table: Table
    columns: Columns | None
    files: LiveFiles | None

    @classmethod
    def at(cls, table: Table, version: int) -> Self:
        """Return the state at ``version``, after which the commits are read."""
        files = table.delta.files
        if version != table.snapshot.version:
            return cls(table, None, None)
        is_current = table.is_shared and files is not None and files.version == version
        return cls(table, table.all_columns, files if is_current else None)

    def before(self, delta: TableLog, version: int, actions: Sequence[Action]) -> Columns:
        """Return the columns before a commit. They matter if the commit itself changes the
        columns."""
        if self.columns is None and columns_in(actions) is not None:
            below = delta.snapshot(self.table.folder, version - 1)
            self.columns = _columns_of(below) if below else None
        return self.columns or self.table.all_columns

    def has_columns(self, snapshot: Snapshot) -> bool:
        """Return whether the table's columns are the same as before."""
        return self.columns is None or self.columns == _columns_of(snapshot)

    def pass_ours(self, actions: Sequence[Action]) -> None:
        """Apply a commit of this channel, which may have rewritten rows."""
        self.columns, self.files = columns_in(actions) or self.columns, None

    def pass_others(self, actions: Sequence[Action], *, columns: bool = False) -> None:
        """Apply another writer's commit. ``columns``: also apply its change of columns."""
        if columns:
            self.columns = columns_in(actions) or self.columns
        if self.files is not None:
            own = self.table.delta.own_shards
            left = leaves_shards(actions, self.table.all_columns, own)
            self.files = self.files.after(actions) if left else None


def _columns_of(snapshot: Snapshot) -> Columns:
    return Columns.of(snapshot.schema_string, snapshot.partition_columns)
