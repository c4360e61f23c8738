"""JSON text, as the server prints a document, -> its values (``nodes``).

The text is ambiguous: a date is a string in it, and a number with a point may have been a double or
a decimal. It is read as a double if the server prints a double in this form. Otherwise, as with
1.50 or more digits, it is read as a decimal.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import DecodeError
from ..kernels.jit import Bytes, Int, Ints, jit
from .double import insert_doubles
from .json_document import (
    ARRAY_NODE,
    AT,
    CUT,
    DECIMAL_TEXT,
    DEPTH,
    DEPTH_MAX,
    DOUBLE_NODE,
    ENTRIES,
    INT64,
    KEY,
    KEY_SIZE,
    KIND,
    LITERAL_NODE,
    OBJECT_NODE,
    SIZE,
    STRING_NODE,
    TYPE,
    UINT64,
)

# Columns of the stack: the container's node, and the number of its values so far.
_NODE, _COUNT = range(2)


def settle_numbers(text: Bytes, nodes: Ints) -> None:
    """Convert numbers with a point or an exponent, which parse_nodes leaves as DECIMAL_TEXT, to
    doubles if the server prints the double in this form. Raise DecodeError for text that the server
    never prints."""
    rows = np.flatnonzero(nodes[:, KIND] == DECIMAL_TEXT)
    if not len(rows):
        return
    at, size = nodes[rows, AT], nodes[rows, SIZE]
    edges = np.concatenate(([0], np.cumsum(size)))
    places = np.repeat(at - edges[:-1], size) + np.arange(edges[-1])
    written = _texts(text[places], edges)
    try:
        doubles = pc.cast(written, pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid as error:
        raise DecodeError(f"JSON text that no server prints: {error}") from error
    ones = np.arange(len(rows) + 1)
    digits, moved = insert_doubles(
        np.zeros(len(rows), np.uint8), ones, ones[:-1], doubles.view(np.int64)
    )
    same = np.asarray(pc.equal(written, _texts(digits, moved)))
    same |= np.asarray(pc.match_substring(written, "e"))
    nodes[rows[same], KIND] = DOUBLE_NODE
    nodes[rows[same], AT] = doubles.view(np.int64)[same]


def _texts(text: Bytes, edges: Ints) -> pa.StringArray:
    buffers = pa.py_buffer(edges.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(text))
    return pa.StringArray.from_buffers(len(edges) - 1, *buffers)


@jit
def parse_nodes(
    text: Bytes, at: Int, end: Int, stack: Ints, nodes: Ints, plain: Bytes, to: Int
) -> tuple[Int, Int]:
    """Fill ``nodes`` from the text [at, end). Append strings and numbers to ``plain`` at ``to``, at
    most as many bytes as the text has. Return (number of nodes, or a negated code of ``damage``;
    new end of ``plain``). Each value has at least two bytes, except a single one."""
    n, depth = 0, 0
    key: Int = np.int64(0)
    length: Int = np.int64(-1)
    while at < end:
        byte = text[at]
        if n == nodes.shape[0]:
            return np.int64(-ENTRIES), to
        nodes[n, KEY], nodes[n, KEY_SIZE] = key, length
        length = np.int64(-1)
        if byte == 123 or byte == 91:
            if depth == DEPTH_MAX:
                return np.int64(-DEPTH), to
            nodes[n, KIND] = OBJECT_NODE if byte == 123 else ARRAY_NODE
            stack[depth, _NODE], stack[depth, _COUNT] = n, 0
            depth, at = depth + 1, at + 1
        else:
            at, to = _scalar(text, at, end, nodes, n, plain, to)
            if at < 0:
                return at, to
        n += 1
        # Read up to the next value: ends of containers, a comma, a key.
        opened = byte == 123 or byte == 91
        while depth and at < end and text[at] == _closing(nodes, stack[depth - 1, _NODE]):
            depth -= 1
            nodes[stack[depth, _NODE], SIZE] = stack[depth, _COUNT]
            at += 1
            opened = False
        if depth == 0:
            return (n if at == end else np.int64(-TYPE)), to
        if not opened:
            if at + 1 >= end or text[at] != 44:
                return np.int64(-CUT), to
            at += 2
        stack[depth - 1, _COUNT] += 1
        if nodes[stack[depth - 1, _NODE], KIND] == OBJECT_NODE:
            if at >= end or text[at] != 34:
                return np.int64(-CUT), to
            key = to
            at, to = _string(text, at + 1, end, plain, to)
            if at < 0 or at + 1 >= end:
                return np.int64(-CUT), to
            length = to - key
            at += 2  # skip a colon and a space
    return np.int64(-CUT), to


@jit
def _closing(nodes: Ints, node: Int) -> Int:
    return 125 if nodes[node, KIND] == OBJECT_NODE else 93


@jit
def _scalar(
    text: Bytes, at: Int, end: Int, nodes: Ints, n: Int, plain: Bytes, to: Int
) -> tuple[Int, Int]:
    """Record a value that is not a container. Return its end, or a negated code of ``damage``, and
    the new end of ``plain``."""
    start = to
    if text[at] == 34:
        at, to = _string(text, at + 1, end, plain, to)
        nodes[n, KIND], nodes[n, AT], nodes[n, SIZE] = STRING_NODE, start, to - start
        return at, to
    letter = text[at]
    if letter == 110 or letter == 116 or letter == 102:  # null, true, false
        nodes[n, KIND] = LITERAL_NODE
        nodes[n, AT] = 0 if letter == 110 else (1 if letter == 116 else 2)
        at += 5 if letter == 102 else 4
        return (at if at <= end else np.int64(-CUT)), to
    whole = True
    while at < end and (48 <= text[at] <= 57 or text[at] in (43, 45, 46, 69, 101)):
        whole &= text[at] not in (46, 69, 101)
        plain[to] = text[at]
        at += 1
        to += 1
    if to == start:
        return np.int64(-TYPE), to
    nodes[n, KIND], nodes[n, AT], nodes[n, SIZE] = DECIMAL_TEXT, start, to - start
    if whole:
        _integer(plain, start, to, nodes, n)
    return at, to


@jit
def _integer(plain: Bytes, at: Int, end: Int, nodes: Ints, n: Int) -> None:
    """Convert the digits of a number that fits 64 bits to INT64 or UINT64. Leave other numbers as
    DECIMAL_TEXT."""
    negative = int(plain[at] == 45)
    if end - at > 20 or end - at == negative:
        return
    low: Int = np.int64(0)
    high: Int = np.int64(0)  # of 32 bits each, and the overflow
    for i in range(at + negative, end):
        if plain[i] < 48:  # a sign between digits
            return
        low = low * 10 + np.int64(plain[i]) - 48
        high = high * 10 + (low >> 32)
        low &= 0xFFFFFFFF
    if high >> 32 or (negative and high >> 31 and (high != 1 << 31 or low)):
        return
    value = high << 32 | low
    nodes[n, KIND] = UINT64 if high >> 31 and not negative else INT64
    # -2^63 is already negative.
    nodes[n, AT] = -value if negative and value > 0 else value


@jit
def _string(text: Bytes, at: Int, end: Int, plain: Bytes, to: Int) -> tuple[Int, Int]:
    """Decode the string whose text begins at ``at``. Return (offset after the closing quote, end of
    ``plain``). The offset is a negated code of ``damage`` if the string is damaged."""
    while at < end and text[at] != 34:
        byte = text[at]
        if byte != 92:
            plain[to] = byte
            at += 1
            to += 1
            continue
        if at + 1 >= end:
            return np.int64(-CUT), to
        letter = np.int64(text[at + 1])
        at += 2
        if letter == 117:
            if at + 4 > end:
                return np.int64(-CUT), to
            to = _character(_hex(text, at), plain, to)
            at += 4
            continue
        plain[to] = _unescaped(letter)
        to += 1
    return (at + 1 if at < end else np.int64(-CUT)), to


@jit
def _unescaped(letter: Int) -> Int:
    if letter == 110:
        return 10
    if letter == 114:
        return 13
    if letter == 116:
        return 9
    if letter == 98:
        return 8
    return 12 if letter == 102 else letter


@jit
def _hex(text: Bytes, at: Int) -> Int:
    value: Int = np.int64(0)
    for i in range(at, at + 4):
        digit = np.int64(text[i])
        value = value << 4 | (digit - 48 if digit < 58 else (digit & 15) + 9)
    return value


@jit
def _character(code: Int, plain: Bytes, to: Int) -> Int:
    """Write an escaped character as UTF-8. The server itself escapes only control characters."""
    if code < 0x80:
        plain[to] = code
        return to + 1
    if code < 0x800:
        plain[to], plain[to + 1] = 0xC0 | code >> 6, 0x80 | code & 63
        return to + 2
    plain[to], plain[to + 1] = 0xE0 | code >> 12, 0x80 | code >> 6 & 63
    plain[to + 2] = 0x80 | code & 63
    return to + 3
