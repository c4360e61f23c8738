"""Kernel that finds UPDATEs which change certain columns, in full and in partial row images."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...tables.column import ColumnType
from ..kernels.jit import (
    BEGIN,
    DONE,
    END,
    KIND,
    PARTIAL_UPDATE,
    UPDATE,
    Bytes,
    Int,
    Ints,
    Lengths,
    jit,
    same,
)
from .images import Marks
from .partial_images import PartialFormat, bitmaps, diffs_begin, skip_partial

if TYPE_CHECKING:
    from ...tables.source_table import SourceTable


def updates_of(
    definition: SourceTable, buffer: Bytes, events: Ints, wire: Lengths, columns: list[int]
) -> int | None:
    """Return the index of the first of ``events`` that changes one of ``columns``, or None. The
    events must have the same definition and must have been walked."""
    keys = np.array(sorted(set(columns)), np.int64)
    documents = sum(column.type == ColumnType.JSON for column in definition.columns)
    marks = Marks(np.empty(2 * len(keys), np.int64), np.empty(2 * len(keys), np.int64))
    form = PartialFormat(wire, keys, documents, pairs=False)
    first = int(first_update(buffer, events, form, marks))
    return None if first == len(events) else first


@jit
def first_update(buffer: Bytes, events: Ints, form: PartialFormat, marks: Marks) -> Int:
    """Return the index of the first event that changes one of the form's ``keys``, or the number of
    events. An event that can't be read counts as a change. ``marks``: arrays of 2k places."""
    before, after = marks.before, marks.after
    width = (form.wire.size + 7) // 8
    for e in range(events.shape[0]):
        end, kind = events[e, END], events[e, KIND]
        if kind != UPDATE and kind != PARTIAL_UPDATE:
            continue
        code, present = bitmaps(buffer, events[e, BEGIN], end, form.wire.size, kind)
        if code != DONE:
            return np.int64(e)
        at: Int = present + 2 * width
        own = present + width
        while at < end:
            before[:] = -1
            after[:] = -1
            image = skip_partial(buffer, at, present, end, form, before)
            if image >= 0 and kind == PARTIAL_UPDATE:
                image = diffs_begin(buffer, image, end, form.documents)[1]
            following: Int = np.int64(-1)
            if image >= 0:
                following = skip_partial(buffer, image, own, end, form, after)
            if following <= at or differs(buffer, before, after):
                return np.int64(e)
            at = following
    return np.int64(events.shape[0])


@jit
def differs(buffer: Bytes, before: Ints, after: Ints) -> bool:
    """Return whether a value of the after image may have changed. A column that the after image
    lacks counts as unchanged. A column that only the before image lacks counts as changed. A NULL
    has no bytes."""
    for i in range(0, after.size, 2):
        length = after[i + 1] - after[i]
        if after[i] < 0:
            continue
        if before[i] < 0 or before[i + 1] - before[i] != length:
            return True
        if not same(buffer, before[i], after[i], length):
            return True
    return False
