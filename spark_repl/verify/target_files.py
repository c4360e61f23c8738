"""A table's data files at one version: their digests, each file computed once by a worker, and the
rows that deletion vectors leave."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..config.renaming import shard_of
from ..delta.files import deletion_vector
from ..delta.files.delta_columns import (
    Columns,
    one_chunk,
    open_file,
    read_rows,
    stored_columns,
    with_type,
)
from ..delta.files.digests import Digests, digests, mix
from ..delta.files.statistics import row_count
from ..delta.store.storage import is_gone
from ..write.shared.shard_tables import columns_of
from .work_folder import load, save

if TYPE_CHECKING:
    from ..tables.target_table import TargetTable
    from .row_sample import SampledRows


@dataclass(frozen=True)
class FileTask:
    """Arguments of digesting one file. ``columns``: the table's; ``schema``: their types in
    memory."""

    folder: str
    path: str
    columns: Columns
    schema: pa.Schema
    key: tuple[int, ...]
    out: str
    sample: SampledRows | None = None
    """None: all rows; else the digests of other rows are 0, and these rows are not read"""
    deleted: str = ""
    """physical name of the column that marks rows that the source has deleted, whose digests are
    also 0; "": there is none"""


@dataclass(frozen=True)
class FileSet:
    """The live files of one version of a table. ``files``: Delta's ``add`` actions by path."""

    folder: str
    version: int
    schema_string: str
    columns: Columns
    files: Mapping[str, Mapping[str, Any]]
    deleted: str = ""
    """as in ``FileTask``"""
    shard: tuple[str, str] = ("", "")
    """physical partition column, and its value in the files of this set; ("", ""): all files"""

    def of_shard(self, definition: TargetTable) -> FileSet:
        """Return the files of the table ``definition`` if several tables share the Delta table."""
        number = definition.shard_column
        if number < 0:
            return self
        columns = columns_of(self.columns, definition)
        shard = columns.physical[number], shard_of(definition.name)
        return replace(self, columns=columns, shard=shard).with_files(self.files)

    def with_files(self, files: Mapping[str, Mapping[str, Any]]) -> FileSet:
        """Return the set with those of ``files`` that belong to its shard."""
        column, value = self.shard
        own = {
            path: add
            for path, add in files.items()
            if not column or (add.get("partitionValues") or {}).get(column) == value
        }
        return replace(self, files=own)

    def of_source(self, count: int, deleted: int) -> FileSet:
        """Return the part that the source has: the first ``count`` columns, without the rows that
        the column number ``deleted`` marks as deleted (-1: there is no such column)."""
        marks = self.columns.physical[deleted] if deleted >= 0 else ""
        return replace(self, columns=self.columns.first(count), deleted=marks)

    def out(self, work: str, path: str, key: tuple[int, ...]) -> str:
        """Return the path of a file's digests. The name depends on the meaning of the columns,
        because this may change although a file never does."""
        columns = repr((key, self.columns.physical, self.columns.types, self.deleted))
        identity = "\0".join((self.folder, path, self.schema_string, columns))
        return os.path.join(work, f"t-{hashlib.sha256(identity.encode()).hexdigest()[:32]}.npy")

    def tasks(
        self, work: str, schema: pa.Schema, key: tuple[int, ...], sample: SampledRows | None = None
    ) -> list[FileTask]:
        """Return the tasks for files whose digests are not saved yet."""
        outs = {path: self.out(work, path, key) for path in self.files}
        return [
            FileTask(self.folder, path, self.columns, schema, key, out, sample, self.deleted)
            for path, out in outs.items()
            if not os.path.exists(out)
        ]

    def live(
        self, work: str, key: tuple[int, ...]
    ) -> Iterator[tuple[str, Digests, npt.NDArray[np.int64]]]:
        """Yield (path, digests of all rows, numbers of the live rows) for each file. A row outside
        the sample has the key digest 0; another row has it with a probability of 1 in 2^64."""
        for path, add in self.files.items():
            digested = load(self.out(work, path, key))
            alive = np.asarray(digested[0] != 0)
            if vector := add.get("deletionVector"):
                dead = deletion_vector.read(self.folder, vector)
                alive[deletion_vector.rows_of(dead)] = False
            yield path, digested, np.flatnonzero(alive)

    def without(self, paths: Collection[str]) -> FileSet:
        """Return the set without some of its files."""
        return replace(self, files={p: add for p, add in self.files.items() if p not in paths})

    def rows_of(self, add: Mapping[str, Any]) -> int:
        """Return the number of live rows of a file."""
        dead = (add.get("deletionVector") or {}).get("cardinality", 0)
        return row_count(self.folder, dict(add)) - int(dead)

    def rows_with(
        self, work: str, keys: npt.NDArray[np.uint64], key: tuple[int, ...], schema: pa.Schema
    ) -> list[pa.Table]:
        """Return the live rows that have one of ``keys`` (digests), by file."""
        tables = []
        for path, digested, alive in self.live(work, key):
            rows = alive[np.isin(digested[0][alive], keys)]
            if len(rows):
                tables.append(self.values(path, rows, schema))
        return tables

    def values(self, path: str, rows: npt.NDArray[np.int64], schema: pa.Schema) -> pa.Table:
        """Return rows of one file, by their numbers."""
        read = read_rows(self.folder, path, self.columns.physical, rows)
        return _typed(read, schema)


def digest_files(tasks: Sequence[FileTask]) -> int:
    """Digest files, each into a separate file; return the number of their rows."""
    rows = 0
    for task in tasks:
        digested = _whole(task) if task.sample is None else _sampled(task, task.sample)
        if task.deleted:
            digested[:, _deleted(task)] = 0
        rows += digested.shape[1]
        save(task.out, digested)
    return rows


def lacking(error: BaseException, sets: Mapping[str, FileSet]) -> str | None:
    """Return the table that lacks a file, from the error of reading its files; None for another
    error."""
    return next((name for name, files in sets.items() if is_gone(error, files.folder)), None)


def _whole(task: FileTask) -> Digests:
    with open_file(task.folder, task.path) as file:
        stored = stored_columns(file, task.columns.physical)
    rows = _typed(stored, task.schema)
    return digests([one_chunk(column) for column in rows.columns], task.key)


def _sampled(task: FileTask, sample: SampledRows) -> Digests:
    """Digest a sample: read one column of all rows, and all columns of the sample's rows."""
    physical = task.columns.physical
    with open_file(task.folder, task.path) as file:
        (values,) = stored_columns(file, [physical[sample.column]])
    chosen = np.flatnonzero(
        sample.holds(with_type(one_chunk(values), task.schema.types[sample.column]))
    )
    digested = np.zeros((2, len(values)), np.uint64)
    if len(chosen):
        rows = _typed(read_rows(task.folder, task.path, physical, chosen), task.schema)
        digested[:, chosen] = digests([one_chunk(column) for column in rows.columns], task.key)
    return digested


def _deleted(task: FileTask) -> npt.NDArray[np.bool_]:
    with open_file(task.folder, task.path) as file:
        (values,) = stored_columns(file, [task.deleted])
    return np.asarray(pc.fill_null(one_chunk(values), False))


def places(path: str, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Return a number for each row's place: its file, and its position in the file."""
    name = np.frombuffer(hashlib.sha256(path.encode()).digest()[:8], np.uint64)[0]
    return np.asarray(mix(mix(rows.astype(np.uint64)) ^ name))


def _typed(columns: Sequence[Any], schema: pa.Schema) -> pa.Table:
    arrays = [
        with_type(one_chunk(column), field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)
