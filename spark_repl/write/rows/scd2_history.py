"""SCD2 history: the writer of tables with mode history.

Row images become versions, each with the position where it begins and where it ends. An image that
deletes a row ends the version of its key; an image with a row begins the next version. One task
handles all images that a group has of a key, in the order of the log, so it orders all versions of
the key after the first. The first image may end a version that the target holds: the task looks up
that row, marks it deleted, and writes it again with its end.

``TruncatedVersions`` ends all current versions at a TRUNCATE.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ...binlog.kernels.key_numbers import number_values
from ...binlog.rows.change_bits import EXISTS
from ...decode.folding import DUPLICATE_KEY, MISSING_ROW
from ...decode.stage_task import EXTRA
from ...delta.files.deletion_vector import bitmap_of
from ...delta.files.delta_columns import one_chunk, read_rows, with_type
from ...delta.files.partitions import NO_PARTITION, unplaced
from ...errors import SettingError, TargetError
from ..files.change_data import write_changes
from ..files.key_index import write_indexed
from ..files.key_lookup import find_rows, index_of, key_text
from ..files.write_task import Violation, Written
from .keyless_changes import heads, keyless_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from ...tables.target_table import TargetTable
    from ..files.write_task import WriteTask


Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_FILE_ROWS = 2_000_000


@dataclass(frozen=True)
class _Images:
    """The images of a task [n], ordered by key, then by their order in the log. ``rows``: their
    columns; ``begins``: True if a version begins with the image, False if one ends; ``key``: number
    of the image's key."""

    rows: pa.Table
    begins: Bools
    key: npt.NDArray[np.int32]
    positions: Longs

    @cached_property
    def is_first(self) -> Bools:
        """Return which images are the first of their key."""
        return np.append(True, self.key[1:] != self.key[:-1])[: len(self.key)]

    @cached_property
    def is_last(self) -> Bools:
        return np.append(self.is_first[1:], True)[: len(self.key)]

    def end_values(self, images: Longs, task: WriteTask) -> dict[str, pa.Array]:
        """Return the transactions of the ``images`` (-1: of none), by the names of the columns that
        record the end of a version."""
        numbers = task.definition.extra_columns
        chosen = pa.array(images, mask=images < 0)
        return {
            end: one_chunk(self.rows.column(numbers[begin])).take(chosen)
            for end, begin in ENDS.items()
        }


def write_history(task: WriteTask) -> Written:
    """End versions that the target has, and write new ones. Raise TargetError; raise DecodeError
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
    order = rows.column(task.definition.extra_columns["valid_from_order"]).to_numpy()
    code, _ = number_values(one_chunk(staged.column("key")))
    if staged.column("held").null_count < staged.num_rows:
        rows = keyless_rows(staged, flags, positions, task.definition)
    # By key, then by position, then by the order of changes within a transaction.
    chosen = np.lexsort((order, positions, code))
    rows = rows.take(pa.array(chosen)).combine_chunks()
    begins = flags[chosen] & EXISTS != 0
    return _Images(rows, begins, code[chosen], positions[chosen])


def _write(task: WriteTask, images: _Images, out: Written) -> None:
    _refuse_contradictions(task, images, out)
    ending = _ending_versions(task, images, out)
    if out.violations:
        return
    old = [_ended(task, images, number, *which) for number, which in ending.items()]
    new_rows = _new_versions(task, images)
    rows = pa.concat_tables([*old, new_rows]).combine_chunks()
    for entry in np.flatnonzero(unplaced(new_rows, task.columns.divides)):
        _refuse(task, images, out, int(np.flatnonzero(images.begins)[entry]), NO_PARTITION)
    if out.violations:
        return
    for number, (_, places) in ending.items():
        out.marks[task.files[number].path] = bitmap_of(places).serialize()
    out.net = rows.num_rows
    for at in range(0, rows.num_rows, _FILE_ROWS):
        out.adds += write_indexed(index_of(task), task.columns, rows.slice(at, _FILE_ROWS))
    if task.change_data and out.changes_table:
        before = {
            task.files[number].path: (places, np.ones(len(places), bool))
            for number, (_, places) in ending.items()
        }
        stays = np.arange(rows.num_rows) < rows.num_rows - new_rows.num_rows
        out.changes += write_changes(task.folder, task.columns, before, rows, stays)


def _refuse(task: WriteTask, images: _Images, out: Written, image: int, number: int) -> None:
    key = key_text(task, images.rows, image)
    out.violations.append(Violation(number, int(images.positions[image]), task.table, key))


def _refuse_contradictions(task: WriteTask, images: _Images, out: Written) -> None:
    """Report a violation for each image that does not follow the previous image of its key."""
    same = ~images.is_first[1:] & (images.begins[1:] == images.begins[:-1])
    for image in np.flatnonzero(same) + 1:
        number = DUPLICATE_KEY if images.begins[image] else MISSING_ROW
        _refuse(task, images, out, int(image), number)


def _ending_versions(
    task: WriteTask, images: _Images, out: Written
) -> dict[int, tuple[Longs, Longs]]:
    """Return, by number of the task's file, the images that end versions of the file, and the rows
    of these versions."""
    # A later image of a key ends the version that the key's previous image began.
    lookups = np.flatnonzero(images.is_first)
    if task.complete and images.begins[lookups].all():
        lookups = lookups[:0]  # a complete table lacks keys that begin with an INSERT
    ending: dict[int, tuple[Longs, Longs]] = {}
    matches = np.zeros(len(images.begins), np.int64)
    if len(lookups) and task.files:
        for number, at, places in find_rows(task, images.rows.take(pa.array(lookups))):
            if len(at):
                ending[number] = lookups[at], places
                np.add.at(matches, lookups[at], 1)
    if matches.max(initial=0) > 1:
        raise TargetError(
            "a key has more than one current version in the Delta table",
            table=task.table,
            hint="another writer changed the table: correct it, or copy it again",
        )
    for image in lookups[(matches[lookups] == 0) & ~images.begins[lookups]]:
        _refuse(task, images, out, int(image), MISSING_ROW)
    if not task.replaces:
        for image in lookups[(matches[lookups] > 0) & images.begins[lookups]]:
            _refuse(task, images, out, int(image), DUPLICATE_KEY)
    return ending


def _ended(task: WriteTask, images: _Images, number: int, by: Longs, places: Longs) -> pa.Table:
    """Return the rows of versions of a file that the images ``by`` end."""
    read = read_rows(task.folder, task.files[number].path, task.columns.physical, places)
    arrays = [
        with_type(values, kind.type) for values, kind in zip(read, images.rows.schema, strict=True)
    ]
    columns = ended(task.definition, arrays, images.end_values(by, task))
    return pa.Table.from_arrays(columns, schema=images.rows.schema)


def _new_versions(task: WriteTask, images: _Images) -> pa.Table:
    """Return the rows of the versions that begin. A version that ends in the same group has its
    end."""
    numbers, chosen = task.definition.extra_columns, np.flatnonzero(images.begins)
    columns: Sequence[pa.Array] = images.rows.take(pa.array(chosen)).combine_chunks().columns
    arrays = [one_chunk(column) for column in columns]
    last = images.is_last[chosen]  # the next image of its key ends any other version
    by = images.end_values(np.where(last, -1, chosen + 1), task)
    columns = ended(task.definition, arrays, by)
    columns[numbers["current"]] = pa.array(last)
    return pa.Table.from_arrays(columns, schema=images.rows.schema)


ENDS = {
    "valid_to_gtid": "valid_from_gtid",
    "valid_to_time": "valid_from_time",
    "valid_to_position": "valid_from_position",
}
"""columns for the transaction that ended a version -> columns for the transaction that began it"""


def ended(
    definition: TargetTable, arrays: Sequence[pa.Array], by: Mapping[str, pa.Array]
) -> list[pa.Array]:
    """Return the columns [columns of the table] of versions that are no longer current. ``by``:
    what ended each version, by the names in ENDS."""
    numbers, columns = definition.extra_columns, list(arrays)
    for name in ENDS:
        columns[numbers[name]] = by[name].cast(columns[numbers[name]].type)
    columns[numbers["current"]] = pa.repeat(False, len(columns[0]))
    return columns


@dataclass(frozen=True)
class TruncatedVersions:
    """The change that a TRUNCATE makes to a table's rows: it ends the current versions. ``gtid``:
    of the TRUNCATE, "" if it is anonymous; ``at``: when it was committed, in microseconds UTC;
    ``position``: where it begins in the relay log, packed."""

    definition: TargetTable
    gtid: str
    at: int
    position: int

    def columns(self, arrays: Sequence[pa.Array]) -> list[pa.Array]:
        """Return the columns [columns of the table] of some rows after the TRUNCATE."""
        count = len(arrays[0])
        end_values = {
            "valid_to_gtid": pa.repeat(pa.scalar(self.gtid or None, pa.string()), count),
            "valid_to_time": pa.repeat(self.at, count),
            "valid_to_position": pa.repeat(self.position, count),
        }
        current = pc.fill_null(arrays[self.definition.current_column], False)
        after = ended(self.definition, arrays, end_values)
        return [
            new if new is old else pc.if_else(current, new, old)
            for old, new in zip(arrays, after, strict=True)
        ]
