"""Table maintenance: the upkeep of one table.

It adds what MySQL declares to the metadata of tables that an earlier version created. It makes
fewer and fuller data files (write/files/file_choice, write/files/compaction), writes
Delta's checkpoints outside of the commit path (delta/log/checkpoint_schedule), and runs VACUUM,
which also removes the files of failed attempts.
"""

from __future__ import annotations

import logging
import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from ...config.renaming import whole_of
from ...control.records.channels import channels
from ...control.records.replaced_tables import touch
from ...control.records.retention import Retention
from ...crash_points import reach
from ...delta.log import checkpoint_schedule
from ...delta.log.log_cleanup import PROTECTED_BEFORE, remove_commits
from ...delta.log.vacuum import vacuum
from ...delta.store.remover import Remover
from ...errors import FencedError
from ...runtime.java import jvm_end
from ...runtime.retry import first_line
from ...runtime.wall_clock import JUMP_S, WallClock
from ..files.commit import check_files
from ..files.compaction import Compacted, CompactTask, compact, compaction_actions
from ..files.discard import discard
from ..files.file_choice import choose_at_rest, choose_files
from ..files.key_index import KeyIndex
from ..files.key_segments import forget_gone_segments
from ..files.write_task import LiveFile
from .file_retention import PromisedVersions, files_of, keep_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...config import Target
    from ...control.table.control import Control
    from ...delta.log.add_actions import AddActions
    from ...runtime.workers import Workers
    from ..tables.table import LiveFiles, Table
    from ..tables.tracking import Tracking

    Choose = Callable[[str, AddActions], list[list[str]]]

logger = logging.getLogger(__name__)

_READ_AGAIN_S = 60
_FORGET_H = 24
"""hours between removals of indexes of removed data files, if spark_repl does no VACUUM"""
_CLEAN_EVERY = 500
"""commits of a table after which its log is cleaned up; listing a large log takes long"""


class TableMaintenance:
    """Maintains tables in one thread, while groups are applied. If the ``clock`` has jumped ahead,
    nothing is removed."""

    def __init__(
        self, tracking: Tracking, workers: Workers, target: Target,
        clock: WallClock | None = None,
    ) -> None:  # fmt: skip
        self.tracking, self.commits = tracking, tracking.commits
        self.workers, self.target, self._clock = workers, target, clock or WallClock()
        self._retention = Retention.of(target)
        self._enough = target.compact_files
        self._remover = Remover(tracking.control.check_owner)
        self._cleaned: dict[str, int] = {}  # path -> version
        self._read: tuple[float, PromisedVersions] | None = None  # time of the read, and result

    def forget(self, path: str) -> None:
        """Drop the state of the table at the path, which no longer exists."""
        self._cleaned.pop(path, None)

    def maintain(self, table: Table) -> None:
        """Run the steps that are due. If a step fails, the following ones still run; then raise the
        first error: OSError, SparkReplError."""
        failed: Exception | None = None
        files = [self._compact, self._vacuum_if_due, self._forget_if_due]
        steps = [self.commits.declare, self._checkpoint, *files, self._clean_log]
        if table.snapshot.is_managed:
            steps = [self._checkpoint, self._forget_if_due]
        for step in steps:
            try:
                step(table)
            except Exception as error:
                if isinstance(error, FencedError) or jvm_end(error) is not None:
                    raise
                if failed is not None:
                    logger.warning("upkeep of %s is put off: %s", table.name, first_line(error))
                failed = failed or error
        if failed is not None:
            raise failed

    def _checkpoint(self, table: Table) -> None:
        checkpoint_schedule.write_if_due(table.snapshot)

    def _clean_log(self, table: Table) -> None:
        """Remove commits that no promise needs, after ``_CLEAN_EVERY`` new commits."""
        version = table.snapshot.version
        if version - self._cleaned.get(whole_of(table.path), 0) < _CLEAN_EVERY:
            return
        if self._clock.is_ahead() or not self._tidies(table):
            return
        promised = self._promised_of(table)
        self._remover.check()  # another owner may have published cuts that need these commits
        self.tracking.barrier.before_first_sync(table.folder)  # the clean-up syncs the table
        hours = max(self.target.commit_retention_hours, self._retention.every)
        removed = remove_commits(
            table.folder,
            self.tracking.barrier.durable,
            remover=self._remover,
            before=time.time() - 3600 * hours,
            keep=promised.retained.get(whole_of(table.path), ()),
            begin=promised.begin.get(whole_of(table.path), 0),
            protected=int(table.snapshot.configuration.get(PROTECTED_BEFORE, 0)),
        )
        self._cleaned[whole_of(table.path)] = version
        logger.info("%s: %d commits were removed from its log", table.name, removed)

    def _tidies(self, table: Table) -> bool:
        """Return whether this channel removes files and commits of the table that nothing needs: of
        the channels that feed the table, the first one does."""
        return not table.is_shared or table.delta.tidies

    def _promised_of(self, table: Table) -> PromisedVersions:
        """Return the versions of the table that any channel has promised."""
        return PromisedVersions(*self._controls(table)) if table.is_shared else self._promised()

    def _controls(self, table: Table) -> list[Control]:
        """Return this channel's control table, and those of the target's other channels if they may
        feed the table. Raise what reading this channel's control table raises."""
        own = self.tracking.control
        if not table.is_shared:
            return [own]
        controls = [channel.control for channel in channels(self.tracking.layout.target)]
        return [own, *(control for control in controls if control.path != own.path)]

    def _promised(self) -> PromisedVersions:
        """Return the versions that this channel promises, at most a minute old. The read covers
        thousands of cuts. An old result is safe: a later cut never names a version older than the
        one that an earlier cut names."""
        read_at, promised = self._read or (0.0, None)
        if promised is None or time.monotonic() - read_at > _READ_AGAIN_S:
            read_at, promised = time.monotonic(), PromisedVersions(self.tracking.control)
            self._read = read_at, promised
        return promised

    def compact_at_rest(self, table: Table) -> None:
        """Rewrite files with deleted rows of a table that groups no longer change, because deletion
        vectors make Spark's reads slower (docs/design/upkeep.md). Raise OSError,
        SparkReplError."""
        if not table.snapshot.is_managed:
            self._compact(table, choose_at_rest)

    def _compact(self, table: Table, choose: Choose | None = None) -> None:
        # Moved rows keep their row ids, which this compaction can't write.
        if not self._enough or table.snapshot.has("delta.enableRowTracking"):
            return
        choose = choose or partial(choose_files, enough=self._enough)
        with table.lock:  # not while the files are rewritten: groups continue meanwhile
            planned = self.commits.live(table)
        live = planned.adds
        keys, tasks, size = self.tracking.key_folder(table), [], 0
        for paths in choose(table.folder, live):
            files = tuple(LiveFile(path, live[path].get("deletionVector")) for path in paths)
            tasks.append(CompactTask.of(table, keys, files))
            size += sum(int(live[path]["size"]) for path in paths)
        if not tasks:
            return
        rewrites = self.workers.run(compact, tasks, here=self.workers.is_small(file_bytes=size))
        reach("compacted")
        with table.lock:
            self._replace(table, planned, rewrites)
        reach("after_compaction")

    def _replace(self, table: Table, planned: LiveFiles, compacted_files: list[Compacted]) -> None:
        """Commit the rewrites between two groups, as one commit. Remove the new files if it is
        certain that no version will ever name them. A rewrite whose answer was lost is in the log,
        where ``discard`` finds it."""
        new_paths = [
            compacted.add["path"] for compacted in compacted_files if compacted.add is not None
        ]
        was_tried, landed = False, 0
        try:
            actions = self._rewrites(table, planned, compacted_files)
            if was_tried := bool(actions):
                self.commits.commit_rewrite(table, actions)
                landed = 1
                folded = sum("remove" in action for action in actions)
                logger.info("%s: %d files were folded", table.name, folded)
        finally:
            planned_on = table.snapshot.version - landed
            discard(table.folder, new_paths, tried_behind=planned_on if was_tried else None)

    def _rewrites(
        self, table: Table, planned: LiveFiles, compacted_files: list[Compacted]
    ) -> list[dict[str, Any]]:
        """Return the commit's actions; none if other writers have changed the table since the plan,
        so that its rows may have moved. Raise ConcurrentChangeError if a new file no longer
        exists."""
        live = self.commits.live(table)
        if live.origin is not planned.origin or self.tracking.tables.get(table.name) is not table:
            return []
        vectors, now_ms = table.has_vectors, self.commits.time.now_ms()
        parts = [
            compaction_actions(compacted, table.folder, live.adds, vectors=vectors, now_ms=now_ms)
            for compacted in compacted_files
        ]
        actions = [action for part in parts for action in part]
        check_files(table, sorted(a["add"]["path"] for a in actions if "add" in a))
        return actions

    def _vacuum_if_due(self, table: Table) -> None:
        hours, note = self.target.vacuum_hours, self.tracking.layout.vacuumed(whole_of(table.path))
        if hours and _is_due(note, hours) and not self._clock.is_ahead() and self._tidies(table):
            self._vacuum(table)

    def _vacuum(self, table: Table) -> None:
        """Remove files that no version within the table's retention needs, and their indexes. The
        retention is at least as long as cuts are promised."""
        keep_files(self.commits, table, self._retention.longest)
        # The versions that no longer name the files must survive a power failure.
        self.tracking.barrier.before_first_sync(table.folder)
        self.tracking.barrier.durable.sync(table.folder)
        whole, now_s = whole_of(table.path), time.time()
        vacuum(table.folder, self._remover, now_s, self._spared(table))
        self._forget_gone(table)
        touch(self.tracking.layout.vacuumed(whole))

    def _spared(self, table: Table) -> set[str]:
        """Return the files of pinned cuts. A cut that is pinned later was promised when VACUUM
        began, and VACUUM keeps all files that were retained at that time."""
        pinned = PromisedVersions(*self._controls(table)).pinned.get(whole_of(table.path), ())
        return files_of(table.folder, pinned)

    def _forget_if_due(self, table: Table) -> None:
        """Remove the indexes of data files that another writer's VACUUM may have removed."""
        note = self.tracking.layout.forgotten(whole_of(table.path))
        if _is_due(note, self.target.vacuum_hours or _FORGET_H):
            self._forget_gone(table)

    def _forget_gone(self, table: Table) -> None:
        for shard in list(self.tracking.tables.values()):
            if shard.folder == table.folder:
                self._forget_indexes(shard)
        touch(self.tracking.layout.forgotten(whole_of(table.path)))

    def _forget_indexes(self, table: Table) -> None:
        keys = self.tracking.layout.keys(table.path)
        # indexes of the key, and of the referencing columns of foreign keys
        for name in os.listdir(keys) if os.path.isdir(keys) else ():
            forget_gone_segments(os.path.join(keys, name), table.folder)
            KeyIndex(os.path.join(keys, name), table.folder, []).forget_gone()


def _is_due(note: str, hours: int) -> bool:
    """Return whether the time of the file ``note`` is ``hours`` ago, or far in the future, from a
    wrong clock. Create the file if there is none."""
    try:
        age_s = time.time() - os.path.getmtime(note)
        return age_s > 3600 * hours or age_s < -JUMP_S
    except FileNotFoundError:  # a new table has nothing to remove
        touch(note)
        return False
