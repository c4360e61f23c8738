"""Kernels over row images: where images, key columns and single values lie."""

from __future__ import annotations

import numpy as np

from .kernels import (
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
    number,
    same,
)

# Flag of the second entry of an UPDATE that is two.
MOVED = 8


@jit
def skip_columns(
    buffer: Bytes, image: Int, at: Int, stop: Int, wire: Lengths, first: Int, last: Int
) -> Int:
    """Where column ``last`` begins when column ``first`` begins at ``at``; -1: cut."""
    for c in range(first, last):
        if buffer[image + (c >> 3)] >> (c & 7) & 1:
            continue
        w = wire[c]
        if w >= 0:
            at += w
        elif at - w > stop:
            return -1
        elif w == -1:
            at += 1 + np.int64(buffer[at])
        elif w == -2:
            at += 2 + (np.int64(buffer[at]) | np.int64(buffer[at + 1]) << 8)
        else:
            at += number(buffer, at, -w) - w
    return at


@jit
def skip_image(
    buffer: Bytes, image: Int, stop: Int, wire: Lengths, bounds: Ints, marks: Ints
) -> Int:
    """End of the row image at ``image``, or -1 when it is cut.

    bounds int64[k]: ascending column numbers; marks int64[k] gets where those columns begin.
    """
    at: Int = image + (wire.size + 7) // 8
    if at > stop:
        return -1
    column = 0
    for i in range(bounds.size):
        at = skip_columns(buffer, image, at, stop, wire, column, bounds[i])
        if at < 0 or at > stop:
            return -1
        marks[i] = at
        column = bounds[i]
    at = skip_columns(buffer, image, at, stop, wire, column, wire.size)
    return at if at <= stop else -1


@jit
def same_key(buffer: Bytes, a: Ints, b: Ints) -> bool:
    """Whether two images agree in their key columns; a, b: begin, end of each range of columns."""
    for i in range(0, a.size, 2):
        length = a[i + 1] - a[i]
        if b[i + 1] - b[i] != length or not same(buffer, a[i], b[i], length):
            return False
    return True


@jit
def put(table: Ints, row: Int, values: Ints) -> None:
    for i in range(values.size):
        table[row, i] = values[i]


@jit
def bitmaps_begin(buffer: Bytes, begin: Int, end: Int, columns: Int) -> tuple[Int, Int]:
    """(code, where the first bitmap is) of a rows event whose column count is at begin."""
    count: Int = np.int64(buffer[begin])
    at: Int = begin + 1
    if count >= 251:
        if count == 251 or count > 252 or at + 2 > end:
            return WIDTH, 0
        count = number(buffer, at, 2)
        at += 2
    return (DONE, at) if count == columns else (WIDTH, 0)


@jit
def images_begin(buffer: Bytes, begin: Int, end: Int, columns: Int, kind: Int) -> tuple[Int, Int]:
    """(code, where the first row image begins) of a rows event."""
    code, at = bitmaps_begin(buffer, begin, end, columns)
    if code != DONE:
        return code, 0
    if kind == PARTIAL_UPDATE:
        return PARTIAL_IMAGE, 0
    for _ in range(2 if kind == UPDATE else 1):
        if at + (columns + 7) // 8 > end:
            return BODY_CUT, 0
        for c in range(columns):
            if not buffer[at + (c >> 3)] >> (c & 7) & 1:
                return PARTIAL_IMAGE, 0
        at += (columns + 7) // 8
    return DONE, at


@jit
def walk_images(
    buffer: Bytes,
    events: Ints,
    wire: Lengths,
    bounds: Ints,
    pairs: bool,
    state: Ints,
    flags: Bytes,
    transaction: Lengths,
    image: Ints,
    key: Ints,
) -> Int:
    """Row images of the events of one table map.

    wire int32[columns]: bytes of a value, or minus the bytes of its length prefix. bounds: where
    the ranges of key columns begin and end, empty for a table without key. pairs: each UPDATE is
    two entries, and the second has MOVED. state int64[4]: event,
    offset in it (0 = at its beginning), entries so far, row changes so far; goes on from there
    after FULL. Out: flags uint8[n], transaction int32[n], image int64[n] (where its null bits
    begin), key int64[n, max(2, bounds)] (begin and end of each range of key bytes).
    """
    before, after = np.empty(max(2, bounds.size), np.int64), np.empty(max(2, bounds.size), np.int64)
    keyless = bounds.size == 0
    e, at, n, changes = state[0], state[1], state[2], state[3]
    code: Int = DONE
    while e < events.shape[0]:
        end = events[e, END]
        kind = events[e, KIND]
        if at == 0:
            code, at = images_begin(buffer, events[e, BEGIN], end, wire.size, kind)
            if code != DONE:
                break
        while at < end:
            if n + 2 > flags.size:
                code = FULL
                break
            first = at
            second = skip_image(buffer, first, end, wire, bounds, before)
            if second <= first:
                code = BODY_CUT
                break
            if keyless:
                before[0], before[1] = first, second
            at = second
            if kind == UPDATE:
                at = skip_image(buffer, second, end, wire, bounds, after)
                if at <= second:
                    code = BODY_CUT
                    break
                if keyless:
                    after[0], after[1] = second, at
                if keyless or pairs or not same_key(buffer, before, after):
                    flags[n], flags[n + 1] = 1, (2 | MOVED if pairs else 2)
                    image[n], image[n + 1] = first, second
                    put(key, n, before)
                    put(key, n + 1, after)
                    transaction[n] = transaction[n + 1] = events[e, TRANSACTION]
                    n, changes = n + 2, changes + 1
                    continue
            flags[n] = 2 if kind == WRITE else (3 if kind == UPDATE else 1)
            image[n], transaction[n] = second if kind == UPDATE else first, events[e, TRANSACTION]
            put(key, n, before)
            n, changes = n + 1, changes + 1
        if code != DONE:
            break
        at = 0
        e += 1
    state[0], state[1], state[2], state[3] = e, at, n, changes
    return code


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
    """Where the values of the columns [first, last) lie, for images that were walked before; all
    are NULL where there is no image (-1).

    cursor int64[n]: where column ``first`` begins; moved to column ``last``. Out: offset
    int64[last - first, n], length int32 of the same shape, -1 for NULL.
    """
    for r in range(image.size):
        at: Int = cursor[r]
        for c in range(first, last):
            if image[r] < 0 or buffer[image[r] + (c >> 3)] >> (c & 7) & 1:
                offset[c - first, r] = at
                length[c - first, r] = -1
                continue
            w = wire[c]
            size: Int = np.int64(w)
            if w < 0:
                size = number(buffer, at, -w)
                at -= w
            offset[c - first, r] = at
            length[c - first, r] = size
            at += size
        cursor[r] = at


@jit
def key_offsets(key: Ints) -> Ints:
    """int64[n + 1]: where each entry's key begins when the keys are joined."""
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
