"""Logged rows in the shape of the target's table.

The target may keep columns that the source dropped (``alter.retained_columns``; they are NULL) or
widened types, have metadata columns (``rules.metadata_columns``), and lack or mask columns of the
source (``rules.column_rules``)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ..binlog.json.diff import pending_diffs
from ..convert.conversion import convert
from ..convert.lossless import UTC
from ..convert.type_change import TypeChange
from ..errors import SchemaError
from ..rules.column_rules import hidden_columns
from ..rules.masking import hashed, is_constant, masked, masks_key
from ..rules.metadata_columns import extra_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..tables.column import Column
    from ..tables.table_definition import TableDefinition


def target_rows(
    rows: pa.RecordBatch,
    logged: TableDefinition,
    target: TableDefinition,
    key: bytes = b"",
    extra: Mapping[str, pa.Array] | None = None,
) -> pa.RecordBatch:
    """Return ``rows`` of the definition ``logged`` with the target's columns.

    ``key``: of masks. ``extra``: values of metadata columns. Rows of another definition than the
    target knows are returned unchanged; the writer refuses them. Raise SchemaError if such rows
    may hold values that the target must not show.
    """
    ours, theirs = target.in_log.arrow_schema(), logged.arrow_schema()
    if ours.names != theirs.names or ours.types != theirs.types:
        if hidden_columns(target) or extra_of(target):
            what = "masked" if hidden_columns(target) else "added"
            raise SchemaError(
                f"the logged rows have other columns than the table, some of which are {what}",
                table=logged.name,
                hint="a statement that this log does not hold changed the table: copy it anew",
            )
        return rows
    given = extra or {}
    arrays = [
        given[column.extra] if column.extra in given else pa.nulls(len(rows), column.arrow_type)
        for column in target.columns
    ]
    for values, number in zip(rows.columns, target.own, strict=True):
        if number >= 0:
            column = target.columns[number]
            arrays[number] = (
                masked(values, column, key) if column.mask else _widened(values, column)
            )
    return pa.RecordBatch.from_arrays(arrays, names=[str(i) for i in range(len(arrays))])


def target_keys(keys: pa.Array, target: TableDefinition | None, key: bytes) -> pa.Array:
    """Return ``keys`` [n] of rows, as the log has them, in a form that shows no masked value.

    If the target masks its key, the keys are hashed, which still distinguishes them. ``key``: of
    masks.
    """
    if target is None or not masks_key(target):
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
    present: pa.Array, diffs: pa.Array, target: TableDefinition
) -> tuple[pa.Array, pa.Array]:
    """Return ``present`` and ``diffs`` of some images (``PartialImages.presence``) by numbers of
    the target's columns.

    An image holds columns that only the target has (as NULL), and columns masked with a constant.
    Diffs of masked documents are dropped: the target does not have these documents.
    """
    own = [-1 if number >= 0 and is_constant(target.columns[number]) else number
           for number in target.own]  # fmt: skip
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
