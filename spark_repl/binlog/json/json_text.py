"""Binary JSON -> text exactly as the MySQL server prints it (MySQL source, json_dom.cc).

One kernel walks all documents with a stack of its own. The doubles are inserted afterwards, because
one call of Arrow computes the shortest digits of all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ...errors import DecodeError
from ..kernels.jit import Bytes, Int, Ints, jit, jit_allocating, larger, number
from .double import insert_doubles
from .json_document import (
    COUNT,
    CUT,
    DEPTH_MAX,
    DOUBLE,
    ENTRIES,
    NEXT,
    OBJECT,
    REASONS,
    next_key,
    next_value,
    open_container,
)
from .scalar_text import put_scalar, put_string

# A byte of a document becomes at most 6 bytes of text (\u001f). Punctuation around it adds fewer
# than 8.
_GROWTH, _LEAST = 8, 128
_TEXT_MAX = (1 << 31) - 1
_HINT = "the log is damaged here: fetch it again, or check it with mysqlbinlog"


def to_text(buffer: Bytes, offset: Ints, length: Ints) -> pa.StringArray:
    """Convert documents to text. Document i is ``buffer[offset[i]:offset[i] + length[i]]``; length
    -1 is SQL NULL.

    An empty document is JSON's null, as on the server. Raise DecodeError for a damaged document,
    naming its row, and for text of more than 2 GiB.
    """
    buffer = np.ascontiguousarray(buffer, np.uint8)
    offset, length = np.asarray(offset, np.int64), np.asarray(length, np.int64)
    text, edges, places, bits, row, code = _print(_read_only(buffer), offset, length)
    if code:
        message = f"the JSON document of row {row} is damaged: {REASONS[code]}"
        raise DecodeError(message, hint=_HINT).of_row(int(row))
    if places.size:
        text, edges = insert_doubles(text, edges, places, bits)
    if text.size > _TEXT_MAX:
        raise DecodeError(
            f"the JSON documents have {text.size} bytes of text in one batch, more than 2 GiB",
            hint="lower the bound on a group's bytes",
        )
    missing = length < 0
    valid = None
    if missing.any():
        valid = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    array = pa.StringArray.from_buffers(
        len(length), pa.py_buffer(edges.astype(np.int32)), pa.py_buffer(text), valid
    )
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise DecodeError(f"a JSON document is not UTF-8: {error}", hint=_HINT) from error
    return array


def _read_only(buffer: Bytes) -> Bytes:
    """Return a read-only view: numba would compile a kernel once more for a writable array."""
    view = buffer.view()
    view.flags.writeable = False
    return view


class Doubles(NamedTuple):
    """The offsets of doubles in the text, and their bits. The arrays are larger than the number of
    doubles."""

    places: Ints
    bits: Ints


@jit_allocating
def _print(buffer: Bytes, offset: Ints, length: Ints) -> tuple[Bytes, Ints, Ints, Ints, Int, Int]:
    """Print all documents without their doubles. Return (text, edges int64[n+1], offsets of the
    doubles, bits of the doubles, damaged row, code of its damage)."""
    n = offset.size
    edges = np.zeros(n + 1, np.int64)
    doubles = Doubles(np.empty(64, np.int64), np.empty(64, np.int64))
    stack = np.zeros((DEPTH_MAX, 6), np.int64)
    # A NULL has the length -1.
    out = np.empty(_LEAST + 2 * (length.sum() + n) + n, np.uint8)
    to: Int = np.int64(0)
    count: Int = np.int64(0)
    for r in range(n):
        at, size = offset[r], length[r]
        if size > 0 and (at < 0 or size > buffer.size - at):
            return out[:0], edges, doubles.places, doubles.bits, r, CUT
        if to + _LEAST + _GROWTH * size > out.size:
            out = larger(out, to, to + _LEAST + _GROWTH * size)
        if count + size // 8 >= doubles.bits.size:
            places = larger(doubles.places, count, count + size)
            doubles = Doubles(places, larger(doubles.bits, count, count + size))
        if size == 0:
            out[to], out[to + 1], out[to + 2], out[to + 3] = 110, 117, 108, 108
            to += 4
        elif size > 0:
            to, count = _document(buffer, at, at + size, stack, out, to, doubles, count)
            if to < 0:
                return out[:0], edges, doubles.places, doubles.bits, r, -to
        edges[r + 1] = to
    return out[:to], edges, doubles.places[:count], doubles.bits[:count], -1, 0


@jit
def _document(
    buffer: Bytes,
    at: Int,
    end: Int,
    stack: Ints,
    out: Bytes,
    to: Int,
    doubles: Doubles,
    count: Int,
) -> tuple[Int, Int]:
    """Print the document [at, end) and record its doubles after the first ``count``. Return the
    bytes used of ``out`` and the number of doubles. The former is a negated code of ``damage`` if
    the document is damaged."""
    # Values that share bytes would make the text of a damaged document grow without end.
    most = to + _LEAST + _GROWTH * (end - at)
    kind: Int = np.int64(buffer[at])
    limit, depth = end, 0
    at += 1
    while True:
        if to + 2 > most:
            return np.int64(-ENTRIES), count
        if kind <= 3:
            code = open_container(buffer, kind, at, limit, stack, depth)
            if code:
                return np.int64(-code), count
            out[to] = 123 if kind <= 1 else 91
            to += 1
            depth += 1
        elif kind == 11:
            code = _note_double(buffer, at, limit, to, doubles, count)
            if code:
                return np.int64(-code), count
            out[to] = 48
            to, count = to + 1, count + 1
        else:
            to = put_scalar(buffer, kind, at, limit, out, to, most)
            if to < 0:
                return to, count
        while depth and stack[depth - 1, NEXT] == stack[depth - 1, COUNT]:
            depth -= 1
            if to == most:
                return np.int64(-ENTRIES), count
            out[to] = 125 if stack[depth, OBJECT] else 93
            to += 1
        if depth == 0:
            return to, count
        to = _lead(buffer, stack, depth - 1, out, to, most)
        if to < 0:
            return to, count
        kind, at, limit = next_value(buffer, stack, depth - 1)


@jit
def _note_double(
    buffer: Bytes, at: Int, limit: Int, place: Int, doubles: Doubles, count: Int
) -> Int:
    """Record the double at ``at``. Return 0 or a code of ``damage``."""
    if at + 8 > limit:
        return CUT
    value = number(buffer, at, 8)
    if value >> 52 & 0x7FF == 0x7FF or count == doubles.bits.size:
        return DOUBLE
    doubles.places[count], doubles.bits[count] = place, value
    return 0


@jit
def _lead(buffer: Bytes, stack: Ints, level: Int, out: Bytes, to: Int, most: Int) -> Int:
    """Print the comma and the key that precede the next value. Return the bytes used of ``out``, or
    a negated code of ``damage``."""
    if to + 2 > most:
        return -ENTRIES
    if stack[level, NEXT]:
        out[to] = 44
        out[to + 1] = 32
        to += 2
    if stack[level, OBJECT]:
        key, length = next_key(buffer, stack, level)
        if length < 0:
            return -CUT
        to = put_string(buffer, key, length, out, to, most - 2)
        if to >= 0:
            out[to] = 58
            out[to + 1] = 32
            to += 2
    return to
