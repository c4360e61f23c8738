"""Staged rows: rows that were read from the source, or that go because the source lacks them,
staged as certain changes. A certain change is not an error, whatever row the target has.
``touches`` returns whether other staged changes have the same keys."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...binlog.rows.change_bits import CERTAIN, EXISTED, EXISTS
from ...decode.stage_task import Part
from ...delta.files.delta_columns import one_chunk
from ...delta.files.digests import digests
from ...runtime.private_files import private_opener

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...tables.table_definition import TableDefinition
    from ...tables.target_table import TargetTable

Keys = npt.NDArray[np.uint64]


def key_of(definition: TableDefinition) -> tuple[str, ...]:
    """Return the names of the key's columns."""
    return tuple(definition.columns[number].name for number in definition.primary_key)


def key_digests(rows: pa.Table, key: Sequence[int]) -> Keys:
    """Return the digest of each row's key."""
    if not rows.num_rows:  # a column may then have no chunks
        return np.zeros(0, np.uint64)
    result: Keys = digests([one_chunk(rows.column(number)) for number in key], range(len(key)))[0]
    return result


def staged_rows(
    path: str, definition: TargetTable, rows: pa.Table, position: int, *, exist: bool
) -> Part:
    """Write rows to add (``exist``), or to remove, as staged changes into a separate file. Without
    a ``path`` they stay in memory. ``position``: packed, for errors. A row to remove has only the
    key and the extra columns. If the target keeps the row, marked as deleted, its other values stay
    those of the target."""
    count = rows.num_rows
    flags = np.full(count, (EXISTS if exist else EXISTED) | CERTAIN, np.uint8)
    edges = pa.array(np.arange(count + 1, dtype=np.int32))
    key = key_digests(rows, definition.primary_key)
    extra = {
        "flags": pa.ListArray.from_arrays(edges, pa.array(flags)),
        "positions": pa.ListArray.from_arrays(edges, pa.array(np.full(count, position))),
        "count": pa.array(np.ones(count, np.int64)),
        "key": _binary(key),
        "held": pa.nulls(count, pa.binary()),
        "diffs": pa.nulls(count, pa.binary()),
    }
    if not exist and definition.keeps_deleted:
        extra["held"] = pa.repeat(pa.scalar(_bits_of_deleted(definition), pa.binary()), count)
    names = [str(number) for number in range(rows.num_columns)] + list(extra)
    staged = pa.Table.from_arrays([*rows.columns, *extra.values()], names=names)
    if not path:
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, staged.schema) as out:
            out.write_table(staged)
        blob = stream.getvalue().to_pybytes()
        return Part(definition.name, 0, count, blob=blob, whole=True)
    with (
        open(path, "wb", opener=private_opener) as file,
        pa.ipc.new_stream(file, staged.schema) as out,
    ):
        out.write_table(staged)
    return Part(definition.name, 0, count, path, 0, os.path.getsize(path), whole=True)


def _bits_of_deleted(definition: TargetTable) -> bytes:
    """Return the bitmap of the columns that a row that goes has: the key's and extra columns."""
    holds = [column.extra != "" for column in definition.columns]
    for number in definition.primary_key:
        holds[number] = True
    return np.packbits(holds, bitorder="little").tobytes()


def _binary(key: Keys) -> pa.Array:
    """Return the eight bytes of each number."""
    edges = pa.py_buffer(np.arange(len(key) + 1, dtype=np.int64) * 8)
    data = pa.py_buffer(np.ascontiguousarray(key))
    return pa.Array.from_buffers(pa.large_binary(), len(key), [None, edges, data])


@dataclass(frozen=True)
class TouchTask:
    """Staged changes of a table with a ``key``, in which ``keys`` (digests) are searched for."""

    part: Part
    key: tuple[int, ...]
    keys: Keys


def touches(task: TouchTask) -> bool:
    """Return whether the changes concern one of the keys."""
    rows = task.part.read()
    key = [rows.column(str(number)) for number in task.key]
    digests_of_rows = key_digests(pa.table(key, names=list(map(str, task.key))), range(len(key)))
    return bool(np.isin(digests_of_rows, task.keys).any())
