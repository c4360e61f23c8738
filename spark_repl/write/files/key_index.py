"""Key index: the rows of each data file by the hashes of their keys, sorted.

A data file never changes, so its index never changes either: there is nothing to invalidate. A file
that another writer wrote (OPTIMIZE, DML) gets its index from its key columns when it is first
needed. The index is never the truth: a hit is only a candidate. The deletion vector decides whether
the row is live; and the key's values are compared, unless the hash is the key itself (one integer
column).
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ...binlog.kernels.jit import jit, jit_allocating, larger
from ...binlog.kernels.key_hash import NULL_HASH, hash_binary
from ...binlog.kernels.stable_order import stable_order
from ...delta.files.delta_columns import (
    Columns,
    bits,
    equal,
    flat_parts,
    one_chunk,
    open_file,
    stored_columns,
    write_file,
)
from ...delta.store import storage
from ...runtime.executor_disk import has_room, mark_used, own_path, take_room
from ...runtime.part_files import remove_dead_parts
from ...runtime.threads import Pool

_SUFFIX = ".npy"
"""suffix of format 1; a later format has another (``.2.npy``): a version reads only its own"""

_LONGEST = 215
"""bytes of an index's name; file systems allow 255, and the name of a part has 38 more"""
_DIGEST = re.compile(r"~[0-9a-f]{32}\.npy")

BUILDS_AT_ONCE = 8
_HEADER_BYTES, _ROW_BYTES = 128, 16
"""bytes of NumPy's header of int64[2, rows] in an index file; bytes of a row's hash and place"""

Hashes = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int64]


def is_exact(types: list[pa.DataType]) -> bool:
    """Return whether the hash of such a key is the key itself. This is not the case for a column of
    a table without a key, which may be NULL."""
    return len(types) == 1 and pa.types.is_integer(types[0])


def hashes_alike(first: pa.DataType, second: pa.DataType) -> bool:
    """Return whether equal values of both types have the same hash."""
    kinds = (pa.types.is_integer, pa.types.is_decimal, pa.types.is_floating)
    return any(kind(first) and kind(second) for kind in kinds)


def hash_keys(keys: list[pa.ChunkedArray]) -> Hashes:
    """Return a 64-bit hash per row of the key columns ([rows] each), equal before and after
    widening."""
    if is_exact([key.type for key in keys]):
        if keys[0].null_count:  # a column of a table without a key
            return _hash_column(keys[0])
        return np.asarray(keys[0].cast(pa.int64()).to_numpy())  # not copied if it is int64
    total = np.zeros(len(keys[0]), np.int64)
    with np.errstate(over="ignore"):  # NumPy warns if the kernel is not compiled
        for key in keys:
            for part in _parts(key):
                _mix(total, _hash_column(part))
    return total


def _parts(key: pa.ChunkedArray) -> list[pa.ChunkedArray]:
    """Return the column, or the parts of a struct or list (in a table without a key), to be
    hashed."""
    if not pa.types.is_nested(key.type):
        return [key]
    return [pa.chunked_array([part]) for part in flat_parts(one_chunk(key))]


def _hash_column(column: pa.ChunkedArray) -> Hashes:
    kind = column.type
    # Hash the widest type of each family: a key keeps its hash when its column gets a wider type.
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        values = column.cast(pa.int64())
    elif pa.types.is_date(kind):
        values = column.cast(pa.int32()).cast(pa.int64())
    elif pa.types.is_timestamp(kind):
        values = column.cast(pa.int64())
    elif pa.types.is_floating(kind):
        values = column.cast(pa.float64())
    else:
        if pa.types.is_decimal(kind):
            column = _digits(column)
        return hash_binary(column.cast(pa.large_binary()).combine_chunks())
    if pa.types.is_floating(values.type):
        bits = np.asarray(values.fill_null(0.0).to_numpy()).astype(np.float64) + 0.0  # -0.0 is 0.0
        out = bits.view(np.int64).copy()
    else:
        out = np.array(values.fill_null(0).to_numpy(), np.int64)
    out[np.asarray(values.is_null())] = NULL_HASH
    return out


def _digits(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return decimals as bytes that don't depend on their scale: 1.50 equals 1.5, also once the
    type is wider."""
    wide = one_chunk(column.cast(pa.decimal256(76, 30)))
    plain = pa.Array.from_buffers(pa.binary(32), len(wide), wide.buffers(), offset=wide.offset)
    return pa.chunked_array([plain])


@jit
def _mix(total: Any, value: Any) -> None:
    for i in range(total.size):
        h = np.uint64(total[i]) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(value[i])
        h ^= h >> np.uint64(32)
        h *= np.uint64(0xD6E8FEB86659FD93)
        h ^= h >> np.uint64(32)
        total[i] = np.int64(h)


_HEADER = threading.Lock()


def _mapped(path: str) -> npt.NDArray[np.int64]:
    """Return an index file as a memory map. Raise OSError, ValueError and EOFError. NumPy reads the
    header as a Python literal, and CPython 3.11 counts the depth of literals for all threads
    together (python/cpython#106905): hence the lock."""
    with _HEADER:
        return np.asarray(np.load(path, mmap_mode="r"))


class KeyIndex:
    """The index files of one table, ``<folder>/<data file>.npy``: int64[2, rows], hash and row."""

    def __init__(
        self,
        folder: str,
        table_folder: str,
        key_columns: list[str],
        key_types: Sequence[pa.DataType] = (),
        live_column: str = "",
    ) -> None:
        """``key_types``: types of the key's columns. A file that is older than a column lacks it,
        and a file may have it in a wider type. ``live_column``: look-ups never need rows in which
        it is not true, and no index has them."""
        self._folder, self.table_folder, self.key_columns = folder, table_folder, key_columns
        self._types, self.live_column = key_types, live_column

    @property
    def folder(self) -> str:
        """Return the folder of the index files, on this process's own disk."""
        return own_path(self._folder)

    def _path(self, data_file: str) -> str:
        return os.path.join(self.folder, _name(data_file))

    def add(
        self, data_file: str, hashes: Hashes, live: pa.Array | pa.ChunkedArray | None = None
    ) -> None:
        """Write the index of a data file whose rows have these hashes, in row order, unless this
        executor's disk has no room for it. ``live``: which rows can be looked up; None: all."""
        self._write(data_file, _entries(hashes, live))

    def _write(self, data_file: str, entries: npt.NDArray[np.int64]) -> None:
        """Write an index, unless this executor's disk has no room for it."""
        if not take_room(entries.nbytes + _HEADER_BYTES):
            return
        path = self._path(data_file)
        # Others may read or build the same index: each sees a whole file or none.
        part = f"{path}.{uuid.uuid4().hex}.part"
        with self._opened(part) as file:
            np.save(file, entries)
        os.replace(part, path)

    def _opened(self, part: str) -> BinaryIO:
        """Open a new file in the folder, which ``forget_gone`` may remove meanwhile."""
        while True:
            os.makedirs(self.folder, exist_ok=True)
            try:
                return open(part, "wb")
            except FileNotFoundError:
                if os.path.isdir(self.folder):
                    raise

    def build(self, data_file: str) -> npt.NDArray[np.int64]:
        """Write the index of a file from its key columns, and return it."""
        keys = self.read_keys(data_file)
        live = None
        if self.live_column:
            with open_file(self.table_folder, data_file) as file:
                (live,) = stored_columns(file, [self.live_column])
        entries = _entries(hash_keys(keys), live)
        self._write(data_file, entries)
        return entries

    def load(self, data_file: str) -> npt.NDArray[np.int64]:
        """Return the hashes, ascending, and the row of each. Build the index first if there is
        none."""
        path = self._path(data_file)
        try:
            mapped = _mapped(path)
        except (OSError, ValueError, EOFError):  # never built, or half written by a dead machine
            return self.build(data_file)
        mark_used(path)
        return mapped

    def remove(self, data_file: str) -> None:
        """Remove the index of a data file, if there is one."""
        storage.remove_if_there(self._path(data_file))

    def row_count(self, data_file: str) -> int:
        """Return how many rows the index of a data file has; 0 if there is no index."""
        try:
            size = os.path.getsize(self._path(data_file))
        except FileNotFoundError:
            return 0
        return (
            max(0, size - _HEADER_BYTES) // _ROW_BYTES
        )  # a machine that died leaves an empty file

    def missing(self, data_files: Iterable[str]) -> list[str]:
        """Return the data files that have no index yet, because another writer wrote them."""
        existing = set(os.listdir(self.folder)) if os.path.isdir(self.folder) else set()
        return [path for path in data_files if _name(path) not in existing]

    def build_missing(self, data_files: Iterable[str]) -> None:
        """Build the missing indexes in parallel, because each answer of a store takes some time.
        Stop when this executor's disk has no more room."""
        missing = self.missing(data_files) if has_room() else []
        if missing:
            with Pool(min(len(missing), BUILDS_AT_ONCE), "index") as pool:
                list(pool.map(lambda path: has_room() and self.build(path), missing))

    def forget_gone(self) -> None:
        """Remove the indexes of data files that no longer exist, those whose names are digests, and
        temporary files of killed writers. Then remove the folder if it is empty, because it belongs
        to a former key of the table."""
        remove_dead_parts(self.folder)
        names = os.listdir(self.folder) if os.path.isdir(self.folder) else []
        for name in names:
            named = name.removesuffix(".npy").replace("%2F", "/")
            gone = _DIGEST.fullmatch(name) or not storage.exists(
                storage.data_file(self.table_folder, named)
            )
            if name.endswith(".npy") and gone:
                os.remove(os.path.join(self.folder, name))
        with suppress(OSError):  # it is not empty
            os.rmdir(self.folder)

    def read_keys(self, data_file: str) -> list[pa.ChunkedArray]:
        with open_file(self.table_folder, data_file) as file:
            stored = stored_columns(file, self.key_columns)
        return [self._typed(number, column) for number, column in enumerate(stored)]

    def _typed(self, number: int, column: pa.ChunkedArray) -> pa.ChunkedArray:
        if pa.types.is_null(column.type):
            return pa.chunked_array([pa.nulls(len(column), self._types[number])])
        if self._types and _is_plain(column.type) and column.type != self._types[number]:
            return column.cast(self._types[number])
        return column

    def candidates(self, data_file: str, needed: Hashes) -> tuple[Rows, Rows]:
        """Return (index into ``needed``, row in the file) of every equal hash. ``needed`` is
        sorted."""
        hashes, rows = self.load(data_file)
        if not len(hashes):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        # Each file of a copy holds a range of keys, so most needed keys are outside of it.
        first = int(np.searchsorted(needed, hashes[0], "left"))
        last = int(np.searchsorted(needed, hashes[-1], "right"))
        at, matched_rows = join(needed[first:last], hashes, rows)
        return at + first, matched_rows

    def same(
        self,
        data_file: str,
        wanted: list[pa.ChunkedArray],
        at: Rows,
        rows: Rows,
        *,
        bitwise: bool = False,
    ) -> Any:
        """Return bool[pairs]: which candidate pairs have the same key values. ``bitwise``: -0.0
        differs from 0.0."""
        matches = np.ones(len(rows), bool)
        for wanted_column, stored_column in zip(wanted, self.read_keys(data_file), strict=True):
            left, right = (
                wanted_column.take(pa.array(at)),
                one_chunk(stored_column).take(pa.array(rows)),
            )
            matches &= equal(one_chunk(left), one_chunk(right), bitwise=bitwise)
        return matches


def write_indexed(index: KeyIndex, columns: Columns, rows: pa.Table) -> list[dict[str, Any]]:
    """Write ``rows`` (columns in the table's order) into a data file, or one for each partition,
    with their key index. Return the ``add`` actions."""
    adds = []
    for values, part in columns.split(rows):
        add = write_file(index.table_folder, columns, part, values)
        keys = [part.column(columns.physical.index(name)) for name in index.key_columns]
        live = None
        if index.live_column:
            live = part.column(columns.physical.index(index.live_column))
        index.add(add["path"], hash_keys(keys), live)
        adds.append(add)
    return adds


@dataclass(frozen=True)
class IndexTask:
    """A data file whose index is missing."""

    index: KeyIndex
    data_file: str


def _entries(
    hashes: Hashes, live: pa.Array | pa.ChunkedArray | None = None
) -> npt.NDArray[np.int64]:
    """Return the index of a data file whose rows have these hashes, in row order. ``live``: which
    rows it contains; None: all."""
    rows = stable_order(hashes)
    if live is not None:
        rows = rows[np.asarray(pc.fill_null(live, False))[rows]]
    return np.stack([hashes[rows], rows])


def build(task: IndexTask) -> None:
    task.index.build(task.data_file)


def _is_plain(kind: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(kind) or pa.types.is_decimal(kind))


def _name(data_file: str) -> str:
    """Return the name of a data file's index. A partition's folder is in the data file's path, and
    may be as long as any file name: too long a name becomes a digest."""
    name = data_file.replace("/", "%2F") + _SUFFIX
    if len(name.encode()) <= _LONGEST:
        return name
    return f"~{hashlib.sha256(data_file.encode()).hexdigest()[:32]}{_SUFFIX}"


@jit_allocating
def join(needed: Any, keys: Any, rows: Any) -> Any:
    """Merge two sorted arrays. The merge skips ahead, so that a few needed keys don't read all of a
    large file's index."""
    left = np.empty(needed.size, np.int64)
    right = np.empty(needed.size, np.int64)
    n = 0
    lo = 0
    size = keys.size
    for i in range(needed.size):
        k = needed[i]
        step = 1
        hi = lo
        while hi < size and keys[hi] < k:
            lo = hi + 1
            hi += step
            step *= 2
        hi = min(hi, size)
        while lo < hi:
            mid = (lo + hi) >> 1
            if keys[mid] < k:
                lo = mid + 1
            else:
                hi = mid
        j = lo
        while j < size and keys[j] == k:
            if n == left.size:
                left, right = larger(left, n, n), larger(right, n, n)
            left[n] = i
            right[n] = rows[j]
            n += 1
            j += 1
    return left[:n], right[:n]


def value_codes(rows: pa.Table) -> tuple[npt.NDArray[np.int32], int]:
    """Return numbers 0..n-1 for rows that differ in a value, bit for bit, and n. Equal rows have
    equal numbers."""
    encoded = pa.array(hash_keys(rows.columns)).dictionary_encode()
    code = encoded.indices.to_numpy().astype(np.int32)
    first = np.empty(len(encoded.dictionary), np.int64)
    first[code[::-1]] = np.arange(len(code))[::-1]
    # Hashes may collide: compare each row with the first row that has its code.
    again = np.flatnonzero(first[code] != np.arange(len(code)))
    left, right = rows.take(pa.array(again)), rows.take(pa.array(first[code[again]]))
    for column, twin in zip(left.columns, right.columns, strict=True):
        if not equal(one_chunk(column), one_chunk(twin), bitwise=True).all():
            return _compared(rows)  # zeros with a sign, or two rows of one hash
    return code, len(first)


def _compared(rows: pa.Table) -> tuple[npt.NDArray[np.int32], int]:
    """Return the codes of ``value_codes``, made from the rows' values without their hashes."""
    total, count = np.zeros(rows.num_rows, np.int64), 1
    for column in rows.columns:
        for flat in flat_parts(one_chunk(column)):
            encoded = bits(flat).dictionary_encode()
            index = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
            pairs = pa.array(total * (len(encoded.dictionary) + 1) + index + 1).dictionary_encode()
            total, count = pairs.indices.to_numpy().astype(np.int64), len(pairs.dictionary)
    return total.astype(np.int32), count
