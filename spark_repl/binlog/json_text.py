"""Binary JSON -> text exactly as the MySQL server prints it (mysql.md 5, J1).

One kernel walks all documents with a stack of its own; doubles are put in behind it, because
their shortest digits come from one call of Arrow for all of them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ..errors import DecodeError
from .json_double import insert_doubles
from .json_print import CUT, DEPTH, DOUBLE, ENTRIES, REASONS, put_scalar, put_string, room
from .kernels import Bytes, Int, Ints, jit, number

DEPTH_MAX = 100
_TEXT_MAX = (1 << 31) - 1
_HINT = "the log is damaged here: fetch it again, or check it with mysqlbinlog"
# Columns of the stack: a container's first byte, end, width of an offset, number of entries, the
# next entry, and whether it is an object.
_BASE, _END, _WIDTH, _COUNT, _NEXT, _OBJECT = range(6)


def to_text(buffer: Bytes, offset: Ints, length: Ints) -> pa.StringArray:
    """Document i is ``buffer[offset[i]:offset[i] + length[i]]``; length -1 is SQL NULL.

    An empty document is JSON's null, as the server has it. DecodeError for a damaged one, naming
    its row, and when the text has more than 2 GiB.
    """
    buffer = np.ascontiguousarray(buffer, np.uint8)
    offset, length = np.asarray(offset, np.int64), np.asarray(length, np.int64)
    text, edges, places, bits, row, code = _print(_read_only(buffer), offset, length)
    if code:
        raise DecodeError(f"the JSON document of row {row} is damaged: {REASONS[code]}", hint=_HINT)
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
    """Numba compiles a kernel once more for a writable array."""
    view = buffer.view()
    view.flags.writeable = False
    return view


@jit
def _print(buffer: Bytes, offset: Ints, length: Ints) -> tuple[Bytes, Ints, Ints, Ints, Int, Int]:
    """(text, edges int64[n+1], places and bits of the doubles, row and code of what is damaged)."""
    n = offset.size
    edges = np.zeros(n + 1, np.int64)
    places = np.empty(64, np.int64)
    bits = np.empty(64, np.int64)
    stack = np.zeros((DEPTH_MAX, 6), np.int64)
    out = np.empty(64 + 2 * max(np.int64(0), length.sum()), np.uint8)
    to: Int = np.int64(0)
    doubles: Int = np.int64(0)
    for r in range(n):
        at, end = offset[r], offset[r] + length[r]
        if length[r] > 0 and (at < 0 or end > buffer.size):
            return out[:0], edges, places, bits, r, CUT
        if length[r] == 0:
            out = room(out, to, 4)
            for i in range(4):
                out[to + i] = (110, 117, 108, 108)[i]
            to += 4
        elif length[r] > 0:
            out, to, places, bits, doubles = _document(
                buffer, at, end, stack, out, to, places, bits, doubles
            )
            if to < 0:
                return out[:0], edges, places, bits, r, -to
        edges[r + 1] = to
    return out[:to], edges, places[:doubles], bits[:doubles], -1, 0


@jit
def _document(
    buffer: Bytes,
    at: Int,
    end: Int,
    stack: Ints,
    out: Bytes,
    to: Int,
    places: Ints,
    bits: Ints,
    doubles: Int,
) -> tuple[Bytes, Int, Ints, Ints, Int]:
    """Prints the document [at, end); ``to`` comes back below 0 when it is damaged."""
    # Values that share bytes could make the text of a damaged document grow without end.
    most = to + 64 + 8 * (end - at)
    kind, limit, depth = np.int64(buffer[at]), end, np.int64(0)
    at += 1
    while True:
        out = room(out, to, 8)
        if kind <= 3:
            code = _open(buffer, kind, at, limit, stack[depth]) if depth < DEPTH_MAX else DEPTH
            if code:
                return out, -code, places, bits, doubles
            out[to] = 123 if kind <= 1 else 91
            to += 1
            depth += 1
        elif kind == 11:
            value = number(buffer, at, 8) if at + 8 <= limit else np.int64(0)
            if at + 8 > limit or value >> 52 & 0x7FF == 0x7FF:
                return out, -(CUT if at + 8 > limit else DOUBLE), places, bits, doubles
            places, bits = _larger(places, doubles), _larger(bits, doubles)
            places[doubles] = to
            bits[doubles] = value
            doubles += 1
            out[to] = 48
            to += 1
        else:
            out, to = put_scalar(buffer, kind, at, limit, out, to)
        while to > 0 and depth and stack[depth - 1, _NEXT] == stack[depth - 1, _COUNT]:
            depth -= 1
            out = room(out, to, 1)
            out[to] = 125 if stack[depth, _OBJECT] else 93
            to += 1
        if to > most:
            to = np.int64(-ENTRIES)
        if to < 0 or depth == 0:
            return out, to, places, bits, doubles
        out, to = _lead(buffer, stack[depth - 1], out, to)
        if to < 0:
            return out, to, places, bits, doubles
        kind, at, limit = _value(buffer, stack[depth - 1])


@jit
def _open(buffer: Bytes, kind: Int, at: Int, limit: Int, frame: Ints) -> Int:
    """Notes an object or array that starts at its count; returns 0 or what is wrong."""
    width = 4 if kind & 1 else 2
    if at + 2 * width > limit:
        return CUT
    count, size = number(buffer, at, width), number(buffer, at + width, width)
    entry = 1 + width + (width + 2 if kind <= 1 else 0)
    if size > limit - at or 2 * width + entry * count > size:
        return CUT
    frame[_BASE] = at
    frame[_END] = at + size
    frame[_WIDTH] = width
    frame[_COUNT] = count
    frame[_NEXT] = 0
    frame[_OBJECT] = kind <= 1
    return 0


@jit
def _lead(buffer: Bytes, frame: Ints, out: Bytes, to: Int) -> tuple[Bytes, Int]:
    """What stands in front of the next value: a comma, its key."""
    base, width = frame[_BASE], frame[_WIDTH]
    out = room(out, to, 2)
    if frame[_NEXT]:
        out[to] = 44
        out[to + 1] = 32
        to += 2
    if frame[_OBJECT]:
        entry = base + 2 * width + frame[_NEXT] * (width + 2)
        key, length = number(buffer, entry, width), number(buffer, entry + width, 2)
        if base + key + length > frame[_END]:
            return out, np.int64(-CUT)
        out, to = put_string(buffer, base + key, length, out, to)
        out = room(out, to, 2)
        out[to] = 58
        out[to + 1] = 32
        to += 2
    return out, to


@jit
def _value(buffer: Bytes, frame: Ints) -> tuple[Int, Int, Int]:
    """(type, where the value starts, behind what it must not be read) of the next entry."""
    base, width = frame[_BASE], frame[_WIDTH]
    entry = base + 2 * width + frame[_NEXT] * (1 + width)
    if frame[_OBJECT]:
        entry += frame[_COUNT] * (width + 2)
    frame[_NEXT] += 1
    kind = np.int64(buffer[entry])
    if 4 <= kind <= (8 if width == 4 else 6):
        return kind, entry + 1, entry + 1 + width
    return kind, min(base + number(buffer, entry + 1, width), frame[_END]), frame[_END]


@jit
def _larger(array: Ints, used: Int) -> Ints:
    if used < array.size:
        return array
    larger = np.empty(4 * array.size, np.int64)
    larger[:used] = array
    return larger
