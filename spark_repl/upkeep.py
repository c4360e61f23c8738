"""Upkeep: what tables need besides their rows, done beside the stream by one thread.

Fewer and fuller data files (sink/compaction), Delta's checkpoints off the commit path
(sink/checkpoint), and VACUUM, which also removes what attempts that died have left.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from .config import Target
from .crash_points import reach
from .errors import SparkReplError
from .sink import checkpoint
from .sink.commit import check_files
from .sink.compaction import Compacted, CompactTask, actions_of, choose, compact
from .sink.direct import LiveFile
from .sink.replaced import remove_replaced, touch
from .sink.storage import remove_if_there
from .sink.tracking import Table, Tracking
from .workers import HERE_BYTES, Workers

log = logging.getLogger(__name__)


class Upkeep:
    """Looks after the tables that groups have changed. Whatever fails here is tried again later:
    the stream goes on, and stops by itself when its own commits fail."""

    def __init__(
        self, tracking: Tracking, workers: Workers, target: Target, *, compaction: bool
    ) -> None:
        self.tracking, self.workers, self.target = tracking, workers, target
        self._enough = target.compact_files if compaction else 0
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="upkeep")
        self._lock = threading.Lock()
        self._changed: set[str] = set()
        self._working = self._closed = False

    def look(self, tables: Iterable[str]) -> None:
        """Tables that a group has just changed. Returns at once."""
        with self._lock:
            self._changed.update(tables)
            if self._changed and not self._working and not self._closed:
                self._working = True
                self._pool.submit(self._work)

    def close(self) -> None:
        """Ends what is under way and begins nothing more."""
        with self._lock:
            self._closed = True
        self._pool.shutdown(wait=True)

    def _work(self) -> None:
        while (name := self._next()) is not None:
            table = self.tracking.tables.get(name)
            try:
                if table is not None:
                    self._one(table)
                if self.tracking.control.prune(self.target.cut_retention_hours):
                    self._remove_replaced()
            except (SparkReplError, OSError) as error:
                log.warning("upkeep of %s is put off: %s", name, error)
            except Exception:
                log.exception("upkeep of %s is put off", name)

    def _next(self) -> str | None:
        with self._lock:
            if self._closed or not self._changed:
                self._working = False
                return None
            return self._changed.pop()

    def _one(self, table: Table) -> None:
        checkpoint.write_if_due(self.tracking.delta, table.snapshot)
        # What is only moved keeps its row id, which this compaction can't write down.
        if self._enough and not table.snapshot.has("delta.enableRowTracking"):
            self._compact(table)
        if self._vacuum_due(table):
            self._vacuum(table)

    def _compact(self, table: Table) -> None:
        live = self.tracking.live(table)
        keys, tasks, size = self.tracking.layout.keys(table.path), [], 0
        for paths in choose(dict(live), self._enough):
            files = tuple(LiveFile(path, live[path].get("deletionVector")) for path in paths)
            tasks.append(CompactTask.of(table, keys, files))
            size += sum(int(live[path]["size"]) for path in paths)
        if not tasks:
            return
        done = self.workers.run(compact, tasks, here=size <= HERE_BYTES)
        reach("compacted")
        landed: set[str] = set()
        try:
            landed = self._replace(table, live, done)
        finally:
            for made in (one.add["path"] for one in done if one.add is not None):
                if made not in landed:
                    remove_if_there(os.path.join(table.folder, made))
        reach("after_compaction")

    def _replace(self, table: Table, planned: object, done: list[Compacted]) -> set[str]:
        """Commits the rewrites between two groups, as one; returns the new files that landed."""
        with table.lock:
            live = self.tracking.live(table)
            # Another object: others have changed the table, and its rows may lie anywhere.
            if live is not planned or self.tracking.tables.get(table.name) is not table:
                return set()
            vectors = table.has_vectors
            parts = [actions_of(one, table.folder, live, vectors=vectors) for one in done]
            actions = [action for part in parts for action in part]
            if not actions:
                return set()
            new = {action["add"]["path"] for action in actions if "add" in action}
            check_files(table, sorted(new))
            self.tracking.rewritten(table, actions)
        log.info("%s: %d files became one of each partition", table.name, len(actions) - len(new))
        return new

    def _vacuum_due(self, table: Table) -> bool:
        if not self.target.vacuum_hours:
            return False
        path = self.tracking.layout.vacuumed(table.path)
        try:
            return time.time() - os.path.getmtime(path) > 3600 * self.target.vacuum_hours
        except FileNotFoundError:  # a new table has nothing to remove
            touch(path)
            return False

    def _vacuum(self, table: Table) -> None:
        """Files that no version within the table's retention needs, and their key indexes."""
        self.tracking.delta.vacuum(table.folder)
        self.tracking.key_index(table).forget_gone()
        touch(self.tracking.layout.vacuumed(table.path))

    def _remove_replaced(self) -> None:
        """Tables whose place a copy has taken, when the cuts that show them are gone."""
        if self.target.vacuum_hours:
            hours = self.target.cut_retention_hours
            for path in remove_replaced(self.tracking.control, self.tracking.layout, hours):
                log.info("%s was replaced by a copy, and is in no cut any more: removed", path)
