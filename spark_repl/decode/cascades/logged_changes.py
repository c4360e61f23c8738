"""Logged changes of the tables that cascades may reach, in log order, with complete images."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...binlog.rows.change_bits import EXISTED, MOVED
from ...binlog.rows.partial_rows import PartialImages
from ...binlog.types.forms import USUAL, Forms
from ...errors import DecodeError
from ...position import RelayPosition
from ...tables.case_folding import fold
from ..spans import read_task
from .cascade_simulation import DELETED, INSERTED, UPDATED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...binlog.rows.row_images import RowImages
    from ...tables.source_table import SourceTable
    from ..stage_task import StageTask
    from .cascade_plan import CascadePlan

Longs = npt.NDArray[np.int64]

_NO_IMAGE = "set binlog_row_image=FULL on the source"


@dataclass(frozen=True)
class LoggedChanges:
    """Changes [n] in the order of the log.

    - ``table``: number of the table in the plan.
    - ``before``, ``after``: rows of the table's ``images``, -1 for none.
    - ``fires``: the storage engine executed the foreign keys of the change, unlogged.
    - ``transaction``: ordinal of the transaction.
    - ``images``: batches of each table. ``definitions``: the log's definitions, by table number.
    - ``positions`` [transactions]: packed. ``applied`` [transactions], by table: it has them.
    """

    table: Longs
    kind: Longs
    before: Longs
    after: Longs
    fires: npt.NDArray[np.bool_]
    transaction: Longs
    images: tuple[tuple[pa.RecordBatch, ...], ...]
    definitions: dict[int, SourceTable]
    positions: Longs
    applied: dict[str, npt.NDArray[np.bool_]]


@dataclass
class _Read:
    plan: CascadePlan
    images: list[list[pa.RecordBatch]]
    counts: list[int]
    forms: Forms
    parts: list[tuple[Any, ...]] = field(default_factory=list)
    definitions: dict[int, SourceTable] = field(default_factory=dict)
    walk: int = -1
    last: RowImages | None = None

    def add(self, images: RowImages, ordinals: Longs, positions: Longs) -> None:
        if self.last is None or not images.are_beside(self.last):
            self.walk += 1
        self.last = images
        name = self.plan.table(images.definition.name)
        if name is None:
            return
        number = list(self.plan.definitions).index(name)
        heads = np.flatnonzero(images.flags & MOVED == 0)
        paired = np.append(images.flags[1:] & MOVED != 0, False)[heads]
        gone = images.flags[heads] & EXISTED != 0
        fires = images.cascades()[heads] & (fold(name) not in self.plan.harmless)
        if name not in self.plan.children:
            wanted = fires & gone
            heads, paired, gone, fires = heads[wanted], paired[wanted], gone[wanted], fires[wanted]
        if not len(heads):
            return
        self.definitions.setdefault(number, images.definition)
        decoded = np.sort(np.concatenate((heads, heads[paired] + 1)))
        places = positions[images.transaction[decoded]]
        if isinstance(images, PartialImages):
            raise DecodeError(
                "a foreign key carries the change on to other tables, unlogged, and its image lacks"
                " columns",
                table=name,
                position=RelayPosition.unpack(int(places[0])),
                hint=_NO_IMAGE,
            )
        self.images[number].append(self._decoded(images, decoded, places))
        first = self.counts[number] + np.searchsorted(decoded, heads)
        self.counts[number] += len(decoded)
        after = np.where(paired, first + 1, np.where(gone, -1, first))
        kind = np.where(paired, UPDATED, np.where(gone, DELETED, INSERTED))
        owner = ordinals[images.transaction[heads]]
        walk, table = np.full(len(heads), self.walk), np.full(len(heads), number)
        self.parts.append(
            (
                owner,
                walk,
                images.places[heads],
                table,
                kind,
                np.where(gone, first, -1),
                after,
                fires,
            )
        )

    def _decoded(self, images: RowImages, entries: Longs, positions: Longs) -> pa.RecordBatch:
        try:
            batch = images.decode(entries, self.forms)
        except DecodeError as error:
            if error.row is not None:
                error.at(position=RelayPosition.unpack(int(positions[error.row])))
            raise
        names = [str(i) for i in range(batch.num_columns)]
        return pa.RecordBatch.from_arrays(batch.columns, names=names)


def read_logged_changes(plan: CascadePlan, tasks: Sequence[StageTask]) -> LoggedChanges:
    """Return the changes of the plan's tables in ``tasks``, which are consecutive in the log.

    Raise DecodeError and LogError with file and position.
    """
    tables = list(plan.definitions)
    forms = tasks[0].forms if tasks else USUAL
    read = _Read(plan, [[] for _ in tables], [0] * len(tables), forms)
    positions, begin = [np.zeros(0, np.int64)], 0
    masks: dict[str, list[npt.NDArray[np.bool_]]] = {name: [] for name in tables}
    for task in tasks:
        size = sum(len(span) for span in task.spans)
        for name in tables:
            masks[name].append(task.skip.get(name, np.zeros(size, bool)))
        positions.append(_read(read, task, begin))
        begin += size
    columns = [np.concatenate(column) for column in zip(*read.parts, strict=True)]
    if not columns:
        columns = [np.zeros(0, np.int64)] * 8
    owner, walk, place, table, kind, before, after, fires = columns
    order = np.lexsort((place, walk, owner))
    return LoggedChanges(
        table[order], kind[order], before[order], after[order], fires[order].astype(bool),
        owner[order], tuple(map(tuple, read.images)), read.definitions,
        np.concatenate(positions), {name: np.concatenate(m) for name, m in masks.items()},
    )  # fmt: skip


def _read(read: _Read, task: StageTask, begin: int) -> Longs:
    """Add a task's changes to ``read``. Return the positions of its transactions."""
    places = np.zeros(sum(len(span) for span in task.spans), np.int64)

    def add(images: RowImages, ordinals: Longs, positions: Longs) -> None:
        places[ordinals] = positions
        read.add(images, begin + ordinals, positions)

    read_task(task, task.applied(), add, pairs=True)
    return places
