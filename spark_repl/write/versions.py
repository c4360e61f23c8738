"""The direct writer's task for a table of mode history: row images -> versions, each with where it
begins and where it ends.

An image without a row behind it ends the version of its key, one with a row begins the next. All
images of a key that a group has are in one task, in the log's order, so all versions but the key's
first are put one behind the other here. The first image may end a version that the target has: that
row is looked up, marked, and comes again as it was, with its end.
"""

from __future__ import annotations

import array
import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from ..binlog.rows.change_bits import EXISTS
from ..decode.folding import DUPLICATE_KEY, MISSING_ROW, codes
from ..decode.staged import EXTRA
from ..delta.columns import one_chunk, read_rows, with_type
from ..delta.partitions import NO_PARTITION, unplaced
from ..errors import SettingError, TargetError
from ..rules.metadata_columns import numbers_of
from .change_data import write_changes
from .ended_versions import ENDS, ended
from .key_index import write_indexed
from .key_lookup import described, hits, index_of
from .keyless import heads, whole_bag
from .written import Violation, Written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .written import WriteTask

Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_FILE_ROWS = 2_000_000


@dataclass(frozen=True)
class _Images:
    """The images of a task [n], by key and in one key in the log's order. ``rows``: their columns;
    ``begins``: whether a version begins with the image, and not one ends; ``key``: number of the
    image's key."""

    rows: pa.Table
    begins: Bools
    key: npt.NDArray[np.int32]
    positions: Longs

    @cached_property
    def is_first(self) -> Bools:
        """Whether an image is the first of its key."""
        return np.append(True, self.key[1:] != self.key[:-1])[: len(self.key)]

    @cached_property
    def is_last(self) -> Bools:
        return np.append(self.is_first[1:], True)[: len(self.key)]

    def said(self, images: Longs, task: WriteTask) -> dict[str, pa.Array]:
        """The transactions of the ``images``, by the names of the columns that say it where a
        version ends; -1: of none."""
        numbers = numbers_of(task.definition)
        chosen = pa.array(images, mask=images < 0)
        return {
            end: one_chunk(self.rows.column(numbers[begin])).take(chosen)
            for end, begin in ENDS.items()
        }


def write_versions(task: WriteTask) -> Written:
    """Ends versions that the target has, writes those that come. Raises TargetError, DecodeError
    for an image that lacks columns."""
    began, out = time.perf_counter(), Written(task.table)
    if task.idempotent:
        raise SettingError(
            'mode = "history" needs images that fit the rows, and they are not asked to',
            table=task.table,
            hint='set apply.exec_mode = "strict", and copy the table again: spark-repl snapshot'
            " --config F --table DB.T",
        )
    _write(task, _images(task), out)
    out.seconds = time.perf_counter() - began
    return out


def _images(task: WriteTask) -> _Images:
    staged = pa.concat_tables([part.read() for part in task.parts]).combine_chunks()
    flags, positions = heads(staged.column("flags")), heads(staged.column("positions"))
    rows = staged.drop_columns(list(EXTRA))
    order = rows.column(numbers_of(task.definition)["valid_from_order"]).to_numpy()
    code, _ = codes(one_chunk(staged.column("key")))
    if staged.column("held").null_count < staged.num_rows:
        rows = whole_bag(staged, flags, positions, task.definition)
    chosen = np.lexsort((order, positions, code))
    rows = rows.take(pa.array(chosen)).combine_chunks()
    begins = flags[chosen] & EXISTS != 0
    return _Images(rows, begins, code[chosen], positions[chosen])


def _write(task: WriteTask, images: _Images, out: Written) -> None:
    _refuse_contradictions(task, images, out)
    there = _there(task, images, out)
    if out.violations:
        return
    old = [_ended(task, images, number, *which) for number, which in there.items()]
    came = _came(task, images)
    rows = pa.concat_tables([*old, came]).combine_chunks()
    for entry in np.flatnonzero(unplaced(came, task.columns.divides)):
        _refuse(task, images, out, int(np.flatnonzero(images.begins)[entry]), NO_PARTITION)
    if out.violations:
        return
    for number, (_, places) in there.items():
        out.marks[task.files[number].path] = BitMap(array.array("I", places.tolist())).serialize()
    out.net = rows.num_rows
    for at in range(0, rows.num_rows, _FILE_ROWS):
        out.adds += write_indexed(index_of(task), task.columns, rows.slice(at, _FILE_ROWS))
    if task.change_data and out.changes_table:
        before = {
            task.files[number].path: (places, np.ones(len(places), bool))
            for number, (_, places) in there.items()
        }
        stays = np.arange(rows.num_rows) < rows.num_rows - came.num_rows
        out.changes += write_changes(task.folder, task.columns, before, rows, stays)


def _refuse(task: WriteTask, images: _Images, out: Written, image: int, number: int) -> None:
    key = described(task, images.rows, image)
    out.violations.append(Violation(number, int(images.positions[image]), task.table, key))


def _refuse_contradictions(task: WriteTask, images: _Images, out: Written) -> None:
    """Images of one key that do not follow each other become violations."""
    same = ~images.is_first[1:] & (images.begins[1:] == images.begins[:-1])
    for image in np.flatnonzero(same) + 1:
        number = DUPLICATE_KEY if images.begins[image] else MISSING_ROW
        _refuse(task, images, out, int(image), number)


def _there(task: WriteTask, images: _Images, out: Written) -> dict[int, tuple[Longs, Longs]]:
    """By numbers of the task's files: images that end versions of it, and these versions' rows."""
    asked = np.flatnonzero(images.is_first)
    if task.complete and images.begins[asked].all():
        asked = asked[:0]  # no key of nothing but INSERTs is there
    there: dict[int, tuple[Longs, Longs]] = {}
    have = np.zeros(len(images.begins), np.int64)
    if len(asked) and task.files:
        for number, at, places in hits(task, images.rows.take(pa.array(asked))):
            if len(at):
                there[number] = asked[at], places
                np.add.at(have, asked[at], 1)
    if have.max(initial=0) > 1:
        raise TargetError(
            "a key has more than one current version in the Delta table",
            table=task.table,
            hint="somebody else wrote to the table: mend it, or copy it again",
        )
    for image in asked[(have[asked] == 0) & ~images.begins[asked]]:
        _refuse(task, images, out, int(image), MISSING_ROW)
    if not task.replaces:
        for image in asked[(have[asked] > 0) & images.begins[asked]]:
            _refuse(task, images, out, int(image), DUPLICATE_KEY)
    return there


def _ended(task: WriteTask, images: _Images, number: int, by: Longs, places: Longs) -> pa.Table:
    """The rows of versions of a file that end ``by`` some images."""
    read = read_rows(task.folder, task.files[number].path, task.columns.physical, places)
    arrays = [
        with_type(values, kind.type) for values, kind in zip(read, images.rows.schema, strict=True)
    ]
    made = ended(task.definition, arrays, images.said(by, task))
    return pa.Table.from_arrays(made, schema=images.rows.schema)


def _came(task: WriteTask, images: _Images) -> pa.Table:
    """The rows of the versions that begin, each with its end, if the group has it, too."""
    numbers, chosen = numbers_of(task.definition), np.flatnonzero(images.begins)
    columns: Sequence[pa.Array] = images.rows.take(pa.array(chosen)).combine_chunks().columns
    arrays = [one_chunk(column) for column in columns]
    last = images.is_last[chosen]
    by = images.said(np.where(last, -1, chosen + 1), task)
    made = ended(task.definition, arrays, by)
    made[numbers["current"]] = pa.array(last)
    return pa.Table.from_arrays(made, schema=images.rows.schema)
