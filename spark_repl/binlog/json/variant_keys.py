"""The dictionary of a Variant: the keys of all of a document's objects, each once, sorted by their
bytes (VariantEncoding.md, "Metadata encoding")."""

from __future__ import annotations

import numpy as np

from ..kernels.jit import Bytes, Int, Ints, copy, is_utf8, jit, jit_allocating
from .damage import UTF8
from .nodes import KEY, KEY_SIZE

_SORTED_V1 = 0x11


@jit_allocating
def put_dictionary(buffer: Bytes, nodes: Ints, n: Int, out: Bytes, to: Int) -> Int:
    """Write the metadata at ``to``, in at most ``dictionary_room`` bytes. Replace KEY of each of
    the ``n`` nodes by the key's number, 0 without a key. Return where the metadata ends, or a
    negated code of ``damage``."""
    order = _sorted_keys(buffer, nodes, n)
    first = np.empty(order.size, np.int64)
    count, size = 0, 0
    for i in range(order.size):
        if i == 0 or _compare(buffer, nodes, order[i - 1], order[i]) != 0:
            if not is_utf8(buffer, nodes[order[i], KEY], nodes[order[i], KEY_SIZE]):
                return -UTF8
            first[count] = order[i]
            count += 1
            size += nodes[order[i], KEY_SIZE]
    wide = width(max(size, count))
    out[to] = _SORTED_V1 | (wide - 1) << 6
    to = put_number(count, wide, out, to + 1)
    text = to + (count + 1) * wide
    start = text
    for i in range(count):
        to = put_number(text - start, wide, out, to)
        copy(buffer, nodes[first[i], KEY], nodes[first[i], KEY_SIZE], out, text)
        text += nodes[first[i], KEY_SIZE]
    put_number(text - start, wide, out, to)
    number, at = -1, 0
    for i in range(order.size):
        if at < count and first[at] == order[i]:
            at += 1
            number += 1
        nodes[order[i], KEY] = number
    return text


@jit
def dictionary_room(nodes: Ints, n: Int) -> Int:
    """Return a bound on the bytes of the dictionary of these nodes."""
    room = 16
    for i in range(n):
        room += 4 + max(nodes[i, KEY_SIZE], 0)
    return room


@jit
def width(value: Int) -> Int:
    """Return the number of bytes that an unsigned number needs."""
    return 1 + (value > 0xFF) + (value > 0xFFFF) + (value > 0xFFFFFF)


@jit
def put_number(value: Int, wide: Int, out: Bytes, to: Int) -> Int:
    """Write ``value`` little-endian in ``wide`` bytes. Return where it ends."""
    for i in range(wide):
        out[to + i] = value >> (8 * i) & 0xFF
    return to + wide


@jit_allocating
def _sorted_keys(buffer: Bytes, nodes: Ints, n: Int) -> Ints:
    """Return the nodes that have a key, sorted by its bytes; equal keys stay in the nodes' order.
    Set KEY of the other nodes to 0."""
    count = 0
    for i in range(n):
        count += nodes[i, KEY_SIZE] >= 0
    order, other = np.empty(count, np.int64), np.empty(count, np.int64)
    at = 0
    for i in range(n):
        if nodes[i, KEY_SIZE] >= 0:
            order[at] = i
            at += 1
        else:
            nodes[i, KEY] = 0
    step = 1
    while step < count:
        for low in range(0, count, 2 * step):
            _merge(
                buffer, nodes, order, other, low, min(low + step, count), min(low + 2 * step, count)
            )
        order, other = other, order
        step *= 2
    return order


@jit
def _merge(
    buffer: Bytes, nodes: Ints, order: Ints, other: Ints, low: Int, mid: Int, high: Int
) -> None:
    """Merge the sorted runs order[low:mid] and order[mid:high] into other[low:high]."""
    left, right = low, mid
    for to in range(low, high):
        if right == high or (
            left < mid and _compare(buffer, nodes, order[left], order[right]) <= 0
        ):
            other[to] = order[left]
            left += 1
        else:
            other[to] = order[right]
            right += 1


@jit
def _compare(buffer: Bytes, nodes: Ints, a: Int, b: Int) -> Int:
    """Compare the keys of two nodes. Return a number below 0, 0, or a number above 0."""
    at, of = nodes[a, KEY], nodes[b, KEY]
    size, length = int(nodes[a, KEY_SIZE]), int(nodes[b, KEY_SIZE])
    for i in range(min(size, length)):
        if buffer[at + i] != buffer[of + i]:
            return 1 if buffer[at + i] > buffer[of + i] else -1
    return size - length
