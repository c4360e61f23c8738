"""Emulated cascades: the changes that the source's storage engine made by foreign keys, without
logging them.

A worker runs this part. It applies the group's changes in log order to the rows that cascades may
reach, as numbers (``decode.cascades``). It puts each change that a key causes at the place
where InnoDB made it. At first the worker does not know which of the target's rows reference a key.
It then returns the values that it looked for in vain. The next attempt gets their rows
(``referencing``), until no value is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...binlog.kernels.jit import DONE, FULL
from ...binlog.rows.change_bits import EXISTED
from ...decode.cascades.cascade_plan import HINT
from ...decode.cascades.cascade_simulation import DEEP, DEPTH_MAX, Out, Stack, simulate
from ...decode.cascades.row_chains import Events, Graph, RowChains
from ...decode.stage_task import Staged, write_part
from ...delta.files.delta_columns import one_chunk
from ...errors import DecodeError
from ...position import RelayPosition
from .cascade_codes import Codes, codes_of, graph_of
from .referencing import FILE, ROW

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...decode.cascades.cascade_plan import CascadePlan
    from ...decode.cascades.logged_changes import LoggedChanges
    from ...decode.stage_task import Part, StageTask

    Reads = Callable[[CascadePlan, Sequence[StageTask]], LoggedChanges]
    from ...decode.cascades.cascade_plan import CascadePlan
    from ...decode.stage_task import Staged, StageTask

Longs = npt.NDArray[np.int64]


def emulate(read: Reads, task: CascadeTask) -> Cascaded:
    """Run the cascades of a task. ``read``: reads the logged changes of the plan's tables
    (``decode.cascades.logged_changes``). Raise DecodeError and LogError with the change's position.
    """
    plan, tables = task.plan, list(task.plan.definitions)
    changes = read(plan, task.stage)
    referencing = {
        name: _referencing_rows([p for n, p in task.referencing if n == name], plan, name)
        for name in tables
    }
    logged = [_logged(plan, changes, number) for number in range(len(tables))]
    rows = [
        pa.concat_tables([part, referencing[name]])
        for name, part in zip(tables, logged, strict=True)
    ]
    lookups = _read_all(task.lookups)
    try:
        codes = codes_of(plan, rows, lookups)
    except DecodeError as error:
        raise _at(error, changes, int(np.argmax(changes.fires))) from None
    base = np.concatenate(([0], np.cumsum([len(part) for part in rows])))
    graph = graph_of(plan, codes)
    events = _events(changes, codes, base, [len(part) for part in logged])
    code, out = _simulated(graph, events)
    if wanted := _wanted(plan, graph, codes, out):
        return Cascaded(
            tuple((f, write_part("", part, task.folder, "cascade")) for f, part in wanted)
        )
    if code != DONE:
        what = "are carried on without end" if code == DEEP else "are not those of the log"
        raise _at(
            DecodeError(f"rows that foreign keys have changed, unlogged, {what}", hint=HINT),
            changes, int(out.counts[3]),
        )  # fmt: skip
    staged = _Staging(task, changes, codes, rows, base, out).staged()
    return Cascaded((), staged, int(out.counts[2]))


def _read_all(parts: Sequence[tuple[int, Part]]) -> dict[int, pa.Table]:
    by_key: dict[int, list[pa.Table]] = {}
    for number, part in parts:
        by_key.setdefault(number, []).append(part.read())
    return {n: pa.concat_tables(tables).combine_chunks() for n, tables in by_key.items()}


def _empty(plan: CascadePlan, name: str) -> pa.Table:
    types = plan.definitions[name].arrow_schema().types
    return pa.schema([(str(i), kind) for i, kind in enumerate(types)]).empty_table()


def _referencing_rows(parts: Sequence[Part], plan: CascadePlan, name: str) -> pa.Table:
    """Return the rows that were looked up, each once."""
    if not parts:
        return _empty(plan, name)
    rows = pa.concat_tables([part.read() for part in parts]).combine_chunks()
    file = one_chunk(rows.column(FILE)).dictionary_encode().indices.to_numpy()
    place = np.stack([file, one_chunk(rows.column(ROW)).to_numpy()])
    once = np.unique(place, axis=1, return_index=True)[1]
    return rows.drop_columns([FILE, ROW]).take(pa.array(np.sort(once)))


def _logged(plan: CascadePlan, changes: LoggedChanges, number: int) -> pa.Table:
    name = list(plan.definitions)[number]
    if not changes.images[number]:
        return _empty(plan, name)
    rows = pa.Table.from_batches(
        [batch.cast(_empty(plan, name).schema) for batch in changes.images[number]]
    )
    return rows.combine_chunks()


def _at(error: DecodeError, changes: LoggedChanges, event: int) -> DecodeError:
    place = int(changes.positions[changes.transaction[event]])
    return error.at(position=RelayPosition.unpack(place))


def _events(changes: LoggedChanges, codes: Codes, base: Longs, logged: Sequence[int]) -> Events:
    begin = base[changes.table]
    loaded = [
        np.arange(first + count, last)
        for first, last, count in zip(base[:-1], base[1:], logged, strict=True)
    ]
    return Events(
        kind=changes.kind.astype(np.int64),
        before=np.where(changes.before < 0, -1, changes.before + begin),
        after=np.where(changes.after < 0, -1, changes.after + begin),
        fires=changes.fires,
        table=np.repeat(np.arange(len(base) - 1), np.diff(base)),
        codes=np.concatenate(codes.of),
        loaded=np.concatenate(loaded),
    )


def zeros(*shape: int) -> Longs:
    return np.zeros(shape, np.int64)


def _simulated(graph: Graph, events: Events) -> tuple[int, Out]:
    """Run the kernel with as much room as it needs. Return its code and its output."""
    width, each = events.codes.shape[1], graph.own.shape[1]
    count = len(events.loaded) + len(events.kind) + 1
    chains = 1 << (2 * count * each).bit_length()
    room = 2 * count + 1024
    while True:
        rows = RowChains(
            table=zeros(count), image=zeros(count), alive=zeros(count) > 0,
            codes=zeros(count, width), heads=zeros(chains) - 1, following=zeros(count),
            preceding=zeros(count), key_heads=zeros(chains) - 1, key_following=zeros(count, each),
            key_preceding=zeros(count, each), counts=zeros(1),
        )  # fmt: skip
        stack = Stack(
            table=zeros(DEPTH_MAX), key=zeros(DEPTH_MAX), gone=zeros(DEPTH_MAX) > 0,
            old=zeros(DEPTH_MAX, width), new=zeros(DEPTH_MAX, width), at=zeros(DEPTH_MAX),
            end=zeros(DEPTH_MAX), children=zeros(room),
        )  # fmt: skip
        out = Out(
            table=zeros(room), event=zeros(room), flags=zeros(room), image=zeros(room),
            codes=zeros(room, width), fired=zeros(room), fired_at=zeros(room),
            fired_codes=zeros(room, width), counts=zeros(4),
        )  # fmt: skip
        code = int(simulate(graph, events, rows, stack, out))
        if code != FULL:
            return code, out
        room *= 2


def _wanted(plan: CascadePlan, graph: Graph, codes: Codes, out: Out) -> list[tuple[int, pa.Table]]:
    """Return, by key, the values that cascades changed and that were not looked up yet."""
    count, tables = int(out.counts[1]), list(plan.definitions)
    wanted = []
    for number in np.unique(out.fired[:count]).tolist():
        key = plan.keys[number]
        width = len(key.referenced)
        values = out.fired_codes[:count][out.fired[:count] == number][:, :width]
        lookups = codes.lookups.get(number, np.zeros((0, width), np.int64))
        both = graph.classes[np.concatenate((lookups, values))]
        first = np.unique(both, axis=0, return_index=True)[1]
        fresh = values[first[first >= len(lookups)] - len(lookups)]
        if len(fresh):
            parent = tables.index(key.parent)
            columns = [
                codes.domains[parent, c].values_of(fresh[:, i])
                for i, c in enumerate(key.referenced)
            ]
            names = [str(i) for i in range(width)]
            wanted.append((number, pa.Table.from_arrays(columns, names=names)))
    return wanted


@dataclass(frozen=True)
class _Staging:
    """Turns the kernel's changes into the staged changes of a worker."""

    task: CascadeTask
    changes: LoggedChanges
    codes: Codes
    rows: Sequence[pa.Table]
    base: Longs
    out: Out

    def staged(self) -> Staged:
        plan, parts, definitions = self.task.plan, [], {}
        for number, name in enumerate(plan.definitions):
            if name not in plan.children:
                continue
            definition = self.changes.definitions.get(number, plan.definitions[name])
            rows = self._rows(number, name)
            definitions[definition.name] = definition
            if len(rows):
                parts.append(write_part(definition.name, rows, self.task.folder, "cascade"))
        return Staged(self.task.stage[-1].worker, definitions, parts, {})

    def _rows(self, number: int, name: str) -> pa.Table:
        """Return the table's changes, one by one, in the order in which they were made."""
        out, count = self.out, int(self.out.counts[0])
        transaction = self.changes.transaction[out.event[:count]]
        own = np.flatnonzero(
            (out.table[:count] == number) & ~self.changes.applied[name][transaction]
        )
        definition = self.task.plan.definitions[name]
        codes, flags = out.codes[own], out.flags[own].astype(np.uint8)
        image = pa.array(out.image[own] - self.base[number])
        columns = [
            self.codes.domains[number, c].values_of(codes[:, self.codes.place[number, c]])
            if (number, c) in self.codes.domains
            else one_chunk(self.rows[number].column(c)).take(image)
            for c in range(len(definition.columns))
        ]
        keyed = bool(definition.primary_key)
        step = np.ones(len(own), np.int64) if keyed else np.where(flags == EXISTED, -1, 1)
        edges = pa.array(np.arange(len(own) + 1, dtype=np.int32))
        positions = pa.array(self.changes.positions[transaction[own]])
        nothing = pa.nulls(len(own), pa.binary())
        extra: Mapping[str, pa.Array] = {
            "flags": pa.ListArray.from_arrays(edges, pa.array(flags)),
            "positions": pa.ListArray.from_arrays(edges, positions),
            "count": pa.array(step.astype(np.int64)),
            "key": self._keys(number, definition.primary_key, codes),
            "held": nothing,
            "diffs": nothing,
        }
        names = [*map(str, range(len(columns))), *extra]
        return pa.Table.from_arrays([*columns, *extra.values()], names=names)

    def _keys(self, number: int, key: Sequence[int], codes: Longs) -> pa.Array:
        """Return the values that identify the rows, as bytes."""
        columns = key or range(len(self.rows[number].column_names))
        places = [self.codes.place[number, c] for c in columns if (number, c) in self.codes.place]
        data = np.ascontiguousarray(codes[:, [0, *places]])
        offsets = np.arange(len(data) + 1, dtype=np.int64) * 8 * data.shape[1]
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.large_binary(), len(data), buffers)


@dataclass(frozen=True)
class CascadeTask:
    """Cascades of one group, or of several groups in order. ``stage``: the groups' transactions;
    ``referencing``: by table, rows that the target had before them; ``lookups``: by number of the
    plan's keys, the values that were looked up, in the types of the referenced columns; ``folder``:
    for files; None: in memory."""

    plan: CascadePlan
    stage: tuple[StageTask, ...]
    folder: str | None = None
    referencing: tuple[tuple[str, Part], ...] = ()
    lookups: tuple[tuple[int, Part], ...] = ()


@dataclass(frozen=True)
class Cascaded:
    """The result of a CascadeTask. ``wanted``: values that must be looked up. If there are none,
    ``staged`` has the group's changes to the plan's children; ``changes`` of these are not in the
    log."""

    wanted: tuple[tuple[int, Part], ...]
    staged: Staged | None = None
    changes: int = 0
