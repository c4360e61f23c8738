"""Key look-up: finds the rows of a table's data files that have given keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...binlog.kernels.stable_order import stable_order
from ...delta.files import deletion_vector
from ...runtime.executor_disk import has_own_disk
from .key_index import KeyIndex, hash_keys, is_exact
from .key_segments import candidates, prepare_own

if TYPE_CHECKING:
    from pyroaring import BitMap

    from .write_task import WriteTask

Longs = npt.NDArray[np.int64]


def index_of(task: WriteTask) -> KeyIndex:
    """Return the key index of the task's table."""
    live = task.definition.current_column
    chosen = task.key or range(len(task.columns.names))
    types = task.definition.arrow_schema().types
    return KeyIndex(
        task.index_folder,
        task.folder,
        [task.columns.physical[i] for i in chosen],
        [types[i] for i in chosen],
        task.columns.physical[live] if live >= 0 else "",
    )


def _key_columns(task: WriteTask, rows: pa.Table) -> list[pa.ChunkedArray]:
    chosen = task.key or range(len(task.columns.names))
    return [rows.column(i) for i in chosen]


def find_rows(task: WriteTask, wanted: pa.Table) -> Iterator[tuple[int, Longs, Longs]]:
    """Yield for each file its number, the indexes of the wanted rows, and the file's live rows that
    have their keys. In a table without a key, rows match if all values are equal, bit for bit."""
    index = index_of(task)
    keys = _key_columns(task, wanted)
    hashes = hash_keys(keys)
    order = stable_order(hashes)
    hashes = hashes[order]
    exact = bool(task.key) and is_exact([key.type for key in keys])
    if not exact:
        keys = [key.take(pa.array(order)) for key in keys]
    if has_own_disk():  # the driver can't have prepared it
        prepare_own(index, task.files.paths)
    for number, at, rows in candidates(index, task.files.paths, hashes):
        file = task.files[number]
        if file.vector is not None:
            dead = deletion_vector.read(task.folder, file.vector)
            live = ~_marked(dead, rows)
            at, rows = at[live], rows[live]
        if len(at) and not exact:
            same = index.same(file.path, keys, at, rows, bitwise=not task.key)
            at, rows = at[same], rows[same]
        yield number, order[at], rows


# A mask of the file's rows is faster than a search for each wanted row, if the file's highest row
# is below this number times the number of wanted rows.
_ROWS_EACH = 100


def _marked(dead: BitMap, rows: Longs) -> npt.NDArray[np.bool_]:
    marked = deletion_vector.rows_of(dead)
    last = int(max(marked.max(initial=0), rows.max(initial=0)))
    if last < _ROWS_EACH * len(rows):
        is_marked = np.zeros(last + 1, bool)
        is_marked[marked] = True
        return is_marked[rows]
    nearest = np.searchsorted(marked, rows)
    nearest[nearest == len(marked)] = 0
    return np.asarray(marked[nearest] == rows) if len(marked) else np.zeros(len(rows), bool)


def key_text(task: WriteTask, rows: pa.Table, row: int) -> str:
    """Return a row's key as text for error messages."""
    chosen: Sequence[int] = task.key or range(min(4, rows.num_columns))
    values = (f"{task.columns.names[i]}={rows.column(i)[row].as_py()!r}" for i in chosen)
    return ", ".join(values)
