"""Compaction: small and half-dead data files of a table become one file, while the stream
continues. In tables without deletion vectors, ``rewrite`` writes a file that loses rows again
without them.

``file_choice`` selects the files, ``compact`` runs on a worker, and ``compaction_actions`` returns
what is committed. The rewrite copies the rows that were live when it was planned. If the stream
marks rows in the old files meanwhile, ``compaction_actions`` marks them in the new file: a row's
place there follows from its old place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from ...delta.files import deletion_vector
from ...delta.files.delta_columns import Columns, one_chunk, open_file, stored_columns, with_type
from ...delta.files.large_columns import joined
from ...delta.files.statistics import loosened
from ...delta.log.log_replay import Action
from .commit import removed
from .key_index import KeyIndex, write_indexed
from .write_task import Written

if TYPE_CHECKING:
    from ..tables.table import Table
    from .write_task import LiveFile


@dataclass(frozen=True)
class CompactTask:
    """Files to be merged into one. ``schema``: the Arrow types of the table's columns; ``key``:
    names of the key's columns in the data files, or of all columns in a table without a key;
    ``live_column``: see ``KeyIndex``."""

    table: str
    folder: str
    index_folder: str
    columns: Columns
    schema: pa.Schema
    key: tuple[str, ...]
    files: tuple[LiveFile, ...]
    live_column: str = ""

    @property
    def index(self) -> KeyIndex:
        types = [self.schema.types[self.columns.physical.index(name)] for name in self.key]
        return KeyIndex(self.index_folder, self.folder, list(self.key), types, self.live_column)

    @classmethod
    def of(cls, table: Table, index_folder: str, files: tuple[LiveFile, ...]) -> CompactTask:
        return cls(
            table.name,
            table.folder,
            index_folder,
            table.columns,
            table.definition.arrow_schema(),
            table.key_columns,
            files,
            table.live_column,
        )


@dataclass(frozen=True)
class Compacted:
    """The result of merging a task's files. ``add``: the new file, None if no row was left.
    ``starts`` [files + 1]: where the live rows of each old file begin in the new one."""

    files: tuple[LiveFile, ...]
    starts: tuple[int, ...]
    add: Action | None


def compact(task: CompactTask) -> Compacted:
    """Write the live rows of the task's files into one file, with its key index. Commit nothing."""
    parts = [live_rows(task, file) for file in task.files]
    starts = tuple(np.cumsum([0, *(part.num_rows for part in parts)]).tolist())
    rows = joined(parts)
    if not rows.num_rows:
        return Compacted(task.files, starts, None)
    (add,) = write_indexed(task.index, task.columns, rows)  # all of one partition
    return Compacted(task.files, starts, {**add, "dataChange": False})


def live_rows(task: CompactTask, file: LiveFile, gone: BitMap | None = None) -> pa.Table:
    """Return the rows of one file that neither its deletion vector nor ``gone`` marks."""
    gone = gone or BitMap()
    with open_file(task.folder, file.path) as parquet:
        stored = stored_columns(parquet, task.columns.physical)
    arrays = [
        with_type(one_chunk(column), field.type)
        for column, field in zip(stored, task.schema, strict=True)
    ]
    rows = pa.Table.from_arrays(arrays, names=list(task.columns.physical))
    if file.vector is not None:
        gone |= deletion_vector.read(task.folder, file.vector)
    if not gone:
        return rows
    keep = np.ones(rows.num_rows, bool)
    keep[deletion_vector.rows_of(gone)] = False
    return rows.filter(pa.array(keep))


def compaction_actions(
    compacted: Compacted, folder: str, live: Mapping[str, Action], *, vectors: bool, now_ms: int
) -> list[Action]:
    """Return the actions of the compaction's commit; none if nothing is left to replace. Write the
    deletion vector of rows that were marked meanwhile. In a table without ``vectors`` such a mark
    makes the rewrite useless, and there are no actions. ``live``: the table's current live files;
    ``now_ms``: time of the removal, in milliseconds."""
    marks, actions = BitMap(), list[Action]()
    for i, file in enumerate(compacted.files):
        marks |= _moved(compacted, i, folder, live.get(file.path))
        if file.path in live:
            actions.append({"remove": removed(live[file.path], now_ms, data_change=False)})
    if compacted.add is None or len(marks) == compacted.starts[-1]:  # no row is left
        return actions
    add = compacted.add
    if marks and not vectors:
        return []
    if marks:
        vector = deletion_vector.write(folder, [marks])[0]
        add = {**add, "deletionVector": vector, "stats": loosened(folder, add)}
    return [*actions, {"add": add}]


def _moved(compacted: Compacted, number: int, folder: str, live: Action | None) -> BitMap:
    """Return the rows of the new file that lost their row in the old file after the rewrite was
    planned. ``live``: the old file's action now, None if all its rows are removed."""
    first, last = compacted.starts[number], compacted.starts[number + 1]
    if live is None:
        return BitMap(range(first, last))
    old, vector = compacted.files[number].vector, live.get("deletionVector")
    if vector is None or vector == old:
        return BitMap()
    before = deletion_vector.read(folder, old) if old else BitMap()
    gone = deletion_vector.rows_of(deletion_vector.read(folder, vector) - before).astype(np.int64)
    # The new file lacks rows that were marked before: a row's number is smaller by those below it.
    rank = np.searchsorted(deletion_vector.rows_of(before), gone)
    return deletion_vector.bitmap_of(first + gone - rank)


@dataclass(frozen=True)
class RewriteTask:
    """A file to be written again without some rows. ``of``: the file; ``gone``: serialized roaring
    bitmap of the rows to remove."""

    of: CompactTask
    gone: bytes


def rewrite(task: RewriteTask) -> Written:
    """Write the remaining rows of the file as a new one, with its key index. Write none if no row
    remains."""
    (file,) = task.of.files
    out = Written(task.of.table, gone=[file.path])
    rows = live_rows(task.of, file, BitMap.deserialize(task.gone))
    if rows.num_rows:
        out.adds += write_indexed(task.of.index, task.of.columns, rows)
    return out
