"""Staging: a worker turns its part of a group from log events into changes in Arrow.

This is the first of two phases, as in MySQL's WL#3970; the second writes the tables. A worker reads
its spans, verifies and decodes them, folds the changes of each key, and returns one Arrow IPC
stream per table and shard. The streams of a tiny group are in memory, others in one file or object
below the staging folder. Readers of the target see none of them.

``Stager`` sends it to the workers. Raises DecodeError and LogError with file and position. Design:
docs/design/net-changes.md, docs/design/staging.md.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..binlog.kernels.key_hash import hash_binary
from ..binlog.rows.change_bits import EXISTED, EXISTS, MOVED
from ..binlog.rows.equal_values import has_equal_values
from ..binlog.rows.partial_rows import PartialImages
from ..errors import DecodeError, SparkReplError
from ..position import RelayPosition
from ..rules.renamed_tables import RenamedTables
from ..rules.row_filters import check_row_filter
from ..runtime.target_uri import is_remote
from ..tables.table_definition import SYSTEM_SCHEMAS
from .folding import CHANGE_BITS, EveryTable, SomeTables, certain, chains, take_rows
from .metadata_values import metadata_of_changes
from .spans import read_task
from .stage_task import SHARD_SHIFT, Part, SplitTables, Staged, StagedObject, StageTask, same_shape
from .target_rows import filtered, target_gaps, target_keys, target_rows

if TYPE_CHECKING:
    from ..binlog.rows.row_images import RowImages
    from ..tables.source_table import SourceTable
    from ..tables.target_table import TargetTable
    from .cascade_detection import Seen

Longs = npt.NDArray[np.int64]

_BUFFER_BYTES = 1 << 18
_BATCH_ROWS = 1 << 17


def stage(task: StageTask) -> Staged:
    """Run a task. Raise DecodeError and LogError with file and position."""
    out, forms, split = _Output(task), task.applied(), SplitTables(task)
    read_task(task, forms, out.add, pairs=split)
    return replace(
        out.close(),
        origins=forms.origins if isinstance(forms, RenamedTables) else {},
        decided=out.decided,
        filtered=out.filtered,
        text_errors=out.text_errors,
        passed_over=out.passed_over,
    )


class _Output:
    """The parts that a worker staged: one file per worker, one part after the other."""

    def __init__(self, task: StageTask) -> None:
        self.task = task
        self.definitions: dict[str, SourceTable] = {}
        self.parts: list[Part] = []
        self.changes: dict[str, int] = {}
        self.referred: dict[str, int] = {}
        self.cascading: dict[str, int] = {}
        self.quarantined: dict[str, Longs] = {}
        self.decided: dict[str, int] = {}
        self.filtered: dict[str, int] = {}
        self.passed_over: dict[str, int] = {}
        self.zero_dates = self.text_errors = 0
        self.path = self.file = self.object = None
        if task.folder is not None and is_remote(task.folder):
            self.object = StagedObject(task.folder, f"worker-{task.worker}")
        elif task.folder is not None:
            self.path = os.path.join(task.folder, f"worker-{task.worker}-{os.getpid()}.arrow")
            # Arrow writes a batch buffer by buffer, and most buffers are small.
            self.file = pa.BufferedOutputStream(pa.OSFile(self.path, "wb"), _BUFFER_BYTES)

    def add(self, images: RowImages, ordinals: Longs, positions: Longs) -> None:
        name = images.definition.name
        for kind in self.task.deciding(name):
            self.decided[kind] = self.decided.get(kind, 0) + len(images.transactions)
        if name in self.task.left_out or images.definition.database in SYSTEM_SCHEMAS:
            # Cascades from a table that is not applied can't be emulated, as its rows are unknown.
            refusing = replace(self.task.cascades, emulated=False)
            self._note(name, refusing.check(images, positions))
            if name in self.task.quarantined:
                self._note_quarantined(images, ordinals, positions)
            return
        earlier = self.definitions.setdefault(name, images.definition)
        if earlier is not images.definition and not same_shape(earlier, images.definition):
            raise DecodeError(
                "the table's definition changes without a DDL statement between",
                table=name,
                position=RelayPosition.unpack(int(positions[images.transaction[0]])),
            )
        entries = np.arange(len(images.flags))
        skipped = self.task.skip.get(name)
        applied = None
        if skipped is not None:
            applied = skipped[ordinals]
            entries = np.flatnonzero(~applied[images.transaction])
        self._note(name, self.task.cascades.check(images, positions, applied))
        # Images count MySQL's row changes as a whole. Transactions that the table already has are
        # left out by their share of the entries.
        share = len(entries) / max(1, len(images.flags))
        changes = round(images.changes * share)
        if len(entries) and self.task.only_inserts(name):
            entries = entries[images.flags[entries] & (EXISTED | EXISTS | MOVED) == EXISTS]
            passed = changes - len(entries)
            self.passed_over[name] = self.passed_over.get(name, 0) + passed
            changes = len(entries)
        if len(entries) and self.task.filters_rows(name):
            images = self._filtered(images, entries, positions)
            entries, changes = np.arange(len(images.flags)), images.changes
        self.changes[name] = self.changes.get(name, 0) + changes
        if not len(entries):
            return
        entry_positions = positions[images.transaction[entries]]
        if isinstance(images, PartialImages) or self._singly(name, images, entries):
            self._keep(images, entries, entry_positions)
        else:
            self._fold(images, entries, entry_positions)
        self.zero_dates += images.zero_dates
        self.text_errors += images.text_errors

    def _filtered(self, images: RowImages, entries: Longs, positions: Longs) -> RowImages:
        """Return what ``entries`` are to a table with a row filter."""
        name = images.definition.name
        target = self.task.target(images.definition)
        assert target is not None
        try:
            check_row_filter(target, self.task.columns)
        except SparkReplError as error:
            first = positions[images.transaction[entries[0]]]
            raise error.at(position=RelayPosition.unpack(int(first))) from error
        images, left = filtered(images, entries, positions, target)
        self.filtered[name] = self.filtered.get(name, 0) + left
        return images

    def _note_quarantined(self, images: RowImages, ordinals: Longs, positions: Longs) -> None:
        """Record which transactions change a table in quarantine and are not in it already."""
        name, transactions = images.definition.name, images.transactions
        skipped = self.task.skip.get(name)
        if skipped is not None:
            transactions = transactions[~skipped[ordinals[transactions]]]
        if len(transactions):  # an oversized transaction comes in several windows
            self.quarantined[name] = np.union1d(
                self.quarantined.get(name, transactions[:0]), positions[transactions]
            )

    def _note(self, name: str, seen: Seen) -> None:
        for at_first, noted in ((seen.referred, self.referred), (seen.cascades, self.cascading)):
            if at_first is not None:
                noted[name] = min(at_first, noted.get(name, at_first))

    def _singly(self, name: str, images: RowImages, entries: Longs) -> bool:
        """Return whether every change has to be staged, not only the last one of each key."""
        if self._asks(name, images, entries) or self.task.has_mode(name):
            return True
        if name not in self.task.idempotent:
            return False
        target = self.task.target(images.definition)
        return target is not None and target.keeps_deleted

    def _asks(self, name: str, images: RowImages, entries: Longs) -> bool:
        """Return whether the target's rows decide if rows move between keys."""
        if not _by_choice(name, self.task.idempotent) or not images.definition.primary_key:
            return False
        if self.task.keeps_images(name):
            return False
        return bool((images.flags[entries] & MOVED).any())

    def _keys(self, images: RowImages, entries: Longs) -> pa.Array:
        key, target = take_rows(images.key(), entries), self.task.target(images.definition)
        return target_keys(key, target, self.task.columns.key)

    def _fold(self, images: RowImages, entries: Longs, positions: Longs) -> None:
        name = images.definition.name
        key = self._keys(images, entries)
        flags = images.flags[entries] & np.uint8(CHANGE_BITS)
        if name in self.task.idempotent or name in self.task.leftover:
            # The target may have another row of the key than the log implies: replace any.
            flags = certain(flags)
        by_key = chains(key)
        if images.definition.primary_key:
            count = np.ones(len(by_key.edges) - 1, np.int64)
        else:  # equal rows are only counted: how many more, or fewer, the table has afterwards
            step = np.where(flags & EXISTS, 1, -1).astype(np.int64)
            count = np.add.reduceat(step[by_key.order], by_key.edges[:-1])
        last_key = take_rows(key, by_key.last).cast(pa.large_binary())
        # Without removed rows, equal rows of different bytes may as well be separate entries.
        twins = bool((count < 0).any()) and has_equal_values(images.definition, self.task.forms)
        for number, chosen in self._shards(last_key, whole=twins):
            last = by_key.last[chosen]
            rows = self._decode(images, entries[last], positions[last])
            order, edges = by_key.of(chosen)
            extra = {
                "flags": _lists(flags[order], edges),
                "positions": _lists(positions[order], edges),
                "count": pa.array(count[chosen]),
                "key": take_rows(last_key, chosen),
                "held": pa.nulls(len(chosen), pa.binary()),
                "diffs": pa.nulls(len(chosen), pa.binary()),
            }
            self._write(Part(name, number, len(rows), whole=twins, twins=twins), rows, extra)

    def _keep(self, images: RowImages, entries: Longs, positions: Longs) -> None:
        """Stage every change by itself: the columns of a row may come from several changes, also
        of other workers."""
        name = images.definition.name
        key, flags = self._keys(images, entries), images.flags[entries]
        lenient, asks = name in self.task.idempotent, self._asks(name, images, entries)
        copied = lenient and not _by_choice(name, self.task.idempotent)
        if copied and isinstance(images, PartialImages):
            _check_copied(
                images, entries[flags & MOVED != 0], positions=positions[flags & MOVED != 0]
            )
        keyed = bool(images.definition.primary_key)
        alone = self.task.keeps_images(name)  # each image is a row of its own
        # One task must see all changes of a row that moves between keys, and of equal rows.
        whole = not alone and (not keyed or bool((flags & MOVED).any()))
        bits = flags & np.uint8(CHANGE_BITS)
        if lenient or name in self.task.leftover:
            bits = certain(bits)
        bits |= flags & np.uint8(MOVED)
        step = np.where(flags & EXISTS, 1, -1).astype(np.int64)
        edges = pa.array(np.arange(len(entries) + 1, dtype=np.int32))
        extra = {
            "flags": pa.ListArray.from_arrays(edges, pa.array(bits)),
            "positions": pa.ListArray.from_arrays(edges, pa.array(positions)),
            "count": pa.array(np.ones_like(step) if keyed or alone else step),
            "key": key.cast(pa.large_binary()),
        }
        for number, chosen in self._shards(extra["key"], whole=whole):
            rows = self._decode(images, entries[chosen], positions[chosen])
            picked = {column: take_rows(values, chosen) for column, values in extra.items()}
            picked["held"], picked["diffs"] = self._presence(images, entries[chosen])
            self._write(Part(name, number, len(rows), whole=whole, asks=asks), rows, picked)

    def _decode(self, images: RowImages, entries: Longs, positions: Longs) -> pa.RecordBatch:
        try:
            rows = images.decode(entries, self.task.forms)
            target = self.task.target(images.definition)
            if target is None:
                return rows
            extra = metadata_of_changes(target, images, entries, positions, self.task.commits)
            return target_rows(rows, images.definition, target, self.task.columns.key, extra)
        except DecodeError as error:
            _hide(error, self.task.target(images.definition))
            if error.row is not None:
                error.at(position=RelayPosition.unpack(int(positions[error.row])))
            raise

    def _presence(self, images: RowImages, entries: Longs) -> tuple[pa.Array, pa.Array]:
        present, diffs = images.presence(entries)
        target = self.task.target(images.definition)
        return (present, diffs) if target is None else target_gaps(present, diffs, target)

    def _shards(self, key: pa.Array, *, whole: bool = False) -> Iterator[tuple[int, Longs]]:
        """Yield (shard, indexes of its keys) in batches."""
        if self.task.shards == 1 or whole:
            for chosen in _batches(np.arange(len(key))):
                yield 0, chosen
            return
        shard = (hash_binary(key) >> SHARD_SHIFT) % self.task.shards
        for number in np.unique(shard):
            for chosen in _batches(np.flatnonzero(shard == number)):
                yield int(number), chosen

    def _write(self, part: Part, rows: pa.RecordBatch, extra: dict[str, Any]) -> None:
        """Write the batch to the file, or into ``part``, and add the part with its place."""
        names = [str(i) for i in range(rows.num_columns)] + list(extra)
        batch = pa.RecordBatch.from_arrays([*rows.columns, *extra.values()], names=names)
        sink = self.file or pa.BufferOutputStream()
        begin = sink.tell()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        size = sink.tell() - begin
        if self.object is not None:
            part = self.object.write(part, sink.getvalue())
        elif self.file is None:
            part = replace(part, blob=sink.getvalue().to_pybytes())
        else:
            part = replace(part, path=self.path, offset=begin, length=size)
        self.parts.append(part)

    def close(self) -> Staged:
        for out in filter(None, (self.file, self.object)):
            out.close()
        return Staged(
            self.task.worker,
            self.definitions,
            self.parts,
            self.changes,
            self.zero_dates,
            self.referred,
            self.cascading,
            self.quarantined,
        )


def _hide(error: DecodeError, target: TargetTable | None) -> None:
    """Remove values of masked columns from the error's text."""
    for name in target.hidden_columns if target else ():
        if error.message.startswith(f"column {name}: "):
            error.message = f"column {name}: a value that can't be decoded, and is masked"


def _lists(values: npt.NDArray[Any], edges: Longs) -> pa.ListArray:
    """Return the lists ``values[edges[i]:edges[i+1]]``."""
    return pa.ListArray.from_arrays(pa.array(edges.astype(np.int32)), pa.array(values))


def _batches(entries: Longs) -> Iterator[Longs]:
    for at in range(0, len(entries), _BATCH_ROWS):
        yield entries[at : at + _BATCH_ROWS]


def _by_choice(name: str, idempotent: Container[str]) -> bool:
    """Return whether the table is idempotent by exec_mode or because it has no history.

    False for a table that is idempotent only because it catches up with its copy.
    """
    if isinstance(idempotent, SomeTables):
        return name in idempotent.without_history
    return isinstance(idempotent, EveryTable) and name not in idempotent.copied


def _check_copied(images: RowImages, moved: Longs, *, positions: Longs) -> None:
    """Raise DecodeError if an image without all columns moves a row to a new key, in a table that
    catches up with its copy. The copy may have missed the row under both keys."""
    if not len(moved):
        return
    count = len(images.definition.columns)
    present, _ = images.presence(moved)  # a bitmap each
    bits = np.frombuffer(present.buffers()[2], np.uint8).reshape(len(moved), -1)
    whole = np.unpackbits(bits, axis=1, bitorder="little")[:, :count].all(axis=1)
    lacking = np.flatnonzero(~whole)
    if len(lacking):
        raise DecodeError(
            "a row's key changes, by an image without all columns, while its table is copied",
            table=images.definition.name,
            position=RelayPosition.unpack(int(positions[lacking[0]])),
            hint="set binlog_row_image=FULL in every session, and copy the table again",
        )
