"""Row repair: the rows of some keys as the source has them, in one commit to their table.

Its position stays, as what it has of the log does: the commit is told by an appId of its own. Rows
that the table has of a key go, those that the source has of it come; both are staged as changes
that are certain, so that what is found in the table is no error.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..decode.changes import CERTAIN, EXISTED, EXISTS
from ..decode.staged import Part
from ..delta.columns import one_chunk
from ..delta.digests import digests
from ..errors import TargetError
from ..runtime.private_files import opener
from .commit import actions_of, check_files
from .direct_writer import DirectWriter
from .discard import discard
from .table_commits import repairs_of
from .written import WriteTask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..binlog.definition import TableDefinition
    from ..control.cut import Cut
    from ..runtime.workers import Workers
    from .table import Table
    from .tracking import Tracking
    from .written import Written

Keys = npt.NDArray[np.uint64]


def key_of(definition: TableDefinition) -> tuple[str, ...]:
    """The names of the key's columns."""
    return tuple(definition.columns[number].name for number in definition.primary_key)


def key_digests(rows: pa.Table, key: Sequence[int]) -> Keys:
    """The digest of each row's key."""
    if not rows.num_rows:  # and perhaps no chunks
        return np.zeros(0, np.uint64)
    made: Keys = digests([one_chunk(rows.column(number)) for number in key], range(len(key)))[0]
    return made


def staged_rows(
    path: str, definition: TableDefinition, rows: pa.Table, position: int, *, exist: bool
) -> Part:
    """Writes rows that come (``exist``), or go, as staged changes into a file of their own.
    ``position``: packed, to be named where they don't fit."""
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
    names = [str(number) for number in range(rows.num_columns)] + list(extra)
    staged = pa.Table.from_arrays([*rows.columns, *extra.values()], names=names)
    with open(path, "wb", opener=opener) as file, pa.ipc.new_stream(file, staged.schema) as out:
        out.write_table(staged)
    return Part(definition.name, 0, count, path, 0, os.path.getsize(path), whole=True)


def _binary(key: Keys) -> pa.Array:
    """Each number's eight bytes."""
    edges = pa.py_buffer(np.arange(len(key) + 1, dtype=np.int64) * 8)
    data = pa.py_buffer(np.ascontiguousarray(key))
    return pa.Array.from_buffers(pa.large_binary(), len(key), [None, edges, data])


@dataclass(frozen=True)
class TouchTask:
    """Staged changes of a table with a ``key``, among which ``keys`` (digests) are looked for."""

    part: Part
    key: tuple[int, ...]
    keys: Keys


def touches(task: TouchTask) -> bool:
    """Whether the changes are about one of the keys."""
    rows = task.part.read()
    key = [rows.column(str(number)) for number in task.key]
    made = key_digests(pa.table(key, names=list(map(str, task.key))), range(len(key)))
    return bool(np.isin(made, task.keys).any())


class RowRepair:
    """One table's repair; the caller owns the target, and nothing else is under way."""

    def __init__(self, tracking: Tracking, workers: Workers) -> None:
        self._tracking, self._workers = tracking, workers
        self._commits, self._writer = tracking.commits, DirectWriter(tracking, workers)

    def commit(self, table: Table, parts: Sequence[Part], cut: Cut) -> int | None:
        """Brings staged rows into the table, which stands at ``cut``; returns the version of the
        commit, None where nothing was to be done. Raises TargetError, ConcurrentChangeError."""
        with table.lock:
            self._commits.refresh(table)
            with self._commits.files_there([table]):
                return self._commit(table, parts, cut)

    def _commit(self, table: Table, parts: Sequence[Part], cut: Cut) -> int | None:
        tracking = self._tracking
        self._writer.prepare([table])
        here = self._workers.is_small(rows=sum(part.rows for part in parts))
        written = self._workers.run(self._writer.task, [self._task(table, parts)], here=here)
        try:
            if faults := [fault for one in written for fault in one.violations]:
                raise TargetError(
                    f"the source's row {faults[0].key} has no place in the table",
                    number=faults[0].number, table=table.name,
                )  # fmt: skip
            written = self._writer.finish({table.name: table}, written)
            check_files(table, [path for one in written for path in one.files])
            actions = actions_of(self._commits, table, written)
        except Exception:  # nothing was committed yet
            self._discard(table, written, None)
            raise
        if not actions:
            return None
        own = tracking.stamp(cut)
        stamp = replace(own, app=repairs_of(own.app))
        try:
            version = tracking.delta.commit(table.snapshot, actions, stamp)
        except Exception:
            self._discard(table, written, table.snapshot.version)
            raise
        self._commits.landed(table, actions, table.position, version)
        return version

    def _task(self, table: Table, parts: Sequence[Part]) -> WriteTask:
        return WriteTask(
            table.name, table.folder, self._tracking.key_folder(table), table.columns,
            table.definition.primary_key, tuple(parts), self._writer.files(table),
            idempotent=True, complete=False, definition=table.definition,
            change_data=table.snapshot.has("delta.enableChangeDataFeed"),
        )  # fmt: skip

    @staticmethod
    def _discard(table: Table, written: Sequence[Written], tried_behind: int | None) -> None:
        for one in written:
            discard(table.folder, one.files, tried_behind=tried_behind)
