"""TableCommits: commits to a table, this process's own, and those since the last read of its log.

Commits since then may be this process's, landed although their answer was lost; those of others,
which ``target.on_foreign_change`` judges (delta/foreign); or those of a previous owner of the
target that slept. TableCommits reads every commit since the last read, whichever came first.
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
from ...delta import features, foreign, storage
from ...delta.columns import Columns
from ...delta.foreign import changes_rows, same_rows
from ...delta.log_replay import Action, commits_after, each_commit_after
from ...delta.table_log import TableLog, fenced
from ...errors import (
    ConcurrentChangeError,
    FormerOwnerError,
    SparkReplError,
    TargetError,
    about_table,
)
from ...runtime.wall_clock import SteadyTime
from ..files.write_task import PlannedFiles
from ..shared.shared_commits import check as check_sharing
from ..shared.shared_commits import columns_in, leaves
from .table import LiveFiles, Table
from .table_metadata import keeps_position, position_of

if TYPE_CHECKING:
    from ...control.table.control import Control
    from ...delta.columns import Columns
    from ...delta.log_replay import Action
    from ...delta.snapshot import Snapshot
    from ...delta.stamp import Stamp
    from ...delta.table_log import TableLog
    from .table import LiveFiles, Table
    from .table_options import TableOptions

log = logging.getLogger(__name__)

_SNAPSHOT = "spark-repl snapshot --config F --table"
_SHARING_MAX = 100
"""attempts of a commit, each of them behind those of other channels that came first"""


def gone_table(name: str, folder: str) -> TargetError:
    """The error of a table that a cut names, and whose log is not there."""
    return TargetError("the table is gone", table=name, file=folder, hint=_put_back(name))


def overwritten_table(name: str, folder: str, version: int) -> TargetError:
    """The error of a table whose commit that a cut names has another position than the cut says."""
    return TargetError(
        f"version {version}, which the last cut shows, was written over by another writer",
        table=name,
        file=folder,
        hint=f"copy it anew: {_SNAPSHOT} {name}",
    )


def _put_back(name: str) -> str:
    return f"copy it anew: {_SNAPSHOT} {name}; or put its folder back as it was at the stop"


class Outcome(Enum):
    """What became of an attempt to commit. BEATEN: another commit has taken its version.
    UNKNOWN: it isn't there, and may still come."""

    LANDED, BEATEN, UNKNOWN = range(3)


class TableCommits:
    """The commits of one channel's tables. ``app``: the appId under which the channel's positions
    stand in them; ``time``: of files that they retire. The lock of a table that is asked about is
    held."""

    def __init__(self, control: Control, delta: TableLog, app: str, options: TableOptions) -> None:
        self.delta, self.app = delta, app
        self._control, self._options = control, options
        self.time = SteadyTime()

    def refresh(self, table: Table) -> None:
        """Takes in what was committed since we last looked. Raises TargetError, FencedError,
        FormerOwnerError."""
        with about_table(table.name):
            is_newest = self.delta.is_newest(table.snapshot)
        if not is_newest:
            newest = self.delta.snapshot(table.folder)
            self.check(table, table.snapshot.metadata_id, table.snapshot.version, newest)

    def check(
        self, table: Table, metadata_id: str, version: int, snapshot: Snapshot | None
    ) -> None:
        """Looks at all commits behind ``version``, of which those up to the table's own are known
        by their position, up to ``snapshot``: None where there is no table any more."""
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
        features.check(snapshot, table=table.name)
        table.take(snapshot, position, seen.files)

    def _walk(self, table: Table, version: int, seen: SeenCommits, snapshot: Snapshot) -> int:
        """The table's position behind the commits that follow ``version``, up to ``snapshot``.
        Raises for what others did, unless they have undone it."""
        position, sound, refused = table.position, [version], None
        newer = each_commit_after(table.folder, version, snapshot.version)
        for number, actions in enumerate(newer, version + 1):
            own_position = position_of(actions, self.app)
            is_ours = own_position is not None or keeps_position(actions, self.app)
            columns = None if is_ours else seen.before(self.delta, number, actions)
            if columns and not table.delta.sharing.has_made(actions):
                refused = refused or self._foreign(table, number, actions, columns)
                if not refused:
                    sound.append(number)
                seen.pass_others(actions)
                continue
            if refused:  # a commit of ours, or of a channel that shares the table, stands on it
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
            log.warning("%s: what somebody else changed was undone", table.name)
        return position

    def _check_sharing(
        self, table: Table, version: int, actions: list[Action], columns: Columns
    ) -> None:
        """Raises TargetError for what a channel that shares the table may not commit."""
        try:
            new, own = columns_in(actions), table.delta.own_shards
            check_sharing(version, actions, columns, new, own)
        except TargetError as error:
            raise self._refused(table, error, None) from None

    @staticmethod
    def _refused(table: Table, error: TargetError, base: int | None) -> TargetError:
        error.hint = foreign.way_out(table.folder, table.name, base, shared=table.is_shard)
        return error.at(table=table.name, file=table.folder)

    def not_ours(self, name: str) -> SparkReplError:
        """What to raise for a commit of this channel that this process did not make: there is a
        second applier, or there was one, which slept and woke behind our look at the table."""
        if self._control.is_owner():
            return FormerOwnerError(
                "an applier that owned the target before has committed late", table=name
            )
        return self._control.named(fenced(name))

    def _foreign(
        self, table: Table, version: int, actions: list[Action], columns: Columns
    ) -> TargetError | None:
        """The error that refuses somebody's commit; None where it may pass: a table whose rows
        others changed has keys that no log holds, which is recorded first. Raises what
        ``Control.write`` raises."""
        added = pa.array([a["add"]["path"] for a in actions if "add" in a], pa.string())
        try:
            features.check_file_paths(table.folder, added)
            changes = foreign.check(version, actions, columns, accept=self._options.accept_foreign)
        except TargetError as error:
            return error
        if changes:
            log.warning("%s: somebody else changed rows in version %d", table.name, version)
            self.has_other_keys(table, version)
        return None

    def has_other_keys(self, table: Table, version: int) -> None:
        """Records that the table may have keys that no log holds."""
        if table.complete:
            record_foreign_change(self._control, ForeignChange(table.name, version))
        table.complete = False

    def live_files(self, table: Table) -> PlannedFiles:
        """Return the files of the version that was last looked at. The table's lock is held."""
        live = self.live(table).adds
        return PlannedFiles(live.paths(), live.vectors())

    def live(self, table: Table) -> LiveFiles:
        """The live files of the version that was last looked at. The table's lock is held."""
        return table.own(self.all_live(table))

    def all_live(self, table: Table) -> LiveFiles:
        """Those of its Delta table, with those of other shards. Its lock is held."""
        assert table.lock.locked(), f"{table.name} is read without its lock"
        files, snapshot = table.delta.files, table.snapshot
        if files is None or files.version != snapshot.version:
            adds = self.delta.files(snapshot)
            features.check_file_paths(table.folder, adds.paths(), table=table.name)
            files = LiveFiles(snapshot.version, adds, object())
            table.delta.files = files
        return files

    @contextmanager
    def files_there(self, tables: Iterable[Table]) -> Iterator[None]:
        """A context in which a commit is planned on the tables, whose locks are held. A data file
        that is gone then was taken out by somebody's OPTIMIZE and removed by their VACUUM: raises
        ConcurrentChangeError, to plan anew; or TargetError, where the newest version names it."""
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
        """The ``add`` action of a file that was planned on. Raises ConcurrentChangeError when it is
        live no more."""
        add = self.all_live(table).adds.get(path)
        if add is None:
            raise ConcurrentChangeError(f"{path} is gone", table=table.name, file=table.folder)
        return add

    def landed(self, table: Table, actions: list[Action], position: int, version: int) -> None:
        """A commit of ours, planned on the version that was last looked at, is ``version``. What
        others have committed behind it is seen by the next ``refresh``."""
        files = self.all_live(table).behind(actions)
        table.take(self.delta.advance(table.snapshot, version), position, files)

    def set_properties(self, table: Table, properties: Mapping[str, str]) -> None:
        """Commits properties, position and rows as they were. Where that lands above what others
        have committed since we last looked, raises as ``refresh``."""
        planned = table.snapshot
        with about_table(table.name):
            version = self.delta.set_properties(planned, properties, self.app)
        if version == planned.version + 1:
            files = self.all_live(table).behind([])
            table.take(self.delta.advance(planned, version), table.position, files)
        else:
            self.refresh(table)

    def rewritten(self, table: Table, actions: list[Action]) -> None:
        """Commits other files with the same rows, position and all else as they were."""

        def rewrite() -> int:
            return self.delta.rewrite(table.snapshot, actions, self.app)

        version = self.behind_sharing(table, rewrite)
        self.landed(table, actions, table.position, version)

    def commit(self, table: Table, actions: list[Action], stamp: Stamp) -> int:
        """Commits what was planned on the version that was last looked at, and returns the version;
        as ``behind_sharing`` has it."""

        def attempt() -> int:
            return self.delta.commit(table.snapshot, actions, stamp)

        return self.behind_sharing(table, attempt)

    def behind_sharing(self, table: Table, commit: Callable[[], int]) -> int:
        """What ``commit`` returns, which is tried on the version that was last looked at: on the
        next ones again where channels that share the table have come first, and left all files of
        this one's where they are. Raises as ``commit``."""
        for left in reversed(range(_SHARING_MAX)):
            try:
                with about_table(table.name):
                    return commit()
            except ConcurrentChangeError:
                if not left or not self._take_sharing(table):
                    raise
        raise AssertionError

    def _take_sharing(self, table: Table) -> bool:
        """Takes in what channels that share the table have committed since it was last looked at;
        False, and nothing is taken in, where there is anything else, or nothing."""
        if not table.delta.sharing:
            return False
        version, pending = table.snapshot.version, table.delta.pending
        newer, columns = self._newer(table), table.all_columns
        for actions in newer:
            shared = table.delta.sharing.has_made(actions)
            if position_of(actions, self.app) is not None or not (
                shared or not changes_rows(actions)
            ):
                return False
            if not leaves(actions, columns, table.delta.own_shards):
                return False
        if newer:
            snapshot = self.delta.snapshot(table.folder, version + len(newer))
            self.check(table, table.snapshot.metadata_id, version, snapshot)
            table.delta.pending = pending
        return bool(newer)

    def settle(self, table: Table, position: int) -> Outcome:
        """What became of our attempt to commit ``position``, whatever its caller was told: asked of
        the table's log.

        Raises TargetError for what others did before it, FencedError and FormerOwnerError for a
        commit that is not this process's.
        """
        if table.position >= position:
            return Outcome.LANDED
        newer = self._newer(table)
        for number, actions in enumerate(newer, table.snapshot.version + 1):
            if position_of(actions, self.app) == position:
                self._take_ours(table, newer[: number - table.snapshot.version], position)
                return Outcome.LANDED
            if position_of(actions, self.app) is not None:
                raise self.not_ours(table.name)
        if newer:  # on the one version that it could have been
            table.delta.pending = None
            return Outcome.BEATEN
        # It may land still. Its files stay, and the next attempt is for the same version: one of
        # the two lands there, and both bear this position.
        return Outcome.UNKNOWN

    def _newer(self, table: Table) -> list[list[Action]]:
        newest = self.delta.version(table.folder)
        return commits_after(table.folder, table.snapshot.version, newest)

    def _take_ours(self, table: Table, upto: list[list[Action]], position: int) -> None:
        """Takes in a commit of ours. ``upto``: the commits behind the version that was last looked
        at, ours the last."""
        version = table.snapshot.version
        snapshot = self.delta.snapshot(table.folder, version + len(upto))
        assert snapshot is not None
        refused: TargetError | None = None
        for number, actions in enumerate(upto[:-1], version + 1):
            if wrong := self._foreign(table, number, actions, table.all_columns):
                refused = refused or self._refused(table, wrong, None)
        table.take(snapshot, position)
        if refused:
            raise refused


def _undone(before: Iterable[int], snapshot: Snapshot, seen: SeenCommits) -> bool:
    """Whether ``snapshot`` has rows and columns of one of the versions ``before`` again."""
    return seen.has_columns(snapshot) and same_rows(snapshot.folder, snapshot.version, before)


@dataclass
class SeenCommits:
    """``columns``: those of the Delta table, None: not asked for yet; ``files``: its live files, of
    a table that other channels feed, too, None: to be read anew."""

    table: Table
    columns: Columns | None
    files: LiveFiles | None

    @classmethod
    def at(cls, table: Table, version: int) -> Self:
        """What is known at a ``version``, from which on the commits are looked at."""
        files = table.delta.files
        if version != table.snapshot.version:
            return cls(table, None, None)
        known = table.is_shared and files is not None and files.version == version
        return cls(table, table.all_columns, files if known else None)

    def before(self, delta: TableLog, version: int, actions: Sequence[Action]) -> Columns:
        """The columns before a commit, which matter where it gives the table some itself."""
        if self.columns is None and columns_in(actions) is not None:
            below = delta.snapshot(self.table.folder, version - 1)
            self.columns = _columns_of(below) if below else None
        return self.columns or self.table.all_columns

    def has_columns(self, snapshot: Snapshot) -> bool:
        """Whether the table's columns are there as they were."""
        return self.columns is None or self.columns == _columns_of(snapshot)

    def pass_ours(self, actions: Sequence[Action]) -> None:
        """Takes in a commit of this channel's, which may have written rows anew."""
        self.columns, self.files = columns_in(actions) or self.columns, None

    def pass_others(self, actions: Sequence[Action], *, columns: bool = False) -> None:
        """Takes in somebody else's; ``columns``: also those that it gives to the table."""
        if columns:
            self.columns = columns_in(actions) or self.columns
        if self.files is not None:
            own = self.table.delta.own_shards
            left = leaves(actions, self.table.all_columns, own)
            self.files = self.files.behind(actions) if left else None


def _columns_of(snapshot: Snapshot) -> Columns:
    return Columns.of(snapshot.schema_string, snapshot.partition_columns)
