"""Tending: what one table needs besides its rows.

Fewer and fuller data files (write/files/compaction), Delta's checkpoints off the commit path
(delta/checkpoint), and VACUUM, which also removes what attempts that died have left.
"""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING, Any

from ...config.renaming import whole_of
from ...control.records.channels import channels
from ...control.records.replaced_tables import touch
from ...control.records.retention import Retention
from ...crash_points import reach
from ...delta import checkpoint
from ...delta.log_cleanup import PROTECTED_BEFORE, remove_commits
from ...delta.removing import Remover
from ...delta.vacuum import vacuum
from ...errors import FencedError
from ...runtime.java import jvm_end
from ...runtime.retry import first_line
from ...runtime.wall_clock import JUMP_S, WallClock
from ..files.commit import check_files
from ..files.compaction import Compacted, CompactTask, choose_files, compact, compaction_actions
from ..files.discard import discard
from ..files.key_index import KeyIndex
from ..files.key_segments import forget_gone
from ..files.write_task import LiveFile
from .file_retention import Promised, files_of, keep_files

if TYPE_CHECKING:
    from ...config import Target
    from ...control.table.control import Control
    from ...runtime.workers import Workers
    from ..tables.table import LiveFiles, Table
    from ..tables.tracking import Tracking

log = logging.getLogger(__name__)

_READ_AGAIN_S = 60
_FORGET_H = 24
"""hours after which indexes of data files that are gone go, where VACUUM is others' alone"""
_CLEAN_EVERY = 500
"""commits of a table after which its log is looked at: to list it takes the longer the larger it
is"""


class Tending:
    """``tend`` is one thread's, beside the groups. By a ``clock`` that is ahead nothing goes."""

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
        self._read: tuple[float, Promised] | None = None  # when, and what

    def forget(self, path: str) -> None:
        """There is no table any more at the path."""
        self._cleaned.pop(path, None)

    def tend(self, table: Table) -> None:
        """Does what is due; a step that fails holds up none behind it. Raises what the first of
        them raised: OSError, SparkReplError."""
        failed: Exception | None = None
        files = self._compact, self._vacuum_if_due, self._forget_if_due
        for step in (self._checkpoint, *files, self._clean_log):
            try:
                step(table)
            except Exception as error:
                if isinstance(error, FencedError) or jvm_end(error) is not None:
                    raise
                if failed is not None:
                    log.warning("upkeep of %s is put off: %s", table.name, first_line(error))
                failed = failed or error
        if failed is not None:
            raise failed

    def _checkpoint(self, table: Table) -> None:
        checkpoint.write_if_due(table.snapshot)

    def _clean_log(self, table: Table) -> None:
        """Removes commits that no promise needs, once so many have come."""
        version = table.snapshot.version
        if version - self._cleaned.get(whole_of(table.path), 0) < _CLEAN_EVERY:
            return
        if self._clock.is_ahead() or not self._tidies(table):
            return
        promised = self._promised_of(table)
        self._remover.check()  # else another one publishes cuts that these are not
        hours = max(self.target.commit_retention_hours, self._retention.every)
        removed = remove_commits(
            table.folder,
            self.tracking.settle.durable,
            remover=self._remover,
            before=time.time() - 3600 * hours,
            keep=promised.kept.get(whole_of(table.path), ()),
            begin=promised.begin.get(whole_of(table.path), 0),
            protected=int(table.snapshot.configuration.get(PROTECTED_BEFORE, 0)),
        )
        self._cleaned[whole_of(table.path)] = version
        log.info("%s: %d commits were removed from its log", table.name, removed)

    def _tidies(self, table: Table) -> bool:
        """Whether this channel removes files and commits of the table that nobody needs: of those
        that feed it the first."""
        return not table.is_shared or table.delta.tidies

    def _promised_of(self, table: Table) -> Promised:
        """What was promised of the table, by whichever channel."""
        return Promised(*self._controls(table)) if table.is_shared else self._promised()

    def _controls(self, table: Table) -> list[Control]:
        """Return this channel's control table, and those of the target's other channels where they
        may feed the table, too. Raises what reading the first one raises."""
        own = self.tracking.control
        if not table.is_shared:
            return [own]
        others = [one.control for one in channels(self.tracking.layout.target)]
        return [own, *(one for one in others if one.path != own.path)]

    def _promised(self) -> Promised:
        """What was promised a minute ago or later: thousands of cuts are read for it, and a later
        cut names no version that an earlier one's table has left behind."""
        read_at, promised = self._read or (0.0, None)
        if promised is None or time.monotonic() - read_at > _READ_AGAIN_S:
            read_at, promised = time.monotonic(), Promised(self.tracking.control)
            self._read = read_at, promised
        return promised

    def _compact(self, table: Table) -> None:
        # What is only moved keeps its row id, which this compaction can't write down.
        if not self._enough or table.snapshot.has("delta.enableRowTracking"):
            return
        with table.lock:
            planned = self.commits.live(table)
        live = planned.adds
        keys, tasks, size = self.tracking.key_folder(table), [], 0
        for paths in choose_files(table.folder, live, self._enough):
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

    def _replace(self, table: Table, planned: LiveFiles, done: list[Compacted]) -> None:
        """Commits the rewrites between two groups, as one. The new files that no version names are
        removed, if it is sure that none ever will: a rewrite whose answer was lost is in the log,
        and ``discard`` reads it there."""
        new_paths = [compacted.add["path"] for compacted in done if compacted.add is not None]
        tried, landed = False, 0
        try:
            actions = self._rewrites(table, planned, done)
            if tried := bool(actions):
                self.commits.rewritten(table, actions)
                landed = 1
                folded = sum("remove" in action for action in actions)
                log.info("%s: %d files were folded", table.name, folded)
        finally:
            behind = table.snapshot.version - landed
            discard(table.folder, new_paths, tried_behind=behind if tried else None)

    def _rewrites(
        self, table: Table, planned: LiveFiles, done: list[Compacted]
    ) -> list[dict[str, Any]]:
        """The commit's actions; none where others have changed the table since the plan, so that
        its rows may lie anywhere. Raises ConcurrentChangeError when a new file is gone."""
        live = self.commits.live(table)
        if live.origin is not planned.origin or self.tracking.tables.get(table.name) is not table:
            return []
        vectors, now_ms = table.has_vectors, self.commits.time.now_ms()
        parts = [
            compaction_actions(compacted, table.folder, live.adds, vectors=vectors, now_ms=now_ms)
            for compacted in done
        ]
        actions = [action for part in parts for action in part]
        check_files(table, sorted(a["add"]["path"] for a in actions if "add" in a))
        return actions

    def _vacuum_if_due(self, table: Table) -> None:
        hours, note = self.target.vacuum_hours, self.tracking.layout.vacuumed(whole_of(table.path))
        if hours and _is_due(note, hours) and not self._clock.is_ahead() and self._tidies(table):
            self._vacuum(table)

    def _vacuum(self, table: Table) -> None:
        """Removes files that no version within the table's retention needs, and their indexes; that
        is as long as cuts are promised, or longer."""
        keep_files(self.commits, table, self._retention.longest)
        self.tracking.settle.durable.sync(table.folder)
        whole, now_s = whole_of(table.path), time.time()
        vacuum(table.folder, self._remover, now_s, self._spared(table))
        self._forget_gone(table)
        touch(self.tracking.layout.vacuumed(whole))

    def _spared(self, table: Table) -> set[str]:
        """Return the files of pinned cuts. A cut that is pinned later was promised when VACUUM
        began, and VACUUM keeps all files that were retained at that time."""
        pinned = Promised(*self._controls(table)).pinned.get(whole_of(table.path), ())
        return files_of(table.folder, pinned)

    def _forget_if_due(self, table: Table) -> None:
        """Somebody else's VACUUM may have removed data files."""
        note = self.tracking.layout.forgotten(whole_of(table.path))
        if _is_due(note, self.target.vacuum_hours or _FORGET_H):
            self._forget_gone(table)

    def _forget_gone(self, table: Table) -> None:
        for one in list(self.tracking.tables.values()):
            if one.folder == table.folder:
                self._forget_indexes(one)
        touch(self.tracking.layout.forgotten(whole_of(table.path)))

    def _forget_indexes(self, table: Table) -> None:
        keys = self.tracking.layout.keys(table.path)
        # Of the key, and of columns that foreign keys are looked for by.
        for name in os.listdir(keys) if os.path.isdir(keys) else ():
            forget_gone(os.path.join(keys, name), table.folder)
            KeyIndex(os.path.join(keys, name), table.folder, []).forget_gone()


def _is_due(note: str, hours: int) -> bool:
    """Whether a file's time, which is made when there is none, is so many hours ago; or far ahead,
    from a clock that was wrong."""
    try:
        age_s = time.time() - os.path.getmtime(note)
        return age_s > 3600 * hours or age_s < -JUMP_S
    except FileNotFoundError:  # a new table has nothing to remove
        touch(note)
        return False
