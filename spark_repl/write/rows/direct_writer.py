"""The direct writer: the driver's part of writing a group. It builds key indexes, and rewrites
files of tables without deletion vectors.

The direct task turns the net changes of one table and shard into a data file and marked rows. It
runs on a Spark worker, or in the driver's process for a tiny group. It commits nothing. It returns
the ``add`` action of the file that it wrote and, for each older file, which of its rows go.

``GroupWriter`` calls it. Raises TargetError and DecodeError; rows that do not fit are returned as
violations, not raised. Design: docs/design/direct-writer.md.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from ...binlog.json.diff import CANNOT_APPLY
from ...binlog.kernels.stable_order import stable_order
from ...binlog.rows.change_bits import CERTAIN, EXISTED, EXISTS
from ...decode.folding import DUPLICATE_KEY, MISSING_ROW, take_rows
from ...decode.stage_task import write_part
from ...delta.files.deletion_vector import bitmap_of, rows_of
from ...delta.files.delta_columns import read_rows, with_type
from ...delta.files.partitions import NO_PARTITION, unplaced
from ...errors import TargetError
from ..files.change_data import write_changes
from ..files.commit import marked_rows
from ..files.compaction import CompactTask, RewriteTask, rewrite
from ..files.key_index import IndexTask, build, write_indexed
from ..files.key_lookup import find_rows, index_of, key_text
from ..files.key_segments import FoldTask, fold_is_due, fold_segments, prepare_own
from ..files.write_task import LiveFile, Violation, WriteTask, Written, by_table
from .net_changes import Changes, Look, net_changes
from .scd2_history import write_history
from .soft_deletes import are_soft_deleted

if TYPE_CHECKING:
    from ...runtime.workers import Workers
    from ..tables.table import Table
    from ..tables.tracking import Tracking
    from .partial_row_fill import MissingValues

MARKS_MAX_BYTES = 1 << 18
"""bytes of marks above which a task returns them in a file"""
_CHECK_EVERY = 16
"""versions of a table after which the indexes of its files are checked again"""


class DirectWriter:
    """Writes a group: ``prepare``, ``task`` on the workers, and ``finish``; ``commit_rows``
    follows, table by table, from several threads. The key index finds the rows to remove, which are
    marked; new rows are written as files. Each step is planned for the table's tracked snapshot.

    Contract: readers see nothing before the commit, and the commit is one Delta commit, with the
    position in it. ``task`` and ``finish`` return violations for everything that can fail because
    of the data. The commit fails only because of other writers or of storage, and a second attempt
    does not commit twice. ``Written.files`` names the files to discard if there is no commit.
    tests/spark/test_writers.py shows this.
    """

    def __init__(self, tracking: Tracking, workers: Workers) -> None:
        self._tracking, self._workers = tracking, workers
        self._checked: dict[str, tuple[object, int]] = {}
        """by folder of a key index: the origin and version of the files that were checked last"""
        self.task: Callable[[WriteTask], Written] = _write

    def prepare(self, tables: Iterable[Table], *, in_driver: bool) -> None:
        """Build the key indexes of files that other writers wrote, in parallel, before any look-up,
        and merge those of many files. This process writes the index of each file before it commits
        the file. So ``prepare`` checks again only after others have committed, and once in
        ``_CHECK_EVERY`` versions.

        Executors with disks of their own write indexes there. ``in_driver``: whether the look-ups
        that follow are in this process, which then lacks the indexes of executors' files.
        """
        if self._workers.has_own_disks(wait=not in_driver):
            for table in tables if in_driver else ():
                prepare_own(
                    self._tracking.key_index(table), self._tracking.commits.live(table).adds.paths()
                )
            return
        tasks, folds, size = [], [], 0
        for table in tables:
            index, live = self._tracking.key_index(table), self._tracking.commits.live(table)
            origin, version = self._checked.get(index.folder, (None, 0))
            if origin is live.origin and live.version - version < _CHECK_EVERY:
                continue
            self._checked[index.folder] = live.origin, live.version
            paths = live.adds.paths()
            missing = index.missing(paths.to_pylist())
            tasks += [IndexTask(index, path) for path in missing]
            if is_due := fold_is_due(index, paths):
                folds.append(FoldTask(index, paths))
            if missing or is_due:  # an index is smaller than its table
                size += pc.sum(live.adds.sizes()["size"]).as_py() or 0
        in_driver = self._workers.is_small(file_bytes=size)
        self._workers.run(build, tasks, here=in_driver or len(tasks) < 2)
        if folds:
            self._workers.run(fold_segments, folds, here=in_driver)

    def finish(self, tables: Mapping[str, Table], written: list[Written]) -> list[Written]:
        """Write the files again from which rows are removed, in tables without deletion vectors,
        and add them."""
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
    written = write_history(task) if task.definition.has_versions else write_direct(task)
    return _spilled(task, written)


def _spilled(task: WriteTask, written: Written) -> Written:
    """Return the result. If its marks are large, move them into a file beside the task's staged
    changes, because the driver and the JVM hold the results of all tasks of a group."""
    folder = next((os.path.dirname(part.path) for part in task.parts if part.path), None)
    if folder is None or sum(map(len, written.marks.values())) <= MARKS_MAX_BYTES:
        return written
    rows = pa.table({"path": [*written.marks], "rows": [*written.marks.values()]})
    return replace(written, marks={}, spilled=write_part(task.table, rows, folder, "marks"))


Longs = npt.NDArray[np.int64]

_FILE_ROWS = 2_000_000


@dataclass(frozen=True)
class Places:
    """The place of the target's row of each net row: index into the task's files (-1: no row), and
    row."""

    file: Longs
    row: Longs


@dataclass(frozen=True)
class Fold:
    """A task's net changes, and its result."""

    task: WriteTask
    changes: Changes
    out: Written

    def refuse(self, entry: int, number: int, at: Longs | None = None) -> None:
        """Report a net row as a Violation. ``at`` [n]: positions of the changes that cause it;
        None: of each key's first change."""
        position = int((self.changes.at if at is None else at)[entry])
        key = key_text(self.task, self.changes.rows, entry)
        self.out.violations.append(Violation(number, position, self.task.table, key))


def write_direct(task: WriteTask) -> Written:
    """Fold the changes, mark the rows to remove, write new rows. Raise TargetError and
    DecodeError."""
    began, out = time.perf_counter(), Written(task.table)
    _write_changes(task, out)
    out.seconds = time.perf_counter() - began
    return out


def _write_changes(task: WriteTask, out: Written) -> None:
    folded = fold_task(task, out, lambda rows: _present(task, rows))
    fold = Fold(task, folded, out)
    out.net = len(folded.net.entry)
    hit, places = _locate(fold)
    if out.violations:
        return
    keep = folded.net.flags & EXISTS != 0
    if folded.missing:
        keep &= _complete(fold, folded.missing, places)
        if out.violations:
            return
    if task.key and task.idempotent:
        # MySQL ignores an UPDATE whose row doesn't exist; certain changes are written anyway.
        keep &= hit | (folded.net.flags & CERTAIN != 0)
        lacking = (folded.net.flags & EXISTED != 0) & ~hit
        out.passed_over = folded.passed_over + int(np.count_nonzero(lacking))
    if refuse_unplaced(fold, keep):
        return
    chosen = np.flatnonzero(keep)
    if not task.key:  # equal rows are one entry with a count
        chosen = np.repeat(chosen, np.maximum(folded.net.count[chosen], 0))
    for at in range(0, len(chosen), _FILE_ROWS):
        rows = take_rows(folded.rows, chosen[at : at + _FILE_ROWS])
        out.adds += write_indexed(index_of(task), task.columns, rows)
    if task.change_data and out.changes_table:
        out.changes += _changes(task, folded.rows, chosen, keep, places, out)


def _changes(
    task: WriteTask, rows: pa.Table, chosen: Longs, keep: Any, places: Places, out: Written
) -> list[dict[str, Any]]:
    """Write the change files. ``chosen``: the entries whose rows come; ``keep`` [n]: which rows
    stay."""
    old = {}
    if task.key:
        for number in np.unique(places.file[places.file >= 0]):
            entries = np.flatnonzero(places.file == number)
            old[task.files[number].path] = places.row[entries], keep[entries]
    else:  # without a key, an entry may have many rows
        for path, marked in out.marks.items():
            gone = rows_of(BitMap.deserialize(marked)).astype(np.int64)
            old[path] = gone, np.zeros(len(gone), bool)
    replaces = places.file[chosen] >= 0
    return write_changes(
        task.folder, task.columns, old, rows.take(pa.array(chosen)), replaces & bool(task.key)
    )


def _complete(fold: Fold, missing: MissingValues, places: Places) -> npt.NDArray[np.bool_]:
    """Fill what the images lack from the target's rows. Return which rows are complete then."""
    task, folded, needed = fold.task, fold.changes, missing.rows
    # ``at``: index of each net row's old row among the rows read; the old row may have another key.
    at = np.full(len(needed), -1, np.int64)
    origins = np.unique(missing.origin[needed & (missing.origin >= 0)])
    old: dict[int, list[pa.Array]] = {column: [] for column in missing.wanted}
    rows_read = 0
    for number in np.unique(places.file[origins]):
        entries = origins[places.file[origins] == number]
        if number < 0:
            continue
        physical = [task.columns.physical[column] for column in old]
        read = read_rows(task.folder, task.files[number].path, physical, places.row[entries])
        for (column, parts), values in zip(old.items(), read, strict=True):
            parts.append(with_type(values, folded.rows.column(column).type))
        at[entries] = rows_read + np.arange(len(entries))
        rows_read += len(entries)
    at = np.where(needed & (missing.origin >= 0), at[missing.origin], -1)
    if rows_read:
        target_values = {column: pa.concat_arrays(parts) for column, parts in old.items()}
        folded.rows = missing.fill(folded.rows, target_values, at)
    folded.rows, bad = missing.patch(folded.rows, task.definition)
    for row in bad:
        if not needed[row] or at[row] >= 0:
            fold.refuse(row, CANNOT_APPLY)
    complete: npt.NDArray[np.bool_] = ~needed | (at >= 0)
    return complete


def refuse_unplaced(fold: Fold, keep: npt.NDArray[np.bool_]) -> bool:
    """Report violations for rows that fit into no partition. Return whether there are
    violations."""
    columns, folded = fold.task.columns, fold.changes
    if not columns.partitions:
        return False
    for entry in np.flatnonzero(unplaced(folded.rows, columns.divides) & keep):
        fold.refuse(int(entry), NO_PARTITION, folded.last)
    return bool(fold.out.violations)


def fold_task(task: WriteTask, out: Written, look: Look | None) -> Changes:
    """Return one net change per key over all parts of a task. Contradictions in the log become
    violations."""
    folded, breaks = net_changes(task.parts, task.definition, look, idempotent=task.idempotent)
    for contradiction in breaks:
        key = key_text(task, contradiction.row, 0)
        out.violations.append(
            Violation(contradiction.number, contradiction.position, task.table, key)
        )
    return folded


def _locate(fold: Fold) -> tuple[npt.NDArray[np.bool_], Places]:
    """Mark the rows that go. Return which entries have a row of the source in the table, and
    where."""
    task, folded = fold.task, fold.changes
    flags, n = folded.net.flags, len(folded.net.entry)
    gone = flags & EXISTED != 0
    look = np.ones(n, bool) if task.idempotent and task.key else gone.copy()
    if task.key and (gone.any() or not task.complete):
        look[:] = True  # only a group of INSERTs into a complete table needs no look-up
    needed = np.flatnonzero(look)
    matched = np.zeros(n, np.int64)
    places = Places(np.full(n, -1, np.int64), np.zeros(n, np.int64))
    if len(needed) and task.files:
        _search(fold, needed, matched, places)
    if not task.idempotent:
        wanted = np.abs(folded.net.count) if not task.key else np.ones(n, np.int64)
        for entry in np.flatnonzero(gone & (matched < wanted)):
            fold.refuse(int(entry), MISSING_ROW)
        # ``replaces``: a policy kept rows at a TRUNCATE. New rows of their keys replace them.
        if task.key and not task.replaces:
            for entry in np.flatnonzero(look & ~gone & (matched > 0)):
                fold.refuse(int(entry), DUPLICATE_KEY)
    return matched > 0, places


def _search(fold: Fold, needed: Longs, matched: Longs, places: Places) -> None:
    task, folded = fold.task, fold.changes
    limit = np.ones(len(matched), np.int64)
    if not task.key:
        limit = np.abs(folded.net.count)
    deleted = [needed[:0]]
    for number, at, rows in find_rows(task, take_rows(folded.rows, needed)):
        owner, picked = _choose_rows(needed[at], rows, matched, limit, bool(task.key), task)
        path = task.files[number].path
        dead = are_soft_deleted(task, path, picked)
        deleted.append(owner[dead])
        if task.idempotent:  # a change that is skipped leaves a deleted row as it is
            goes = ~dead | (folded.net.flags[owner] & CERTAIN != 0)
            owner, picked = owner[goes], picked[goes]
        if len(picked):
            places.file[owner], places.row[owner] = number, picked
            fold.out.marks[path] = bitmap_of(picked).serialize()
    matched[np.concatenate(deleted)] = 0  # the source deleted these rows


def _present(task: WriteTask, rows: pa.Table) -> npt.NDArray[np.bool_]:
    """Return which of the rows' keys have a row of the source in the table."""
    present = np.zeros(rows.num_rows, bool)
    for number, at, places in find_rows(task, rows):
        present[at] = ~are_soft_deleted(task, task.files[number].path, places)
    return present


def _choose_rows(
    entry: Longs, rows: Longs, matched: Longs, limit: Longs, keyed: bool, task: WriteTask
) -> tuple[Longs, Longs]:
    """Return entries, and for each the row of one file to mark: all matching rows for a key;
    without a key as many rows as must go."""
    if not len(entry):
        return entry, rows
    order = stable_order(entry)
    entry, rows = entry[order], rows[order]
    new = np.concatenate(([True], entry[1:] != entry[:-1]))
    starts = np.flatnonzero(new)
    # Number of each row among the rows of its entry, over all files so far.
    rank = np.arange(len(entry)) - np.repeat(starts, np.diff(np.append(starts, len(entry))))
    rank += matched[entry]
    if keyed and rank.max() > 0:
        raise TargetError(
            "a key has more than one row in the Delta table",
            table=task.table,
            hint="another writer wrote to the table: remove the doubled rows or copy it again",
        )
    chosen = rank < limit[entry]
    np.add.at(matched, entry[chosen], 1)
    return entry[chosen], rows[chosen]
