"""Partition files: the data files that have rows of partitions that go, and the removal of these
rows."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from ...delta.files import deletion_vector
from ...delta.files.delta_columns import one_chunk, open_file, stored_columns, with_type
from ...errors import StatementError
from ..files.change_data import write_changes
from ..files.commit import check_files
from ..files.compaction import CompactTask, RewriteTask, rewrite
from ..files.write_task import Written

if TYPE_CHECKING:
    from ...alter.partition_rows import PartitionRows
    from ...delta.log.log_replay import Action
    from ...runtime.workers import Workers
    from ..tables.table import Table
    from ..tables.tracking import Tracking

logger = logging.getLogger(__name__)

_MILLISECOND = 999
"""microseconds by which statistics may round down a maximum"""


def all_rows_go(add: Action, gone: PartitionRows, of: CompactTask) -> bool | None:
    """Return whether all rows of a data file are removed, according to its statistics: True for
    all, False for none, None if unknown. ``of``: the file's table."""
    stats = json.loads(add.get("stats") or "{}")
    if gone.all_rows or len(gone.columns) != 1:
        return gone.all_rows or None
    if gone.columns[0] in dict(of.columns.wider):
        return None  # the wider type of the bounds may print them inexactly
    name = of.columns.physical[gone.columns[0]]
    ends = [(stats.get(kind) or {}).get(name) for kind in ("minValues", "maxValues")]
    nulls = (stats.get("nullCount") or {}).get(name)
    if None in ends or nulls is None:
        return None
    try:
        bounds = _bounds(ends, of.schema.types[gone.columns[0]])
        return gone.of_range(bounds, nulls=nulls > 0)
    except (pa.ArrowInvalid, ValueError, TypeError, OverflowError):  # another writer's format
        return None


def _bounds(ends: list[Any], kind: pa.DataType) -> pa.Array:
    if not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        return pa.array([int(end) for end in ends]).cast(kind)
    bounds = pa.array(ends, pa.string()).cast(kind)
    if pa.types.is_date(kind):
        return bounds
    return pa.array([bounds[0].value, bounds[1].value + _MILLISECOND], pa.int64()).cast(kind)


@dataclass(frozen=True)
class PartitionTask:
    """A data file that may have rows of ``gone``. ``vectors``: whether rows are marked, instead of
    the file being rewritten; ``change_data``: whether the table has Delta's change data feed."""

    of: CompactTask
    gone: PartitionRows
    vectors: bool
    change_data: bool


def remove_partition_rows(
    tracking: Tracking, workers: Workers, table: Table, gone: PartitionRows
) -> list[Written]:
    """Return the results of removing the rows ``gone`` from the table: removed files, marks, and
    rewritten files. The table's lock is held. Raise StatementError."""
    folder, live = tracking.key_folder(table), tracking.commits.live(table).adds
    feed = table.snapshot.has("delta.enableChangeDataFeed")
    out, tasks, size = Written(table.name), [], 0
    for file in tracking.commits.live_files(table):
        of = CompactTask.of(table, folder, (file,))
        every = all_rows_go(live[file.path], gone, of)
        if every and not feed:
            out.gone.append(file.path)
        elif every is not False:
            tasks.append(PartitionTask(of, gone, table.has_vectors, feed))
            size += int(live[file.path]["size"])
    logger.info(
        "%s: %d files go, %d are looked into, of %d", table.name, len(out.gone), len(tasks),
        len(live),
    )  # fmt: skip
    written = [out, *workers.run(remove_rows, tasks, here=workers.is_small(file_bytes=size))]
    check_files(table, [path for part in written for path in part.files])
    return written


def remove_rows(task: PartitionTask) -> Written:
    """Find the rows to remove, and mark them or write the remaining rows. Raise StatementError."""
    (file,), of = task.of.files, task.of
    out = Written(of.table)
    marked = _rows(task)
    if not marked:
        return out
    if task.vectors:
        out.marks[file.path] = marked.serialize()
    else:
        written = rewrite(RewriteTask(of, marked.serialize()))
        out.adds, out.gone = written.adds, written.gone
    if task.change_data:
        rows = deletion_vector.rows_of(marked).astype(np.int64)
        none = pa.Table.from_arrays(
            [pa.array([], kind) for kind in of.schema.types], of.schema.names
        )
        old = {file.path: (rows, np.zeros(len(rows), bool))}
        out.changes = write_changes(of.folder, of.columns, old, none, np.zeros(0, bool))
    return out


def _rows(task: PartitionTask) -> BitMap:
    """Return the file's live rows that go."""
    (file,), of, gone = task.of.files, task.of, task.gone
    names = [of.columns.physical[number] for number in gone.columns]
    with open_file(of.folder, file.path) as parquet:
        count = parquet.metadata.num_rows
        stored = stored_columns(parquet, names)
    dead = np.zeros(count, bool)
    if file.vector is not None:
        dead[deletion_vector.rows_of(deletion_vector.read(of.folder, file.vector))] = True
    live = np.flatnonzero(~dead)
    arrays = [
        with_type(one_chunk(column), of.schema.types[number]).take(pa.array(live))
        for column, number in zip(stored, gone.columns, strict=True)
    ]
    try:
        chosen = gone.of_rows(arrays, len(live))
    except StatementError as error:
        raise error.at(table=of.table) from None
    return BitMap(live[chosen].astype(np.uint32))
