"""SCD2 history: the writer of tables with mode history.

Row images become versions, each with the position where it begins and where it ends. An image that
deletes a row ends the version of its key; an image with a row begins the next version. One task
handles all images that a group has of a key, in the order of the log, so it orders all versions of
the key after the first. The first image may end a version that the target holds: the task looks up
that row, marks it deleted, and writes it again with its end.

``TruncatedVersions`` ends all current versions at a TRUNCATE. ``ended`` and ``check_fit`` are for
ALTER TABLE, which must not change the values of versions that the source no longer has.
"""

from __future__ import annotations

import array
import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from ...binlog.rows.change_bits import EXISTS
from ...convert.conversion import convert
from ...decode.folding import DUPLICATE_KEY, MISSING_ROW, codes
from ...decode.staged import EXTRA
from ...delta.columns import one_chunk, read_rows, with_type
from ...delta.partitions import NO_PARTITION, unplaced
from ...errors import SettingError, StatementError, TargetError
from ...rules.metadata_columns import numbers_of
from ..files.change_data import write_changes
from ..files.key_index import write_indexed
from ..files.key_lookup import described, hits, index_of
from ..files.write_task import Violation, Written
from .bag_changes import heads, whole_bag

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from ...convert.type_change import TypeChange
    from ...tables.table_definition import TableDefinition
    from ..files.write_task import WriteTask

_STRICT_ALL_TABLES = 1 << 22


def outlived(definition: TableDefinition, arrays: Sequence[pa.Array]) -> pa.Array | None:
    """Which of some rows, ``arrays`` [columns of the table], these are; None: none is."""
    current = numbers_of(definition).get("current")
    if current is None:
        return None
    return pc.invert(pc.fill_null(arrays[current], False))


def check_fit(values: pa.Array, gone: pa.Array | None, change: TypeChange) -> None:
    """Raises StatementError where a value of the rows that are ``gone`` does not fit, also by a
    session's sql_mode with which a server stores another in its place."""
    if gone is None or change.session.is_strict:
        return
    mode = change.session.sql_mode | _STRICT_ALL_TABLES
    strict = replace(change, session=replace(change.session, sql_mode=mode))
    try:
        convert(values.filter(gone), strict)
    except StatementError as error:
        error.message += ", in a version that the source has no more"
        raise


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


ENDS = {
    "valid_to_gtid": "valid_from_gtid",
    "valid_to_time": "valid_from_time",
    "valid_to_position": "valid_from_position",
}
"""the columns that say which transaction ended a version, and those that say it of its own"""


def ended(
    definition: TableDefinition, arrays: Sequence[pa.Array], by: Mapping[str, pa.Array]
) -> list[pa.Array]:
    """The columns [columns of the table] of versions that are current no more. ``by``: what ended
    each of them, as ENDS names it."""
    numbers, columns = numbers_of(definition), list(arrays)
    for name in ENDS:
        columns[numbers[name]] = by[name].cast(columns[numbers[name]].type)
    columns[numbers["current"]] = pa.repeat(False, len(columns[0]))
    return columns


@dataclass(frozen=True)
class TruncatedVersions:
    """What a TRUNCATE makes of a table's rows: those that are current end by it. ``gtid``: its own,
    "" of an anonymous one; ``at``: when it was committed, microseconds UTC; ``position``: where it
    begins in the relay log, packed."""

    definition: TableDefinition
    gtid: str
    at: int
    position: int

    def columns(self, arrays: Sequence[pa.Array]) -> list[pa.Array]:
        """The columns [columns of the table] of some rows behind it."""
        count = len(arrays[0])
        said = {
            "valid_to_gtid": pa.repeat(pa.scalar(self.gtid or None, pa.string()), count),
            "valid_to_time": pa.repeat(self.at, count),
            "valid_to_position": pa.repeat(self.position, count),
        }
        current = pc.fill_null(arrays[numbers_of(self.definition)["current"]], False)
        after = ended(self.definition, arrays, said)
        return [
            new if new is old else pc.if_else(current, new, old)
            for old, new in zip(arrays, after, strict=True)
        ]
