"""The direct writer's side on the driver: key indexes, files without vectors, the commit itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..ddl.table_modes import has_versions
from . import direct
from .commit import commit, marked_rows
from .compaction import CompactTask, RewriteTask, rewrite
from .key_index import IndexTask, build
from .key_segments import FoldTask, fold, is_due
from .versions import write_versions
from .writer import by_table
from .written import LiveFile, WriteTask, Written

if TYPE_CHECKING:
    from ..delta.stamp import Stamp
    from ..runtime.workers import Workers
    from .commit import TablePart
    from .table import Table
    from .tracking import Tracking


class DirectWriter:
    """A ``Writer``: rows that go are found by the key index and marked, rows that come are written
    as files; planned on each table's tracked snapshot."""

    def __init__(self, tracking: Tracking, workers: Workers) -> None:
        self._tracking, self._workers = tracking, workers
        self.task: Callable[[WriteTask], Written] = _write

    def files(self, table: Table) -> tuple[LiveFile, ...]:
        """All live files: their key indexes say which are opened."""
        return self._tracking.commits.live_files(table)

    def prepare(self, tables: Iterable[Table]) -> None:
        """Makes the key indexes of files that others wrote, side by side, before any look-up, and
        folds those of many files."""
        tasks, folds = [], []
        for table in tables:
            index = self._tracking.key_index(table)
            live = self._tracking.commits.live(table).adds
            tasks += [IndexTask(index, path) for path in index.missing(live)]
            if is_due(index, tuple(live)):
                folds.append(FoldTask(index, tuple(live)))
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
        """One Delta commit, through ``commit.commit``, which keeps MySQL's order of checks."""
        commit(self._tracking.commits, parts, stamp)


def _write(task: WriteTask) -> Written:
    """Does a task, of either kind. Raises TargetError and DecodeError."""
    return write_versions(task) if has_versions(task.definition) else direct.write(task)
