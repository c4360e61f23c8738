"""Kernels over row images: they locate images and their key columns.

``binlog.rows.walk`` calls ``walk_images`` for the events of one table map; ``locate`` then finds
values, and ``key_offsets`` and ``key_bytes`` keys, in the images that were walked. All are compiled
by numba, and run unchanged in Python where there is no compiler. ``walk_images`` writes into arrays
of the caller, and returns FULL if they are too small for the next change.

Invariants: a kernel raises nothing and never reads beyond ``end``. Damage is an error code
(BODY_CUT, WIDTH and so on) or -1, which ``walk`` turns into a DecodeError. Places are offsets into
the buffer of bytes. Design: docs/design/kernels.md, docs/design/partial-images.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..kernels.jit import (
    BEGIN,
    BODY_CUT,
    DONE,
    END,
    FULL,
    KIND,
    PARTIAL_IMAGE,
    PARTIAL_UPDATE,
    TRANSACTION,
    UPDATE,
    WIDTH,
    WRITE,
    Bytes,
    Int,
    Ints,
    Lengths,
    copy,
    jit,
    jit_allocating,
    jit_inlined,
    prefetch,
    same,
    short,
    u8,
    u16,
)
from .change_bits import EXISTED, EXISTS, MOVED
from .row_format import MARK, PREFIX, SKIP

if TYPE_CHECKING:
    from .row_format import RowFormat

# The events of one table are not adjacent, so the processor can't prefetch the next one. Without an
# explicit prefetch this many events ahead, walking and locating took three times as long.
AHEAD = 8
_FETCHED_BYTES, _LINE_BYTES = 512, 64


class Marks(NamedTuple):
    """Arrays for the bounds of the key's columns in a change's two images: max(2, bounds) places
    each."""

    before: Ints
    after: Ints


class Entries(NamedTuple):
    """Arrays for entries [n]: the properties of each one."""

    flags: Bytes
    transaction: Lengths
    image: Ints
    """int64[n]: where the image's null bits begin"""
    key: Ints
    """int64[n, max(2, bounds)]: begin and end of each range of key bytes; int64[n, 0] if keys are
    not requested"""


@jit
def has_null(buffer: Bytes, image: Int, columns: Int) -> bool:
    """Return whether one of the image's columns is NULL. Bits after the last column are ignored."""
    full = columns >> 3
    rest = columns & 7
    null_bits: Int = np.int64(0)
    for i in range(full):
        null_bits |= u8(buffer, image + i)
    if rest:
        null_bits |= u8(buffer, image + full) & ((1 << rest) - 1)
    return bool(null_bits)


@jit
def skip_columns(
    buffer: Bytes, image: Int, at: Int, stop: Int, wire: Lengths, first: Int, last: Int
) -> Int:
    """Return where column ``last`` begins if column ``first`` begins at ``at``; -1 if the image is
    truncated."""
    for c in range(first, last):
        if u8(buffer, image + (c >> 3)) >> (c & 7) & 1:
            continue
        w = np.int64(wire[c])
        if w >= 0:
            at += w
        elif at - w > stop:
            return -1
        else:
            at += short(buffer, at, -w) - w
    return at


@jit
def skip_steps(buffer: Bytes, at: Int, stop: Int, steps: Ints, marks: Ints) -> Int:
    """Do what ``skip_columns`` does for all columns of an image without NULLs. ``steps``: as in
    ``RowFormat``."""
    for i in range(steps.shape[0]):
        at += steps[i, SKIP]
        if steps[i, MARK] >= 0:
            marks[steps[i, MARK]] = at
        width = steps[i, PREFIX]
        if width > 0:
            if at + width > stop:
                return -1
            at += short(buffer, at, width) + width
    return at


@jit
def skip_nulls(buffer: Bytes, image: Int, at: Int, stop: Int, form: RowFormat, marks: Ints) -> Int:
    """Do what ``skip_steps`` does for an image with NULLs, by its null bits."""
    column: Int = np.int64(0)
    for i in range(form.bounds.size):
        at = skip_columns(buffer, image, at, stop, form.wire, column, form.bounds[i])
        if at < 0:
            return -1
        marks[i] = at
        column = form.bounds[i]
    return skip_columns(buffer, image, at, stop, form.wire, column, form.wire.size)


@jit
def skip_image(buffer: Bytes, image: Int, stop: Int, form: RowFormat, marks: Ints) -> Int:
    """Return the end of the row image at ``image``, or -1 if it is truncated.

    Store in ``marks`` int64[k] where the columns ``bounds`` begin. Without ``bounds``, store the
    begin and end of the whole image.
    """
    at: Int = image + ((form.wire.size + 7) >> 3)
    if at > stop:
        return -1
    if has_null(buffer, image, form.wire.size):
        at = skip_nulls(buffer, image, at, stop, form, marks)
    else:
        at = skip_steps(buffer, at, stop, form.steps, marks)
    if at < 0 or at > stop:
        return -1
    if form.bounds.size == 0:
        marks[0], marks[1] = image, at
    return at


@jit
def same_key(buffer: Bytes, a: Ints, b: Ints) -> bool:
    """Return whether two images agree in their key columns. ``a`` and ``b``: begin and end of each
    range of columns."""
    for i in range(0, a.size, 2):
        length = a[i + 1] - a[i]
        if b[i + 1] - b[i] != length or not same(buffer, a[i], b[i], length):
            return False
    return True


@jit
def put(table: Ints, row: Int, values: Ints) -> None:
    for i in range(min(table.shape[1], values.size)):
        table[row, i] = values[i]


@jit
def bitmaps_begin(buffer: Bytes, begin: Int, end: Int, columns: Int) -> Int:
    """Return where the first bitmap of a rows event begins. ``begin`` is the offset of its column
    count. Return -WIDTH if the column count is not ``columns``."""
    count = u8(buffer, begin)
    at: Int = begin + 1
    if count >= 251:
        if count != 252 or at + 2 > end:
            return -WIDTH
        count = u16(buffer, at)
        at += 2
    return at if count == columns else -WIDTH


@jit
def holds_all(buffer: Bytes, bitmap: Int, columns: Int) -> bool:
    full = columns >> 3
    rest = (1 << (columns & 7)) - 1
    present: Int = np.int64(255)
    for i in range(full):
        present &= u8(buffer, bitmap + i)
    return bool(present == 255 and (rest == 0 or u8(buffer, bitmap + full) & rest == rest))


@jit
def images_begin(buffer: Bytes, begin: Int, end: Int, columns: Int, kind: Int) -> Int:
    """Return where the first row image of a rows event begins, or a negated error code."""
    at = bitmaps_begin(buffer, begin, end, columns)
    if at < 0:
        return at
    if kind == PARTIAL_UPDATE:
        return -PARTIAL_IMAGE
    size = (columns + 7) >> 3
    for _ in range(2 if kind == UPDATE else 1):
        if at + size > end:
            return -BODY_CUT
        if not holds_all(buffer, at, columns):
            return -PARTIAL_IMAGE
        at += size
    return at


@jit
def note(n: Int, flag: Int, owner: Int, at: Int, marks: Ints, entries: Entries) -> None:
    entries.flags[n], entries.transaction[n], entries.image[n] = flag, owner, at
    put(entries.key, n, marks)


@jit
def fetch(buffer: Bytes, at: Int, end: Int) -> None:
    """Prefetch the first lines of buffer[at:end] into the cache, because they are needed soon."""
    end = min(end, at + _FETCHED_BYTES)
    while at < end:
        prefetch(buffer, at)
        at += _LINE_BYTES


@jit
def walk_images(
    buffer: Bytes,
    events: Ints,
    form: RowFormat,
    pairs: bool,
    state: Ints,
    marks: Marks,
    entries: Entries,
) -> Int:
    """Record the row images of the events of one table map in ``entries``. Return DONE or an error
    code.

    ``form``: has no ``bounds`` for a table without key. ``pairs``: each UPDATE is two entries, and
    the second has MOVED, which the second entry of a changed key always has. ``state`` int64[4]:
    event, offset in it (0 = at its beginning), entries so far, row changes so far. After FULL, call
    it again: it continues from ``state``.
    """
    e, at, n, changes = state[0], state[1], state[2], state[3]
    code: Int = DONE
    while e < events.shape[0]:
        end, kind = events[e, END], events[e, KIND]
        if at == 0:
            if e + AHEAD < events.shape[0]:
                fetch(buffer, events[e + AHEAD, BEGIN], events[e + AHEAD, END])
            at = images_begin(buffer, events[e, BEGIN], end, form.wire.size, kind)
            if at < 0:
                code = -at
                at = np.int64(0)
                break
        while at < end:
            if n + 2 > entries.flags.size:
                code = FULL
                break
            following, last = walk_change(buffer, events[e], at, form, pairs, n, marks, entries)
            if following <= at:
                code = BODY_CUT
                break
            at, n, changes = following, last, changes + 1
        if code != DONE:
            break
        at = np.int64(0)
        e += 1
    state[0], state[1], state[2], state[3] = e, at, n, changes
    return code


@jit_inlined
def walk_change(
    buffer: Bytes,
    event: Ints,
    at: Int,
    form: RowFormat,
    pairs: bool,
    n: Int,
    marks: Marks,
    entries: Entries,
) -> tuple[Int, Int]:
    """Record the change at ``at`` as entries from n on. Return (offset of the next change, number
    of entries). The offset is -1 if the change is truncated."""
    end, kind, owner = event[END], event[KIND], event[TRANSACTION]
    second = skip_image(buffer, at, end, form, marks.before)
    if second <= at:
        return np.int64(-1), n
    if kind != UPDATE:
        note(n, EXISTS if kind == WRITE else EXISTED, owner, at, marks.before, entries)
        return second, n + 1
    following = skip_image(buffer, second, end, form, marks.after)
    if following <= second:
        return np.int64(-1), n
    keyless = form.bounds.size == 0
    if keyless or pairs or not same_key(buffer, marks.before, marks.after):
        note(n, EXISTED, owner, at, marks.before, entries)
        moved = EXISTS if keyless and not pairs else EXISTS | MOVED
        note(n + 1, moved, owner, second, marks.after, entries)
        return following, n + 2
    note(n, EXISTED | EXISTS, owner, second, marks.before, entries)
    return following, n + 1


# The processor has detected the access pattern by this length, and prefetches the lines after it.
_VALUES_FETCHED_BYTES = 192


@jit
def locate(
    buffer: Bytes,
    image: Ints,
    cursor: Ints,
    wire: Lengths,
    first: Int,
    last: Int,
    offset: Ints,
    length: Lengths,
) -> None:
    """Locate the values of the columns [first, last) in images that were walked before. All values
    are NULL if there is no image (-1).

    ``cursor`` int64[n]: where column ``first`` begins; it is moved to column ``last``. Results:
    ``offset`` int64[(last - first) * n], column by column, and ``length`` int32 of the same shape,
    -1 for NULL.
    """
    n = image.size
    for r in range(n):
        at: Int = cursor[r]
        begin = image[r]
        if r + AHEAD < n:
            fetch(buffer, cursor[r + AHEAD], cursor[r + AHEAD] + _VALUES_FETCHED_BYTES)
        nulls = begin < 0 or has_null(buffer, begin, wire.size)
        cell = r
        for c in range(first, last):
            size: Int = np.int64(wire[c])
            if nulls and (begin < 0 or u8(buffer, begin + (c >> 3)) >> (c & 7) & 1):
                offset[cell], length[cell] = at, -1
                cell += n
                continue
            if size < 0:
                width = -size
                size = short(buffer, at, width)
                at += width
            offset[cell], length[cell] = at, size
            at += size
            cell += n
        cursor[r] = at


@jit_allocating
def key_offsets(key: Ints) -> Ints:
    """Return int64[n + 1]: where each entry's key begins in the concatenation of all keys."""
    out = np.empty(key.shape[0] + 1, np.int64)
    total: Int = np.int64(0)
    out[0] = 0
    for r in range(key.shape[0]):
        for i in range(0, key.shape[1], 2):
            total += key[r, i + 1] - key[r, i]
        out[r + 1] = total
    return out


@jit
def key_bytes(buffer: Bytes, key: Ints, out: Bytes) -> None:
    at = 0
    for r in range(key.shape[0]):
        for i in range(0, key.shape[1], 2):
            length = key[r, i + 1] - key[r, i]
            copy(buffer, key[r, i], length, out, at)
            at += length


@jit
def unsigned_zeros(key: Ints, run: Int, offsets: Ints, out: Bytes) -> None:
    """Replace -0.0 by 0.0 in one range, a FLOAT or DOUBLE, of the keys in ``out``."""
    for r in range(key.shape[0]):
        at: Int = offsets[r]
        for i in range(0, 2 * run, 2):
            at += key[r, i + 1] - key[r, i]
        last = at + key[r, 2 * run + 1] - key[r, 2 * run] - 1
        rest = 0
        for i in range(at, last):
            rest |= out[i]
        if rest == 0 and out[last] == 0x80:
            out[last] = 0
