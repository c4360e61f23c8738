"""Referencing: finds the rows of a table that reference some values, by an index or a scan.

A worker runs this part. An index of the referencing columns, like that of the key (``key_index``),
finds numbers, dates and bytes. A scan of these columns finds texts, which a collation compares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ...binlog.charsets.collation_compare import EXACT, comparable
from ...decode.stage_task import Part, write_part
from ...delta.files import deletion_vector
from ...delta.files.delta_columns import one_chunk, open_file, read_rows, stored_columns, with_type
from ...errors import DecodeError
from ..files.key_index import IndexTask, KeyIndex, hash_keys

if TYPE_CHECKING:
    from ...tables.target_table import TargetTable
    from ..files.compaction import CompactTask
    from ..files.write_task import LiveFile

Longs = npt.NDArray[np.int64]

FILE, ROW = "file", "row"
"""columns that follow the table's own in rows that a task hands on: where the row is"""


@dataclass(frozen=True)
class ReferencingTask:
    """A search for rows that reference values. ``of``: one file of a table, and the folder of the
    index of ``numbers``, the referencing columns, which ``collations`` compare; ``wanted``: values
    of these columns; ``folder``: for the result's file; None: in memory."""

    of: CompactTask
    definition: TargetTable
    numbers: tuple[int, ...]
    collations: tuple[int, ...]
    wanted: Part
    folder: str | None = None

    @property
    def names(self) -> list[str]:
        """Return the names of the referencing columns in the data file."""
        return [self.of.columns.physical[i] for i in self.numbers]

    @property
    def index(self) -> KeyIndex:
        types = [self.of.schema.types[i] for i in self.numbers]
        return KeyIndex(self.of.index_folder, self.of.folder, self.names, types)

    def missing(self) -> list[IndexTask]:
        """Return the tasks that build missing parts of the index."""
        paths = [file.path for file in self.of.files] if self.by_index else []
        index = self.index
        return [IndexTask(index, path) for path in index.missing(paths)]

    @property
    def by_index(self) -> bool:
        return all(collation == EXACT for collation in self.collations)


def find_referencing(task: ReferencingTask) -> Part:
    """Return the live rows, with the table's columns by number, and their places. There may be more
    rows than wanted. Raise DecodeError with the table for a text that can't be compared."""
    (file,), wanted = task.of.files, task.wanted.read()
    look = _by_index if task.by_index else _by_scan
    rows = look(task, file, wanted)
    return write_part(task.definition.name, _read(task, file.path, rows), task.folder, "cascade")


def _dead(task: ReferencingTask, file: LiveFile) -> Longs:
    """Return the rows of a file that are marked."""
    if file.vector is None:
        return np.zeros(0, np.int64)
    dead = deletion_vector.read(task.of.folder, file.vector)
    return deletion_vector.rows_of(dead).astype(np.int64)


def _by_index(task: ReferencingTask, file: LiveFile, wanted: pa.Table) -> Longs:
    hashes = hash_keys(wanted.columns)
    order = np.argsort(hashes, kind="stable")
    at, rows = task.index.candidates(file.path, hashes[order])
    live = ~np.isin(rows, _dead(task, file))
    at, rows = order[at[live]], rows[live]
    if len(rows):
        rows = rows[task.index.same(file.path, wanted.columns, at, rows)]
    return np.unique(rows)


def _by_scan(task: ReferencingTask, file: LiveFile, wanted: pa.Table) -> Longs:
    """Return the rows that match in each column by itself. The caller compares whole values
    later."""
    with open_file(task.of.folder, file.path) as opened:
        stored = stored_columns(opened, task.names)
    alive = np.ones(len(stored[0]), bool)
    alive[_dead(task, file)] = False
    for collation, values, some in zip(task.collations, stored, wanted.columns, strict=True):
        own = with_type(one_chunk(values), some.type).take(pa.array(np.flatnonzero(alive)))
        try:
            same = pc.is_in(
                comparable(own, collation), value_set=comparable(one_chunk(some), collation)
            )
        except DecodeError as error:
            raise error.at(table=task.definition.name) from None
        alive[alive] = np.asarray(pc.and_(same, own.is_valid()))
    return np.flatnonzero(alive)


def _read(task: ReferencingTask, path: str, rows: Longs) -> pa.Table:
    types = task.of.schema.types
    arrays = [pa.array([], kind) for kind in types]
    if len(rows):
        read = read_rows(task.of.folder, path, task.of.columns.physical, rows)
        arrays = [with_type(a, kind) for a, kind in zip(read, types, strict=True)]
    places = [pa.array([path] * len(rows), pa.string()), pa.array(rows)]
    names = [*map(str, range(len(types))), FILE, ROW]
    return pa.Table.from_arrays([*arrays, *places], names=names)
