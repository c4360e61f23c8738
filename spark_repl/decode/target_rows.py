"""Logged rows in the shape of the target's table.

The target may keep columns that the source dropped (``alter.retained_columns``; they are NULL) or
widened types, have metadata columns (``rules.metadata_columns``), and lack or mask columns of the
source (``rules.column_rules``).

``filtered`` applies a row filter: it determines what a change is to the rows for which the
filter is true. Each image is tested by itself, so the target's history is the source's without the
rows that don't pass. An UPDATE of a row that stops passing is a DELETE; of a row that starts
passing, an INSERT; of a row that passes neither before nor after it, nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..binlog.charsets.charset import TEXT_ERRORS_HINT
from ..binlog.json.diff import pending_diffs
from ..binlog.rows.change_bits import EXISTED, EXISTS, MOVED
from ..binlog.rows.partial_rows import PartialImages
from ..convert.conversion import convert
from ..convert.lossless import UTC
from ..convert.type_change import TypeChange
from ..errors import DecodeError, SchemaError, Unconvertible
from ..position import RelayPosition
from ..rules.masking import hashed, is_constant, masked
from ..rules.row_filters import UNKNOWN_HINT, filter_of, unknown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..binlog.rows.row_images import RowImages
    from ..rules.row_filters import RowFilter
    from ..tables.column import Column
    from ..tables.source_table import SourceTable
    from ..tables.target_table import TargetTable


def target_rows(
    rows: pa.RecordBatch,
    logged: SourceTable,
    target: TargetTable,
    key: bytes = b"",
    extra: Mapping[str, pa.Array] | None = None,
) -> pa.RecordBatch:
    """Return ``rows`` of the definition ``logged`` with the target's columns.

    ``key``: the secret key of masks. ``extra``: values of metadata columns. If rows have a
    definition that the target does not know, they are returned unchanged, and the writer refuses
    them. Raise SchemaError if such rows may contain values that the target must not show.
    """
    ours, theirs = target.source.arrow_schema(), logged.arrow_schema()
    if ours.names != theirs.names or ours.types != theirs.types:
        if target.hidden_columns or target.extra_columns:
            what = "masked" if target.hidden_columns else "added"
            raise SchemaError(
                f"the logged rows have other columns than the table, some of which are {what}",
                table=logged.name,
                hint="a statement that this log does not hold changed the table: copy it again",
            )
        return rows
    given = extra or {}
    arrays = [
        given[column.extra] if column.extra in given else pa.nulls(len(rows), column.arrow_type)
        for column in target.columns
    ]
    for values, number in zip(rows.columns, target.numbers, strict=True):
        if number >= 0:
            column = target.columns[number]
            arrays[number] = (
                masked(values, column, key) if column.mask else _widened(values, column)
            )
    return pa.RecordBatch.from_arrays(arrays, names=[str(i) for i in range(len(arrays))])


def target_keys(keys: pa.Array, target: TargetTable | None, key: bytes) -> pa.Array:
    """Return ``keys`` [n] of rows, as in the log, in a form that shows no masked value.

    If the target masks its key, the keys are hashed; different keys stay different. ``key``: the
    secret key of masks.
    """
    if target is None or not target.masks_key:
        return keys
    return hashed(keys, key).cast(pa.binary())


def _widened(values: pa.Array, column: Column) -> pa.Array:
    logged = column.logged
    if logged is None or (logged.type == column.type and logged.arrow_type == column.arrow_type):
        return values
    wide = replace(column, nullable=True, auto_increment=False)
    own = replace(logged, nullable=True, auto_increment=False)
    return convert(values, TypeChange(own, wide, UTC, plain=own.detail == wide.detail == ""))


def target_gaps(
    present: pa.Array, diffs: pa.Array, target: TargetTable
) -> tuple[pa.Array, pa.Array]:
    """Return ``present`` and ``diffs`` of some images (``PartialImages.presence``), with the
    numbers of the target's columns.

    Columns that only the target has (with NULL), and columns masked with a constant, count as
    present. Diffs of masked documents are dropped, because the target does not have these
    documents.
    """
    own = [-1 if number >= 0 and is_constant(target.columns[number]) else number
           for number in target.numbers]  # fmt: skip
    return (
        pa.array(
            [_bits(bitmap, own, len(target.columns)) for bitmap in present.to_pylist()], pa.binary()
        ),
        pa.array([_diffs(packed, own) for packed in diffs.to_pylist()], pa.binary()),
    )


def _bits(bitmap: bytes | None, own: Sequence[int], columns: int) -> bytes | None:
    if bitmap is None:
        return None
    out = np.ones(columns + 1, np.uint8)  # the last for what the target lacks, or holds always
    raw = np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little")
    out[list(own)] = raw[: len(own)]
    out = out[:columns]
    return np.packbits(out, bitorder="little").tobytes()


def _diffs(packed: bytes | None, own: Sequence[int]) -> bytes | None:
    if packed is None:
        return None
    renumbered = (
        own[column].to_bytes(2, "little") + len(data).to_bytes(4, "little") + data
        for column, data in pending_diffs(packed)
        if own[column] >= 0
    )
    return b"".join(renumbered) or None


Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_IMAGE_HINT = "set binlog_row_image=FULL in every session of the source, and copy the table again"


@dataclass(frozen=True)
class _Selection:
    """``entries`` of ``images``, whose transactions are at ``positions``."""

    images: RowImages
    entries: Longs
    positions: Longs
    rule: RowFilter
    hidden: bool

    def passes(self) -> Bools:
        """Return whether the filter is true of each entry. Raise DecodeError with the entry's
        position."""
        images, rule = self.images, self.rule
        for number in rule.numbers:
            lacking = np.flatnonzero(~_holds(images, self.entries, number))
            if len(lacking):
                name = rule.columns[number].name
                raise self.error_at(
                    f"an image lacks column {name}, at which row_filter {rule.text} looks",
                    int(lacking[0]), _IMAGE_HINT,
                )  # fmt: skip
        try:
            arrays = images.values(self.entries, only=rule.numbers)
        except DecodeError as error:
            if error.hint == TEXT_ERRORS_HINT:
                error.hint = UNKNOWN_HINT
            if self.hidden:
                error.message = "a value at which row_filter looks can't be decoded, and is masked"
            raise self._placed(error, error.row) from None
        try:
            return rule.passes(arrays)
        except Unconvertible as error:
            raise self.error_at(
                unknown(rule, error, hidden=self.hidden), rule.first_unknown(arrays), UNKNOWN_HINT
            ) from None

    def error_at(self, reason: str, row: int, hint: str) -> DecodeError:
        error = DecodeError(reason, table=self.images.definition.name, hint=hint)
        self._placed(error, row)
        return error

    def _placed(self, error: DecodeError, row: int | None) -> DecodeError:
        if row is not None:
            owner = self.images.transaction[self.entries[row]]
            error.at(position=RelayPosition.unpack(int(self.positions[owner])))
        return error


def filtered(
    images: RowImages, entries: Longs, positions: Longs, target: TargetTable
) -> tuple[RowImages, int]:
    """Return (the values of ``entries`` of ``images`` in the ``target``, how many changes are left
    out).

    ``images`` were walked as pairs: every UPDATE is two entries, the second MOVED. ``positions``:
    of the walk's transactions. Raise DecodeError with a position.
    """
    hidden = target.hidden_columns
    rule = filter_of(target, images.definition)
    selection = _Selection(images, entries, positions, rule, bool({*rule.names} & {*hidden}))
    passes = selection.passes()
    flags = images.flags[entries].copy()
    second = np.flatnonzero(flags & MOVED)
    first = second - 1
    begins, stays = passes[second] & ~passes[first], passes[second] & passes[first]
    _check_whole(selection, second[begins])
    flags[second[begins]] = EXISTS
    keep = passes.copy()
    if images.definition.primary_key and not target.keeps_images:
        key = images.key().take(entries)
        same = np.asarray(pc.equal(key.take(second), key.take(first)))
        keep[first[stays & same]] = False
        flags[second[stays & same]] = EXISTED | EXISTS
    alone = np.ones(len(entries), bool)
    alone[first] = alone[second] = False
    left = int((alone & ~passes).sum() + (~passes[first] & ~passes[second]).sum())
    changes = len(entries) - len(second) - left
    return images.chosen(entries[keep], flags[keep], changes), left


def _check_whole(selection: _Selection, rows: Longs) -> None:
    """Raise DecodeError if an image without all columns makes a row pass that the target does
    not have."""
    images = selection.images
    if not len(rows):
        return
    for number in range(len(images.definition.columns)):
        lacking = np.flatnonzero(~_holds(images, selection.entries[rows], number))
        if len(lacking):
            name = images.definition.columns[number].name
            raise selection.error_at(
                f"a row begins to pass row_filter {selection.rule.text}, and its image lacks column"
                f" {name}",
                int(rows[lacking[0]]), _IMAGE_HINT,
            )  # fmt: skip


def _holds(images: RowImages, entries: Longs, number: int) -> Bools:
    """Return which entries [n] hold a column."""
    if not isinstance(images, PartialImages):
        return np.ones(len(entries), bool)
    present, _ = images.presence(entries)  # a bitmap each
    bits = np.frombuffer(present.buffers()[2], np.uint8).reshape(len(entries), -1)
    return np.asarray(bits[:, number >> 3] >> (number & 7) & 1, bool)
