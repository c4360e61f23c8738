"""The walk over binary JSON (MySQL source, json_binary.h): containers on a stack, their entries one
after the other. The caller processes the values.

Kernels return codes for the damage of a document; ``REASONS`` has their texts.

A document is also a table of its values: the form that its text and its binary form share. The
table is int64[n, 5] with a row per value in the document's order. A container's values follow it.
The container ends when its number of values is reached.
"""

from __future__ import annotations

import numpy as np

from ..kernels.jit import Bytes, Int, Ints, jit, number

DEPTH_MAX = 100
# Columns of the stack: a container's first byte, end, width of an offset, number of entries, the
# next entry, and whether it is an object.
BASE, END, WIDTH, COUNT, NEXT, OBJECT = range(6)


@jit
def open_container(buffer: Bytes, kind: Int, at: Int, limit: Int, stack: Ints, level: Int) -> Int:
    """Push the object or array whose count is at ``at``. Return 0 or one of these codes."""
    if level == DEPTH_MAX:
        return DEPTH
    width = 4 if kind & 1 else 2
    if at + 2 * width > limit:
        return CUT
    count, size = number(buffer, at, width), number(buffer, at + width, width)
    entry = 1 + width + (width + 2 if kind <= 1 else 0)
    if size > limit - at or 2 * width + entry * count > size:
        return CUT
    stack[level, BASE] = at
    stack[level, END] = at + size
    stack[level, WIDTH] = width
    stack[level, COUNT] = count
    stack[level, NEXT] = 0
    stack[level, OBJECT] = kind <= 1
    return 0


@jit
def next_key(buffer: Bytes, stack: Ints, level: Int) -> tuple[Int, Int]:
    """Return (offset, length) of the key of an object's next entry. The length is -1 if the key is
    outside the object."""
    base, width = stack[level, BASE], stack[level, WIDTH]
    entry = base + 2 * width + stack[level, NEXT] * (width + 2)
    at, length = base + number(buffer, entry, width), number(buffer, entry + width, 2)
    return at, np.int64(-1) if at + length > stack[level, END] else length


@jit
def next_value(buffer: Bytes, stack: Ints, level: Int) -> tuple[Int, Int, Int]:
    """Return (type, offset of the value, limit for reading it) of the next entry."""
    base, width, end = stack[level, BASE], stack[level, WIDTH], stack[level, END]
    entry = base + 2 * width + stack[level, NEXT] * (1 + width)
    if stack[level, OBJECT]:
        entry += stack[level, COUNT] * (width + 2)
    stack[level, NEXT] += 1
    kind = np.int64(buffer[entry])
    if 4 <= kind <= (8 if width == 4 else 6):
        return kind, entry + 1, entry + 1 + width
    return kind, min(base + number(buffer, entry + 1, width), end), end


CUT, DEPTH, TYPE, LITERAL, OPAQUE, ENTRIES, DOUBLE, TEMPORAL, UTF8 = range(1, 10)
REASONS = (
    "",
    "a value lies outside it",
    "it is nested deeper than 100 levels",
    "a value has an unknown type",
    "a literal is none of null, true, false",
    "a decimal does not fit its precision",
    "its values overlap",
    "a double is not a number",
    "a date or time is out of range",
    "a string is not UTF-8",
)


# KIND: binary JSON's type codes, but every integer is INT64, or UINT64 above its range, and every
# container OBJECT_NODE or ARRAY_NODE. AT: an integer, a double's bits or a literal's code,
# otherwise the offset of the value's bytes. SIZE: the number of bytes, or of a container's values.
# KEY and KEY_SIZE: offset and size of the key of a value in an object; KEY_SIZE is -1 for other
# values.
KIND, AT, SIZE, KEY, KEY_SIZE = range(5)
OBJECT_NODE, ARRAY_NODE, LITERAL_NODE, INT64, UINT64, DOUBLE_NODE = 0, 2, 4, 9, 10, 11
STRING_NODE, OPAQUE_NODE = 12, 15
DECIMAL_TEXT = 16
"""the digits of a decimal, as text"""
# The MySQL type of an opaque value is stored in the bits above its kind.
OPAQUE_TYPE = 8
