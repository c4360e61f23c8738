"""The direct writer's side on the driver: key indexes, files without vectors, the commit itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ...rules.table_mode import has_versions
from ..files.commit import commit, marked_rows
from ..files.compaction import CompactTask, RewriteTask, rewrite
from ..files.key_index import IndexTask, build
from ..files.key_segments import FoldTask, fold, is_due
from ..files.write_task import LiveFile, PlannedFiles, WriteTask, Written, by_table
from . import direct
from .scd2_history import write_versions

if TYPE_CHECKING:
    from ...delta.stamp import Stamp
    from ...runtime.workers import Workers
    from ..files.commit import TablePart
    from ..tables.table import Table
    from ..tables.tracking import Tracking


_LOOK_EVERY = 16


class DirectWriter:
    """Writes a group: for each one ``prepare``, ``task`` on the workers, ``finish``, and then
    ``commit``, table by table, from several threads. Rows that go are found by the key index and
    marked, rows that come are written as files; planned on each table's tracked snapshot.

    Contract: nothing is visible to a reader before ``commit``, and that is one Delta commit, with
    the position in it. ``task`` and ``finish`` return violations for everything that can fail
    because of the data. ``commit`` fails only because of other writers or of storage, and a second
    attempt does not land twice. ``Written.files`` names the files to discard without a commit.
    tests/spark/test_writers.py
    """

    def __init__(self, tracking: Tracking, workers: Workers) -> None:
        self._tracking, self._workers = tracking, workers
        self._looked: dict[str, tuple[object, int]] = {}
        """by folder of a key index: the files whose indexes were looked at last, and when"""
        self.task: Callable[[WriteTask], Written] = _write

    def files(self, table: Table) -> PlannedFiles:
        """All live files: their key indexes say which are opened."""
        return self._tracking.commits.live_files(table)

    def prepare(self, tables: Iterable[Table]) -> None:
        """Makes the key indexes of files that others wrote, side by side, before any look-up, and
        folds those of many files. A file of our own has its index when it is committed, so that
        this is looked at again where others have committed, and once in ``_LOOK_EVERY`` versions.
        """
        tasks, folds = [], []
        for table in tables:
            index, live = self._tracking.key_index(table), self._tracking.commits.live(table)
            origin, version = self._looked.get(index.folder, (None, 0))
            if origin is live.origin and live.version - version < _LOOK_EVERY:
                continue
            self._looked[index.folder] = live.origin, live.version
            paths = live.adds.paths()
            tasks += [IndexTask(index, path) for path in index.missing(paths.to_pylist())]
            if is_due(index, paths):
                folds.append(FoldTask(index, paths))
        self._workers.run(build, tasks, here=len(tasks) < 2)
        if folds:
            self._workers.run(fold, folds)

    def finish(self, tables: Mapping[str, Table], written: list[Written]) -> list[Written]:
        """Adds, for tables without deletion vectors, their files that lose rows, written anew."""
        per_table = by_table(tables, written)
        tasks, size = [], 0
        for table in tables.values():
            if table.has_vectors:
                continue
            keys = self._tracking.key_folder(table)
            for path, rows in marked_rows(per_table[table.name]).items():
                old = self._tracking.commits.action(table, path)
                size += old["size"]
                file = LiveFile(path, old.get("deletionVector"))
                tasks.append(RewriteTask(CompactTask.of(table, keys, (file,)), rows.serialize()))
        here = self._workers.is_small(file_bytes=size)
        return [*written, *self._workers.run(rewrite, tasks, here=here)]

    def commit(self, parts: Sequence[TablePart], stamp: Stamp) -> None:
        """Makes one Delta commit, of a table or of shards that are in one Delta table, through
        ``commit.commit``, which keeps MySQL's order of checks. Raises ConcurrentChangeError if
        the group must be planned again."""
        commit(self._tracking.commits, parts, stamp)


def _write(task: WriteTask) -> Written:
    """Does a task, of either kind. Raises TargetError and DecodeError."""
    return write_versions(task) if has_versions(task.definition) else direct.write(task)
