"""Kernels over row images that lack columns (MINIMAL, NOBLOB) or hold JSON diffs.

These images have null bits only for the columns that they hold. The event's bitmaps list these
columns. Full row images have faster kernels, in ``images``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..kernels.jit import (
    BEGIN,
    BODY_CUT,
    DONE,
    END,
    FULL,
    KEY_ABSENT,
    KIND,
    PARTIAL_UPDATE,
    TRANSACTION,
    UPDATE,
    WRITE,
    Bytes,
    Int,
    Ints,
    Lengths,
    jit,
    number,
)
from .change_bits import MOVED
from .images import Marks, bitmaps_begin, put, same_key

# Columns of the images' table: null bits and bitmap of the image itself, null bits and bitmap of
# the before image that fills its gaps (-1: none), and the bitmap of JSON columns that are diffs
# (-1: none).
IMAGE, PRESENT, BEFORE, BEFORE_PRESENT, DIFFS = range(5)
# Lengths of a missing value.
NULL, ABSENT = -1, -2


class PartialFormat(NamedTuple):
    """The layout of a table's images, and the columns to locate."""

    wire: Lengths
    """int32[columns], as in ``RowFormat``"""
    keys: Ints
    """int64[k]: ascending numbers of the columns to locate, those of the key"""
    documents: Int
    """number of JSON columns"""
    pairs: bool
    """whether every UPDATE becomes two entries"""


class PartialEntries(NamedTuple):
    """Arrays for entries [n]: the properties of each one."""

    flags: Bytes
    transaction: Lengths
    place: Ints
    """int64[n, 5]: columns IMAGE to DIFFS"""
    key: Ints
    """int64[n, max(2, 2k)]: begin and end of each key column; for a column that an after image
    lacks, they are taken from the before image"""


class Side(NamedTuple):
    """Images [n] of one side, before or after: their null bits (-1: no image), their bitmaps, and
    their cursors. A cursor int64[n, 2] holds the offset of the next value and the number of values
    read."""

    image: Ints
    present: Ints
    cursor: Ints


@jit
def bit(buffer: Bytes, at: Int, i: Int) -> bool:
    return bool(buffer[at + (i >> 3)] >> (i & 7) & 1)


@jit
def value_end(buffer: Bytes, at: Int, stop: Int, wire: Int) -> Int:
    """Return where the value at ``at`` ends, or -1 if it is truncated."""
    if wire < 0:
        if at - wire > stop:
            return -1
        at += number(buffer, at, -wire) - wire
    else:
        at += wire
    return at if at <= stop else -1


@jit
def skip_partial(
    buffer: Bytes, image: Int, present: Int, stop: Int, form: PartialFormat, marks: Ints
) -> Int:
    """Return the end of the image whose null bits are at ``image``, or -1 if it is truncated.

    Store in ``marks`` int64[2k] the begin and end of each of the ``keys`` that the image contains.
    Do not change the other places.
    """
    wire, keys = form.wire, form.keys
    nth = 0
    for c in range(wire.size):
        nth += bit(buffer, present, c)
    at: Int = image + (nth + 7) // 8
    if at > stop:
        return -1
    nth = 0
    k = 0
    for c in range(wire.size):
        is_key = k < keys.size and keys[k] == c
        if bit(buffer, present, c):
            begin = at
            if not bit(buffer, image, nth):
                at = value_end(buffer, at, stop, wire[c])
                if at < 0:
                    return -1
            nth += 1
            if is_key:
                marks[2 * k], marks[2 * k + 1] = begin, at
        k += is_key
    return at


@jit
def bitmaps(buffer: Bytes, begin: Int, end: Int, columns: Int, kind: Int) -> tuple[Int, Int]:
    """Return (code, offset of the first bitmap) of a rows event. An UPDATE's two bitmaps are
    adjacent."""
    at = bitmaps_begin(buffer, begin, end, columns)
    if at < 0:
        return -at, 0
    size = (columns + 7) // 8 * (2 if kind in (UPDATE, PARTIAL_UPDATE) else 1)
    return (DONE, at) if at + size <= end else (BODY_CUT, 0)


@jit
def diffs_begin(buffer: Bytes, at: Int, end: Int, documents: Int) -> tuple[Int, Int]:
    """Return (bitmap of the JSON columns that are diffs or -1, null bits) of a partial after image.

    Return (-1, -1) if the image is truncated or its options are unknown.
    """
    if at >= end or buffer[at] > 1:
        return -1, -1
    if buffer[at] == 0:
        return -1, at + 1
    size = (documents + 7) // 8
    return (at + 1, at + 1 + size) if at + 1 + size <= end else (-1, -1)


@jit
def holds_any(buffer: Bytes, present: Int, columns: Int) -> bool:
    count = 0
    for c in range(columns):
        count += bit(buffer, present, c)
    return count > 0


@jit
def has_key(marks: Ints) -> bool:
    lacking = 0
    for i in range(marks.size):
        lacking += marks[i] < 0
    return lacking == 0


@jit
def walk_change(
    buffer: Bytes,
    event: Ints,
    at: Int,
    present: Int,
    form: PartialFormat,
    n: Int,
    marks: Marks,
    entries: PartialEntries,
) -> tuple[Int, Int, Int]:
    """Record the change at ``at`` as entries from n on. Return (code, offset of the next change,
    number of entries)."""
    end, kind = event[END], event[KIND]
    before, after, place = marks.before, marks.after, entries.place
    diffs: Int = np.int64(-1)
    before[:] = -1
    second = skip_partial(buffer, at, present, end, form, before)
    if second <= at:
        return BODY_CUT, at, n
    if not has_key(before):
        return KEY_ABSENT, at, n
    put(entries.key, n, before)
    place[n, IMAGE], place[n, PRESENT] = at, present
    place[n, BEFORE], place[n, BEFORE_PRESENT], place[n, DIFFS] = -1, -1, -1
    if kind not in (UPDATE, PARTIAL_UPDATE):
        entries.flags[n] = 2 if kind == WRITE else 1
        return DONE, second, n + 1
    image, own = second, present + (form.wire.size + 7) // 8
    if kind == PARTIAL_UPDATE:
        diffs, image = diffs_begin(buffer, second, end, form.documents)
        if image < 0:
            return BODY_CUT, at, n
    for i in range(before.size):
        after[i] = before[i]
    following = skip_partial(buffer, image, own, end, form, after)
    if following < image:
        return BODY_CUT, at, n
    entries.flags[n] = 3
    if form.keys.size == 0 or form.pairs or not same_key(buffer, before, after):
        entries.flags[n] = 1
        n += 1
        entries.flags[n] = 2 | MOVED
        put(entries.key, n, after)
    place[n, IMAGE], place[n, PRESENT] = image, own
    place[n, BEFORE], place[n, BEFORE_PRESENT], place[n, DIFFS] = at, present, diffs
    return DONE, following, n + 1


@jit
def walk_partial(
    buffer: Bytes,
    events: Ints,
    form: PartialFormat,
    state: Ints,
    marks: Marks,
    entries: PartialEntries,
) -> Int:
    """Do what ``walk_images`` does for events whose images may lack columns.

    ``marks``: arrays of 2k places. Tables without key get empty keys, because partial images can't
    be compared before they are complete.
    """
    columns = form.wire.size
    e, at, n, changes = state[0], state[1], state[2], state[3]
    code: Int = DONE
    while e < events.shape[0]:
        end, kind = events[e, END], events[e, KIND]
        code, present = bitmaps(buffer, events[e, BEGIN], end, columns, kind)
        if code != DONE:
            break
        if at == 0:
            at = present + (columns + 7) // 8 * (2 if kind in (UPDATE, PARTIAL_UPDATE) else 1)
            # Images without columns also have no bytes, so their number is unknown.
            code = DONE if holds_any(buffer, present, columns) else KEY_ABSENT
        while code == DONE and at < end:
            if n + 2 > entries.flags.size:
                code = FULL
                break
            code, at, last = walk_change(buffer, events[e], at, present, form, n, marks, entries)
            if code == DONE:
                entries.transaction[n:last] = events[e, TRANSACTION]
                n, changes = last, changes + 1
        if code != DONE:
            break
        at = 0
        e += 1
    state[0], state[1], state[2], state[3] = e, at, n, changes
    return code


@jit
def begin_partial(buffer: Bytes, side: Side, columns: Int) -> None:
    """Set each image's cursor to its first value, with 0 columns read."""
    for r in range(side.image.size):
        count = 0
        if side.image[r] >= 0:
            for c in range(columns):
                count += bit(buffer, side.present[r], c)
        side.cursor[r, 0] = side.image[r] + (count + 7) // 8
        side.cursor[r, 1] = 0


@jit
def locate_partial(
    buffer: Bytes, side: Side, wire: Lengths, first: Int, last: Int, offset: Ints, length: Lengths
) -> None:
    """Do what ``locate`` does for images that may lack columns. ABSENT is the length of a value
    that the image does not hold."""
    cursor = side.cursor
    for r in range(side.image.size):
        at: Int = cursor[r, 0]
        for c in range(first, last):
            offset[c - first, r] = 0
            length[c - first, r] = ABSENT
            if side.image[r] < 0 or not bit(buffer, side.present[r], c):
                continue
            nth = cursor[r, 1]
            cursor[r, 1] = nth + 1
            if bit(buffer, side.image[r], nth):
                length[c - first, r] = NULL
                continue
            w = wire[c]
            size: Int = np.int64(w)
            if w < 0:
                size = number(buffer, at, -w)
                at -= w
            offset[c - first, r] = at
            length[c - first, r] = size
            at += size
        cursor[r, 0] = at
