"""A binary document's values as nodes, in the document's order."""

from __future__ import annotations

import numpy as np

from ..kernels.jit import Bytes, Int, Ints, jit, number, varlen
from .json_document import (
    ARRAY_NODE,
    AT,
    COUNT,
    CUT,
    DOUBLE,
    DOUBLE_NODE,
    ENTRIES,
    INT64,
    KEY,
    KEY_SIZE,
    KIND,
    LITERAL,
    LITERAL_NODE,
    NEXT,
    OBJECT,
    OBJECT_NODE,
    OPAQUE_NODE,
    OPAQUE_TYPE,
    SIZE,
    STRING_NODE,
    TYPE,
    UINT64,
    next_key,
    next_value,
    open_container,
)


@jit
def read_nodes(buffer: Bytes, at: Int, end: Int, stack: Ints, nodes: Ints) -> Int:
    """Fill ``nodes`` from the binary document [at, end). Return their number, or a negated code of
    ``damage``. A document has fewer values than bytes."""
    kind: Int = np.int64(buffer[at])
    limit: Int = end
    key: Int = np.int64(0)
    length: Int = np.int64(-1)
    n, depth = 0, 0
    at += 1
    while True:
        if n == nodes.shape[0]:
            return -ENTRIES
        nodes[n, KEY], nodes[n, KEY_SIZE] = key, length
        if kind <= 3:
            code = open_container(buffer, kind, at, limit, stack, depth)
            if code:
                return -code
            nodes[n, KIND] = OBJECT_NODE if kind <= 1 else ARRAY_NODE
            nodes[n, SIZE] = stack[depth, COUNT]
            depth += 1
        else:
            code = _scalar(buffer, kind, at, limit, nodes, n)
            if code:
                return -code
        n += 1
        while depth and stack[depth - 1, NEXT] == stack[depth - 1, COUNT]:
            depth -= 1
        if depth == 0:
            return n
        length = np.int64(-1)
        if stack[depth - 1, OBJECT]:
            key, length = next_key(buffer, stack, depth - 1)
            if length < 0:
                return -CUT
        kind, at, limit = next_value(buffer, stack, depth - 1)


@jit
def _scalar(buffer: Bytes, kind: Int, at: Int, limit: Int, nodes: Ints, n: Int) -> Int:
    """Record a value that is not a container. Return 0 or a code of ``damage``."""
    nodes[n, KIND] = kind
    if kind == LITERAL_NODE:
        if at >= limit:
            return CUT
        nodes[n, AT] = buffer[at]
        return 0 if buffer[at] <= 2 else LITERAL
    if 5 <= kind <= 11:
        width = 8 if kind == DOUBLE_NODE else 2 << ((kind - 5) >> 1)
        if at + width > limit:
            return CUT
        value = number(buffer, at, width)
        if kind == DOUBLE_NODE:
            nodes[n, AT] = value
            return DOUBLE if value >> 52 & 0x7FF == 0x7FF else 0
        if kind & 1 and width < 8 and value >> (8 * width - 1):
            value -= np.int64(1) << (8 * width)
        nodes[n, AT] = value
        nodes[n, KIND] = UINT64 if kind == UINT64 and value < 0 else INT64
        return 0
    if kind == OPAQUE_NODE:
        if at >= limit:
            return CUT
        nodes[n, KIND] = kind | np.int64(buffer[at]) << OPAQUE_TYPE
        at += 1
    elif kind != STRING_NODE:
        return TYPE
    length, at = varlen(buffer, at, limit)
    nodes[n, AT], nodes[n, SIZE] = at, length
    return CUT if length < 0 or at + length > limit else 0
