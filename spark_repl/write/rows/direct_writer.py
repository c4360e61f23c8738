"""The direct writer: the driver's part of writing a group. It builds key indexes, and rewrites
files of tables without deletion vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from ...rules.table_mode import has_versions
from ..files.commit import marked_rows
from ..files.compaction import CompactTask, RewriteTask, rewrite
from ..files.key_index import IndexTask, build
from ..files.key_segments import FoldTask, fold_is_due, fold_segments
from ..files.write_task import LiveFile, WriteTask, Written, by_table
from .direct import write_direct
from .scd2_history import write_history

if TYPE_CHECKING:
    from ...runtime.workers import Workers
    from ..tables.table import Table
    from ..tables.tracking import Tracking


_CHECK_EVERY = 16
"""versions of a table after which the indexes of its files are checked again"""


class DirectWriter:
    """Writes a group: ``prepare``, ``task`` on the workers, and ``finish``; ``commit_rows``
    follows, table by table, from several threads. The key index finds the rows that go, which are
    marked; the rows that come are written as files. Each step is planned on the table's tracked
    snapshot.

    Contract: no reader sees anything before the commit, and the commit is one Delta commit, with
    the position in it. ``task`` and ``finish`` return violations for everything that can fail
    because of the data. The commit fails only because of other writers or of storage, and a second
    attempt does not land twice. ``Written.files`` names the files to discard without a commit.
    tests/spark/test_writers.py shows it.
    """

    def __init__(self, tracking: Tracking, workers: Workers) -> None:
        self._tracking, self._workers = tracking, workers
        self._checked: dict[str, tuple[object, int]] = {}
        """by folder of a key index: the origin and version of the files that were checked last"""
        self.task: Callable[[WriteTask], Written] = _write

    def prepare(self, tables: Iterable[Table]) -> None:
        """Build the key indexes of files that other writers wrote, in parallel, before any look-up,
        and fold those of many files. This process writes the index of each file before it commits
        the file. So ``prepare`` checks again only after others have committed, and once in
        ``_CHECK_EVERY`` versions."""
        tasks, folds = [], []
        for table in tables:
            index, live = self._tracking.key_index(table), self._tracking.commits.live(table)
            origin, version = self._checked.get(index.folder, (None, 0))
            if origin is live.origin and live.version - version < _CHECK_EVERY:
                continue
            self._checked[index.folder] = live.origin, live.version
            paths = live.adds.paths()
            tasks += [IndexTask(index, path) for path in index.missing(paths.to_pylist())]
            if fold_is_due(index, paths):
                folds.append(FoldTask(index, paths))
        self._workers.run(build, tasks, here=len(tasks) < 2)
        if folds:
            self._workers.run(fold_segments, folds)

    def finish(self, tables: Mapping[str, Table], written: list[Written]) -> list[Written]:
        """Add the files that lose rows in tables without deletion vectors, written again without
        these rows."""
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
        in_driver = self._workers.is_small(file_bytes=size)
        return [*written, *self._workers.run(rewrite, tasks, here=in_driver)]


def _write(task: WriteTask) -> Written:
    """Run a task of either kind. Raise TargetError and DecodeError."""
    return write_history(task) if has_versions(task.definition) else write_direct(task)
