"""Key segments: the key indexes of many data files in one file, so that a look-up opens few files.

A look-up that opens an index for each of 10,000 data files takes seconds, however few keys it has.
So small indexes are folded into segments, sorted by hash like an index: a row's place is the number
of a data file and a row in it. A segment never changes; a look-up ignores its entries for files
that are no longer live. A segment is a copy of indexes that stay: if it is damaged or lost,
look-ups get slower, nothing else. On the own disk of an executor a segment replaces the indexes.
There a look-up builds indexes that the disk has no room for, and drops them.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ...delta.store import storage
from ...runtime.executor_disk import has_own_disk, mark_used
from ...runtime.threads import Pool
from .key_index import BUILDS_AT_ONCE, Hashes, KeyIndex, Rows, join

ENOUGH = 64
"""number of small indexes and segments of a table above which they are folded"""
_FULL_ROWS = 4_000_000
"""rows of a segment, 16 bytes each; an index or segment with half of that is not folded"""
_SUFFIX = ".segment.arrow"
"""suffix of format 1; a later format has another suffix, so that a version reads only its own"""


@dataclass(frozen=True)
class _Segment:
    """``files``: names of data files, by their numbers. ``places``: file << 32 | row."""

    path: str
    files: Sequence[str]
    hashes: Hashes = field(repr=False)
    places: Rows = field(repr=False)


def _open(path: str) -> _Segment | None:
    """Return the segment, None if the file no longer exists, or half written by a machine that
    died."""
    try:
        with pa.memory_map(path) as source, pa.ipc.open_file(source) as reader:
            rows = reader.get_batch(0)
            files = json.loads(reader.schema.metadata[b"files"])
    except (OSError, ValueError, KeyError, TypeError):  # pyarrow's own are ValueErrors
        return None
    return _Segment(path, files, rows.column(0).to_numpy(), rows.column(1).to_numpy())


def _segments(folder: str) -> list[_Segment]:
    names = sorted(n for n in storage.names(folder) if n.endswith(_SUFFIX))
    return [segment for name in names if (segment := _open(os.path.join(folder, name))) is not None]


@dataclass(frozen=True)
class _Covered:
    """``used``: segments, with the number among the live files of each of their files (-1: not
    live, or in another segment); ``loose``: live files that are in no segment, with their numbers.
    """

    used: Sequence[tuple[_Segment, npt.NDArray[np.int64]]]
    loose: Mapping[str, int]
    needless: Sequence[str]
    """paths of segments without a live file"""


def _covered(folder: str, data_files: pa.Array) -> _Covered:
    is_loose = np.ones(len(data_files), bool)
    used, needless = [], []
    for segment in _segments(folder):
        names = pa.array(segment.files, pa.string())
        numbers = np.asarray(pc.fill_null(pc.index_in(names, data_files), -1), np.int64)
        is_own = numbers >= 0
        is_own[is_own] = is_loose[numbers[is_own]]  # else another segment has the file
        numbers[~is_own] = -1
        is_loose[numbers[is_own]] = False
        if is_own.any():
            mark_used(segment.path)
            used.append((segment, numbers))
        else:
            needless.append(segment.path)
    at = np.flatnonzero(is_loose)
    loose = dict(zip(data_files.take(pa.array(at)).to_pylist(), at.tolist(), strict=True))
    return _Covered(used, loose, needless)


def candidates(
    index: KeyIndex, data_files: pa.Array, needed: Hashes
) -> Iterator[tuple[int, Rows, Rows]]:
    """Yield, for each of the data files (paths [files]) that has candidates, its number and the
    pairs that ``KeyIndex.candidates`` returns for it."""
    if len(data_files) <= ENOUGH:
        loose = {path: number for number, path in enumerate(data_files.to_pylist())}
        covered = _Covered((), loose, ())
    else:
        covered = _covered(index.folder, data_files)
    for segment, numbers in covered.used:
        at, places = join(needed, segment.hashes, segment.places)
        owner, rows = numbers[places >> 32], places & 0xFFFFFFFF
        # Group the hits by data file; -1 is a file that is not live, or in another segment.
        order = np.argsort(owner, kind="stable")
        order = order[owner[order] >= 0]
        owners, starts = np.unique(owner[order], return_index=True)
        for number, part in zip(owners.tolist(), np.split(order, starts[1:]), strict=False):
            yield number, at[part], rows[part]
    for number, (at, rows) in _look_up(index, covered.loose, needed):
        if len(at):
            yield number, at, rows


def _look_up(
    index: KeyIndex, loose: Mapping[str, int], needed: Hashes
) -> Iterator[tuple[int, tuple[Rows, Rows]]]:
    """Yield the number of each data file that is in no segment, and its candidates. On an
    executor's own disk many indexes may be missing: build them side by side."""
    if not (has_own_disk() and len(loose) > 1):
        for path, number in loose.items():
            yield number, index.candidates(path, needed)
        return
    with Pool(min(len(loose), BUILDS_AT_ONCE), "index") as pool:
        results = pool.map(lambda path: index.candidates(path, needed), loose)
        yield from zip(loose.values(), results, strict=True)


@dataclass(frozen=True)
class FoldTask:
    """A table's live data files (paths [files]); each has its index."""

    index: KeyIndex
    data_files: pa.Array


@dataclass(frozen=True)
class _Unit:
    """A small index, or the live part of a segment. ``names``: its live files."""

    names: tuple[str, ...]
    rows: int
    segment: tuple[_Segment, npt.NDArray[np.int64]] | None = None


def fold_segments(task: FoldTask) -> None:
    """Merge a table's small indexes and segments if there are more than ``ENOUGH``, and remove
    segments without a live file. Raise OSError."""
    index, covered = task.index, _covered(task.index.folder, task.data_files)
    for path in covered.needless:
        storage.remove_if_there(path)
    small = _small(index, covered)
    if len(small) > ENOUGH:
        for bundle in _bundles(sorted(small, key=lambda unit: unit.rows)):
            if len(bundle) > 1:
                _write(index, bundle)


def fold_is_due(index: KeyIndex, data_files: pa.Array) -> bool:
    """Return whether ``fold_segments`` has something to merge."""
    if len(data_files) <= ENOUGH:
        return False
    return len(_small(index, _covered(index.folder, data_files))) > ENOUGH


def prepare_own(index: KeyIndex, data_files: pa.Array) -> None:
    """Build and merge the indexes of a table's live data files on this process's own disk, except
    those that are already in a segment, and those for which the disk has no room. Raise OSError."""
    if len(data_files) > ENOUGH:
        index.build_missing(_covered(index.folder, data_files).loose)
    else:
        index.build_missing(data_files.to_pylist())
    if fold_is_due(index, data_files):
        fold_segments(FoldTask(index, data_files))


def _small(index: KeyIndex, covered: _Covered) -> list[_Unit]:
    # On the driver's disk every data file has its index.
    absent = set(index.missing(covered.loose)) if has_own_disk() else set[str]()
    built = (path for path in covered.loose if path not in absent)
    units = [_Unit((path,), index.row_count(path)) for path in built]
    for segment, numbers in covered.used:
        names = tuple(n for n, at in zip(segment.files, numbers, strict=True) if at >= 0)
        rows = len(segment.hashes) * len(names) // len(segment.files)
        units.append(_Unit(names, rows, (segment, numbers)))
    return [unit for unit in units if unit.rows < _FULL_ROWS // 2]


def _bundles(small: Sequence[_Unit]) -> list[list[_Unit]]:
    bundles: list[list[_Unit]] = [[]]
    for unit in small:
        if sum(member.rows for member in bundles[-1]) + unit.rows > _FULL_ROWS:
            bundles.append([])
        bundles[-1].append(unit)
    return bundles


def _write(index: KeyIndex, units: Sequence[_Unit]) -> None:
    """Write one segment that replaces the ``units``, then remove their segments; on an executor's
    own disk also their indexes."""
    hashes, places, names = [], [], list[str]()
    for unit in units:
        if unit.segment is None:
            loaded, rows = index.load(unit.names[0])
            hashes.append(loaded)
            places.append(np.int64(len(names)) << 32 | rows)
        else:
            segment, numbers = unit.segment
            new_number = np.where(numbers >= 0, np.cumsum(numbers >= 0) - 1 + len(names), -1)
            owner = new_number[segment.places >> 32]
            live = owner >= 0  # entries of files that are no longer live are dropped
            hashes.append(segment.hashes[live])
            places.append(owner[live] << 32 | segment.places[live] & 0xFFFFFFFF)
        names += unit.names
    hash_column = np.concatenate(hashes)
    order = np.argsort(hash_column, kind="stable")
    columns = [pa.array(hash_column[order]), pa.array(np.concatenate(places)[order])]
    rows_of = pa.RecordBatch.from_arrays(columns, names=["hash", "place"])
    _put(index.folder, rows_of.replace_schema_metadata({"files": json.dumps(names)}))
    for unit in units:
        if unit.segment is not None:
            storage.remove_if_there(unit.segment[0].path)
        elif has_own_disk():
            index.remove(unit.names[0])


def _put(folder: str, rows: pa.RecordBatch) -> None:
    path = os.path.join(folder, f"{uuid.uuid4().hex}{_SUFFIX}")
    with open(f"{path}.part", "wb") as file:
        with pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_batch(rows)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.part", path)


def forget_gone_segments(folder: str, table_folder: str) -> None:
    """Remove segments whose data files no longer exist, and segments that can't be read."""
    for name in storage.names(folder):
        if name.endswith(_SUFFIX):
            path = os.path.join(folder, name)
            segment = _open(path)
            named = segment.files if segment else ()
            if not any(
                storage.exists(storage.data_file(table_folder, data_file)) for data_file in named
            ):
                storage.remove_if_there(path)
