"""The direct writer's task: net changes of one table and shard -> a data file and marked rows.

Runs on a Spark worker, or in the driver's process for a tiny group. It commits nothing: it returns
the ``add`` action of the file it wrote and, for each older file, which of its rows are gone.
"""

from __future__ import annotations

import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from ..apply.changes import (
    CERTAIN,
    DUPLICATE_KEY,
    EXISTED,
    EXISTS,
    MISSING_ROW,
    Net,
    codes,
    fold,
    fold_bag,
)
from ..apply.stage import EXTRA, Part
from ..errors import TargetError
from . import deletion_vector
from .columns import Columns, write_file
from .key_index import KeyIndex, hash_keys, is_exact

Longs = npt.NDArray[np.int64]

_FILE_ROWS = 2_000_000


@dataclass(frozen=True)
class LiveFile:
    """A data file of the planned snapshot."""

    path: str
    vector: dict[str, Any] | None


@dataclass(frozen=True)
class WriteTask:
    """``key``: indexes of the key's columns, empty for a table without one. ``complete``: the table
    was created in this log and nobody else writes it, so an INSERT's key can't be there."""

    table: str
    folder: str
    index_folder: str
    columns: Columns
    key: tuple[int, ...]
    parts: tuple[Part, ...]
    files: tuple[LiveFile, ...]
    idempotent: bool
    complete: bool
    staging: str = ""


@dataclass(frozen=True)
class Violation:
    """A change that doesn't fit: MySQL's error number, its transaction's position, the key."""

    number: int
    position: int
    table: str
    key: str


@dataclass
class Written:
    """``marks``: data file -> serialized roaring bitmap of rows that go. ``staged`` and
    ``inserts_only``: net changes in Parquet, for the merge writer."""

    table: str
    adds: list[dict[str, Any]] = field(default_factory=list)
    marks: dict[str, bytes] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)
    net: int = 0
    staged: list[str] = field(default_factory=list)
    inserts_only: bool = False

    @property
    def changes_table(self) -> bool:
        return bool(self.adds or self.marks or self.staged)


@dataclass
class Changes:
    """Folded changes: ``rows`` are the surviving images [n], ``at`` the first change's position."""

    rows: pa.Table
    net: Net
    at: Longs


def write(task: WriteTask) -> Written:
    """Folds, finds the rows that go, writes the rows that come. Raises TargetError."""
    out = Written(task.table)
    found = fold_task(task, out)
    out.net = len(found.net.entry)
    hit = _locate(task, found, out)
    if out.violations:
        return out
    keep = found.net.flags & EXISTS != 0
    if task.key and task.idempotent:
        # An UPDATE of a row that isn't there is ignored; what is certain is written anyway.
        keep &= hit | (found.net.flags & CERTAIN != 0)
    chosen = np.flatnonzero(keep)
    if not task.key:
        chosen = np.repeat(chosen, np.maximum(found.net.count[chosen], 0))
    for at in range(0, len(chosen), _FILE_ROWS):
        rows = found.rows.take(pa.array(chosen[at : at + _FILE_ROWS]))
        add = write_file(task.folder, task.columns, rows)
        _index(task).add(add["path"], hash_keys(_key_columns(task, rows)))
        out.adds.append(add)
    return out


def _key_columns(task: WriteTask, rows: pa.Table) -> list[pa.ChunkedArray]:
    chosen = task.key or range(len(task.columns.names))
    return [rows.column(i) for i in chosen]


def _index(task: WriteTask) -> KeyIndex:
    chosen = task.key or range(len(task.columns.names))
    return KeyIndex(task.index_folder, task.folder, [task.columns.physical[i] for i in chosen])


def fold_task(task: WriteTask, out: Written) -> Changes:
    """One net change per key over all parts of a task; breaks in the log become violations."""
    staged = pa.concat_tables([part.read() for part in task.parts])
    staged = staged.combine_chunks()
    code, distinct = codes(_one(staged.column("key")))
    if task.key:
        flags_list = _one(staged.column("flags"))
        length = np.diff(flags_list.offsets.to_numpy())
        parent = np.repeat(np.arange(len(code)), length)
        flags = flags_list.flatten().to_numpy(zero_copy_only=False)
        position = _one(staged.column("positions")).flatten().to_numpy()
        order = np.argsort(position, kind="stable")
        parent, flags, position = parent[order], flags[order], position[order]
        net = fold(code[parent], distinct, flags)
        broken = [] if task.idempotent else net.breaks
        entry, first = parent[net.entry], position[net.first]
        bad = [(number, int(position[at]), int(parent[at])) for at, number in broken]
    else:
        net = fold_bag(code, distinct, staged.column("count").to_numpy())
        entry, bad = net.entry, []
        first = _heads(staged.column("positions"))[net.first]
    rows = staged.drop_columns(list(EXTRA))
    for number, at, row in bad:
        out.violations.append(Violation(number, at, task.table, _describe(task, rows, row)))
    folded = Net(np.arange(len(entry)), net.flags, net.count, net.first, [])
    return Changes(rows.take(pa.array(entry)), folded, first)


def _heads(column: pa.ChunkedArray) -> Longs:
    lists = _one(column)
    heads: Longs = lists.values.to_numpy()[lists.offsets.to_numpy()[:-1]]
    return heads


def _one(column: pa.ChunkedArray) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _locate(task: WriteTask, found: Changes, out: Written) -> npt.NDArray[np.bool_]:
    """Marks the rows that go; returns which entries have a row in the table."""
    flags, n = found.net.flags, len(found.net.entry)
    gone = flags & EXISTED != 0
    look = np.ones(n, bool) if task.idempotent and task.key else gone.copy()
    if task.key and (gone.any() or not task.complete):
        look[:] = True  # a group of nothing but INSERTs needs no look-up in a complete table
    needed = np.flatnonzero(look)
    have = np.zeros(n, np.int64)
    if len(needed) and task.files:
        _search(task, found, needed, have, out)
    if not task.idempotent:
        wanted = np.abs(found.net.count) if not task.key else np.ones(n, np.int64)
        for entry in np.flatnonzero(gone & (have < wanted)):
            out.violations.append(_violation(task, found, int(entry), MISSING_ROW))
        if task.key:
            for entry in np.flatnonzero(look & ~gone & (have > 0)):
                out.violations.append(_violation(task, found, int(entry), DUPLICATE_KEY))
    return have > 0


def _search(task: WriteTask, found: Changes, needed: Longs, have: Longs, out: Written) -> None:
    index = _index(task)
    keys = _key_columns(task, found.rows.take(pa.array(needed)))
    hashes = hash_keys(keys)
    order = np.argsort(hashes, kind="stable")
    hashes = hashes[order]
    keys = [key.take(pa.array(order)) for key in keys]
    entries = needed[order]
    exact = is_exact([key.type for key in keys])
    limit = np.ones(len(have), np.int64)
    if not task.key:
        limit = np.abs(found.net.count)
    for file in task.files:
        at, rows = index.candidates(file.path, hashes)
        if not len(at):
            continue
        if file.vector is not None:
            dead = deletion_vector.read(task.folder, file.vector)
            live = ~_marked(dead, rows)
            at, rows = at[live], rows[live]
        if len(at) and not exact:
            same = index.same(file.path, keys, at, rows)
            at, rows = at[same], rows[same]
        picked = _take(entries[at], rows, have, limit, bool(task.key), task)
        if len(picked):
            out.marks[file.path] = BitMap(array.array("I", picked.tolist())).serialize()


def _take(
    entry: Longs, rows: Longs, have: Longs, limit: Longs, keyed: bool, task: WriteTask
) -> Longs:
    """Rows of one file to mark: all that match for a key, as many as must go for a bag."""
    if not len(entry):
        return rows
    order = np.argsort(entry, kind="stable")
    entry, rows = entry[order], rows[order]
    new = np.concatenate(([True], entry[1:] != entry[:-1]))
    starts = np.flatnonzero(new)
    rank = np.arange(len(entry)) - np.repeat(starts, np.diff(np.append(starts, len(entry))))
    rank += have[entry]
    if keyed and rank.max() > 0:
        raise TargetError(
            "a key has more than one row in the Delta table",
            table=task.table,
            hint="somebody else wrote to the table: remove the doubled rows or copy it again",
        )
    chosen = rank < limit[entry]
    np.add.at(have, entry[chosen], 1)
    return rows[chosen]


def _marked(dead: BitMap, rows: Longs) -> npt.NDArray[np.bool_]:
    marked = np.frombuffer(dead.to_array(), np.uint32)
    place = np.searchsorted(marked, rows)
    place[place == len(marked)] = 0
    return np.asarray(marked[place] == rows) if len(marked) else np.zeros(len(rows), bool)


def _violation(task: WriteTask, found: Changes, entry: int, number: int) -> Violation:
    key = _describe(task, found.rows, entry)
    return Violation(number, int(found.at[entry]), task.table, key)


def _describe(task: WriteTask, rows: pa.Table, row: int) -> str:
    chosen: Sequence[int] = task.key or range(min(4, rows.num_columns))
    values = (f"{task.columns.names[i]}={rows.column(i)[row].as_py()!r}" for i in chosen)
    return ", ".join(values)
