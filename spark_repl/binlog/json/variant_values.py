"""Values of a document in Variant's encoding (VariantEncoding.md, "Value encoding").

The values are written from the last one to the first, each before the bytes already written. When a
container is written, all its values are already written, so the size in its header is known.

The dictionary of a Variant has the keys of all of a document's objects, each once, sorted by their
bytes (VariantEncoding.md, "Metadata encoding").
"""

from __future__ import annotations

import numpy as np

from ..kernels.jit import Bytes, Int, Ints, copy, is_utf8, jit, jit_allocating, number
from ..types.civil_calendar import days, is_date
from .json_document import (
    ARRAY_NODE,
    AT,
    DECIMAL_TEXT,
    DOUBLE_NODE,
    ENTRIES,
    INT64,
    KEY,
    KEY_SIZE,
    KIND,
    LITERAL_NODE,
    OBJECT_NODE,
    OPAQUE_TYPE,
    SIZE,
    STRING_NODE,
    UINT64,
    UTF8,
)
from .scalar_text import put_decimal, put_opaque, put_temporal

# Basic types, and the primitive types as in their first byte.
_PRIMITIVE, _SHORT_STRING, _OBJECT, _ARRAY = range(4)
_INTEGERS = np.array([3 << 2, 4 << 2, 5 << 2, 6 << 2], np.int64)
_DOUBLE, _DATE, _TIMESTAMP_NTZ, _STRING = 7 << 2, 11 << 2, 13 << 2, 16 << 2
_DECIMALS = np.array([8 << 2, 9 << 2, 10 << 2], np.int64)
_DECIMAL_DIGITS = 38
_LITERALS = np.array([0, 1 << 2, 2 << 2], np.uint8)  # null, true, false
_MYSQL_DECIMAL, _MYSQL_DATE, _MYSQL_DATETIME, _MYSQL_TIMESTAMP, _MYSQL_TIME = 246, 10, 12, 7, 11
_OFFSET = (1 << 32) - 1
# Upper bound in bytes of a value of fixed size.
_LEAST = 32


@jit_allocating
def put_values(buffer: Bytes, nodes: Ints, n: Int, out: Bytes) -> Int:
    """Write the document with these ``n`` nodes so that it ends at the end of ``out``. KEY of each
    node is the number of its key. Return where the document begins, or a negated code of
    ``damage``: ENTRIES if ``out`` is too small."""
    # Key's number << 32 | begin of each value that is written and not yet in a container.
    open_values = np.empty(n, np.int64)
    count = 0
    to: Int = np.int64(out.size)
    for i in range(n - 1, -1, -1):
        kind = nodes[i, KIND]
        if to < _LEAST:
            return -ENTRIES
        if kind in (OBJECT_NODE, ARRAY_NODE):
            count -= nodes[i, SIZE]
            end = open_values[count - 1] & _OFFSET if count else out.size
            inside = open_values[count : count + nodes[i, SIZE]]
            to = _container(kind == OBJECT_NODE, inside, end - to, out, to)
        elif kind == LITERAL_NODE:
            to -= 1
            out[to] = _LITERALS[nodes[i, AT]]
        elif kind == STRING_NODE:
            to = _string(buffer, nodes[i, AT], nodes[i, SIZE], out, to)
        elif kind == INT64:
            to = _integer(nodes[i, AT], out, to)
        elif kind == DOUBLE_NODE:
            to -= 9
            out[to] = _DOUBLE
            put_number(nodes[i, AT], 8, out, to + 1)
        elif kind == UINT64:
            to -= 18
            out[to], out[to + 1] = _DECIMALS[2], 0
            put_number(0, 8, out, put_number(nodes[i, AT], 8, out, to + 2))
        elif kind == DECIMAL_TEXT:
            to = _digits(buffer, nodes[i, AT], nodes[i, SIZE], out, to)
        else:
            to = _opaque(buffer, kind >> OPAQUE_TYPE, nodes[i, AT], nodes[i, SIZE], out, to)
        if to < 0:
            return to
        open_values[count] = nodes[i, KEY] << 32 | to
        count += 1
    return to


@jit_allocating
def _container(is_object: bool, inside: Ints, size: Int, out: Bytes, to: Int) -> Int:
    """Write the header of an object or array before the ``size`` bytes of its values; ``inside``
    lists them from the last to the first. Return where it begins, or a negated code of
    ``damage``."""
    count = inside.size
    large = count > 255
    offset = width(size)
    key: Int = 0
    if is_object:
        inside.sort()  # sorts by the numbers of the keys, which follow the order of the keys
        key = width(inside[count - 1] >> 32) if count else 1
    head = 1 + (4 if large else 1) + count * key + (count + 1) * offset
    if head > to:
        return -ENTRIES
    start = to
    to -= head
    sizes = offset - 1 | (key - 1) << 2 | large << 4 if is_object else offset - 1 | large << 2
    out[to] = sizes << 2 | (_OBJECT if is_object else _ARRAY)
    at = put_number(count, 4 if large else 1, out, to + 1)
    if is_object:
        for i in range(count):
            at = put_number(inside[i] >> 32, key, out, at)
    for i in range(count):
        entry = inside[i if is_object else count - 1 - i]
        at = put_number((entry & _OFFSET) - start, offset, out, at)
    put_number(size, offset, out, at)
    return to


@jit
def _integer(value: Int, out: Bytes, to: Int) -> Int:
    size = 0
    while size < 3 and value != value << (64 - (8 << size)) >> (64 - (8 << size)):
        size += 1
    to -= 1 + (1 << size)
    out[to] = _INTEGERS[size]
    put_number(value, 1 << size, out, to + 1)
    return to


@jit
def _string(buffer: Bytes, at: Int, length: Int, out: Bytes, to: Int) -> Int:
    if to < length + 5:
        return -ENTRIES
    if not is_utf8(buffer, at, length):
        return -UTF8
    to -= length
    copy(buffer, at, length, out, to)
    return _string_head(length, out, to)


@jit
def _string_head(length: Int, out: Bytes, to: Int) -> Int:
    if length < 64:
        out[to - 1] = length << 2 | _SHORT_STRING
        return to - 1
    put_number(length, 4, out, to - 4)
    out[to - 5] = _STRING
    return to - 5


@jit_allocating
def _digits(buffer: Bytes, at: Int, length: Int, out: Bytes, to: Int) -> Int:
    """Write a decimal, or a string if it has too many digits. Return where it begins, or a negated
    code of ``damage``."""
    if to < length + 5:
        return -ENTRIES
    copy(buffer, at, length, out, 0)
    begin = _decimal(out, length, to)
    return begin if begin else _printed(out, 0, length, out, to)


@jit_allocating
def _opaque(buffer: Bytes, code: Int, at: Int, length: Int, out: Bytes, to: Int) -> Int:
    """Write a decimal, date or time as its Variant type, if Variant has one. Otherwise write the
    text that the server prints; it is first printed at the beginning of ``out``. Return where the
    value begins, or a negated code of ``damage``."""
    if code == _MYSQL_DECIMAL:
        end = put_decimal(buffer, at, length, out, 0, to)
        if end < 0:
            return end
        begin = _decimal(out, end, to)
        return begin if begin else _printed(out, 0, end, out, to)
    moment = code in (_MYSQL_DATE, _MYSQL_DATETIME, _MYSQL_TIMESTAMP)
    if (moment or code == _MYSQL_TIME) and length == 8:
        packed = number(buffer, at, 8)
        end = put_temporal(code, packed, out, 0)
        if end >= 0 and moment:
            month, day = packed >> 46, packed >> 41 & 31
            if is_date(month // 13, month % 13, day):
                return _moment(code, days(month // 13, month % 13, day), packed, out, to)
    else:
        end = put_opaque(buffer, code, at, length, out, 0, to)
    return end if end < 0 else _printed(out, 1, end - 1, out, to)


@jit
def _moment(code: Int, day: Int, packed: Int, out: Bytes, to: Int) -> Int:
    if code == _MYSQL_DATE:
        out[to - 5] = _DATE
        put_number(day, 4, out, to - 4)
        return to - 5
    clock = packed >> 24 & 0x1FFFF
    seconds = ((day * 24 + (clock >> 12)) * 60 + (clock >> 6 & 63)) * 60 + (clock & 63)
    out[to - 9] = _TIMESTAMP_NTZ
    put_number(seconds * 1_000_000 + (packed & 0xFFFFFF), 8, out, to - 8)
    return to - 9


@jit
def _printed(text: Bytes, at: Int, end: Int, out: Bytes, to: Int) -> Int:
    r"""Write the string text[at:end] before ``to``; its two characters "\n" become one. Return
    where the string begins, or a negated code of ``damage``."""
    if end + 5 > to:
        return -ENTRIES
    last = to
    while end > at:
        end -= 1
        to -= 1
        out[to] = text[end]
        if end > at and text[end] == 110 and text[end - 1] == 92:
            end -= 1
            out[to] = 10
    return _string_head(last - to, out, to)


@jit_allocating
def _decimal(text: Bytes, end: Int, to: Int) -> Int:
    """Write the decimal with the text text[:end] before ``to`` in the same array. Return where it
    begins, or 0 if it has too many digits."""
    negative = int(text[0] == 45)
    digits, scale, fraction = 0, 0, False
    limbs = np.zeros(4, np.int64)
    for i in range(negative, end):
        if text[i] == 46:
            fraction = True
            continue
        scale += fraction
        digits += int(digits > 0 or text[i] != 48)
        if digits > _DECIMAL_DIGITS or scale > _DECIMAL_DIGITS:
            return 0
        carry = np.int64(text[i]) - 48
        for k in range(4):
            carry += limbs[k] * 10
            limbs[k] = carry & 0xFFFFFFFF
            carry >>= 32
    longest = max(digits, scale)
    size = int(longest > 9) + int(longest > 18)
    wide = 4 << size
    to -= 2 + wide
    carry = np.int64(negative)
    for k in range(wide // 4):
        value = (limbs[k] ^ 0xFFFFFFFF) + carry if negative else limbs[k]
        put_number(value, 4, text, to + 2 + 4 * k)
        carry = value >> 32
    text[to], text[to + 1] = _DECIMALS[size], scale
    return to


_SORTED_V1 = 0x11


@jit_allocating
def put_dictionary(buffer: Bytes, nodes: Ints, n: Int, out: Bytes, to: Int) -> Int:
    """Write the metadata at
    ``to``, in at most ``dictionary_room`` bytes. Replace KEY of each of the ``n`` nodes by the
    number of its key, or 0 if it has none. Return where the metadata ends, or a negated code of
    ``damage``."""
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
