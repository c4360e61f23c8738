"""Binary JSON -> Variant, the encoding of Parquet and Spark (parquet-format, VariantEncoding.md).

Equal documents become equal bytes, whatever layout the server chose. Integers have the smallest
size, and keys are numbered in the order of their bytes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ...errors import DecodeError
from ...tables.column import VARIANT_STRUCT
from ..kernels.jit import Bools, Bytes, Int, Ints, copy, jit, jit_allocating, larger
from ..types.column_values import bitmap
from .binary_nodes import read_nodes
from .json_document import AT, CUT, DEPTH_MAX, ENTRIES, KEY_SIZE, KIND, LITERAL_NODE, REASONS
from .variant_values import dictionary_room, put_dictionary, put_values

SIZE_MAX = 128 << 20
"""bytes; Spark reads no Variant with a larger value or larger metadata (VariantUtil.SIZE_LIMIT)"""

# A Variant has fewer than 8 bytes for each byte of binary JSON, plus a constant.
_GROWTH, _LEAST = 8, 128
_BATCH_MAX = (1 << 31) - 1
TOO_LARGE = len(REASONS)
_HINT = "the log is damaged here: fetch it again, or check it with mysqlbinlog"


def to_variant(buffer: Bytes, offset: Ints, length: Ints) -> pa.StructArray:
    """Convert documents to VARIANT_STRUCT[n]. Document i is ``buffer[offset[i]:offset[i] +
    length[i]]``; length -1 is SQL NULL. An empty document is JSON's null.

    Raise DecodeError for a damaged document and for one that Spark could not read, naming its row.
    Also raise it if the documents have more than 2 GiB.
    """
    data = np.ascontiguousarray(buffer, np.uint8).view()
    data.flags.writeable = False  # numba would compile a kernel once more for a writable array
    offset, length = np.asarray(offset, np.int64), np.asarray(length, np.int64)
    return variant_array(_encode(data, offset, length, SIZE_MAX), length < 0)


class Variants(NamedTuple):
    """Encoded documents [n]: their values and metadata, and the offsets where each one begins and
    ends."""

    values: Bytes
    value_edges: Ints
    keys: Bytes
    key_edges: Ints


Encoded = tuple[Variants, Int, Int]
"""the Variants, and the refused row with its code: TOO_LARGE or a code of ``damage``, 0 for none"""


def variant_array(encoded: Encoded, missing: Bools) -> pa.StructArray:
    """Return the encoded documents as an array, NULL where ``missing``. Raise DecodeError if a
    document was refused."""
    array, row, code = encoded
    if code:
        raise refused(row, code)
    children = [
        _binary(array.values[: array.value_edges[-1]], array.value_edges),
        _binary(array.keys[: array.key_edges[-1]], array.key_edges),
    ]
    valid = bitmap(~missing) if missing.any() else None
    return pa.Array.from_buffers(VARIANT_STRUCT, len(missing), [valid], children=children)


def refused(row: Int, code: Int) -> DecodeError:
    """Return the error for the document of a row."""
    if code == TOO_LARGE:
        return DecodeError(
            f"a JSON document has more than {SIZE_MAX >> 20} MiB as a VARIANT: Spark can't read it",
            hint='set target.json_as = "string", in a new target',
        ).of_row(int(row))
    message = f"the JSON document of row {row} is damaged: {REASONS[code]}"
    return DecodeError(message, hint=_HINT).of_row(int(row))


def _binary(data: Bytes, edges: Ints) -> pa.Array:
    if data.size > _BATCH_MAX:
        raise DecodeError(
            f"the JSON documents have {data.size} bytes in one batch, more than 2 GiB",
            hint="lower the bound on a group's bytes",
        )
    buffers = [None, pa.py_buffer(edges.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(edges) - 1, buffers)


@jit_allocating
def _encode(buffer: Bytes, offset: Ints, length: Ints, most: Int) -> Encoded:
    n = offset.size
    longest: Int = np.int64(0)
    for r in range(n):
        longest = max(longest, length[r])
    # A value in a container has at least three bytes in binary JSON, and two in a Variant.
    nodes = np.empty((min(longest // 3 + 2, most // 2), 5), np.int64)
    work = np.empty(room_of(longest, most), np.uint8)
    stack = np.zeros((DEPTH_MAX, 6), np.int64)
    encoded = Variants(
        np.empty(_LEAST + length.sum() + n, np.uint8), np.zeros(n + 1, np.int64),
        np.empty(_LEAST + length.sum() // 2 + n, np.uint8), np.zeros(n + 1, np.int64),
    )  # fmt: skip
    for r in range(n):
        at, size = offset[r], length[r]
        encoded.value_edges[r + 1], encoded.key_edges[r + 1] = (
            encoded.value_edges[r],
            encoded.key_edges[r],
        )
        if size < 0:
            continue
        count: Int = np.int64(-CUT)
        if size == 0 or (at >= 0 and size <= buffer.size - at):
            count = _nodes(buffer, at, size, stack, nodes)
        room = work[: room_of(size, most)]
        code = -count
        if count > 0:
            encoded, code = put_document(buffer, nodes[:count], room, most, r, encoded)
        if code:
            return encoded, r, TOO_LARGE if code == ENTRIES and room.size == most else code
    return encoded, -1, 0


@jit
def room_of(size: Int, most: Int) -> Int:
    """Return a bound on the bytes of a Variant whose document has ``size`` bytes. The bound is at
    most ``most``."""
    return min(_GROWTH * size + _LEAST, most)


@jit_allocating
def put_document(
    buffer: Bytes, nodes: Ints, room: Bytes, most: Int, r: Int, encoded: Variants
) -> tuple[Variants, Int]:
    """Append document ``r``. Return the Variants, whose arrays may have been replaced by larger
    ones, and 0 or an error code. ``room`` is a buffer for the encoding."""
    values, value_edges, keys, key_edges = encoded
    begin = key_edges[r]
    wide = dictionary_room(nodes, nodes.shape[0])
    if begin + wide > keys.size:
        keys = larger(keys, begin, begin + wide)
        encoded = Variants(values, value_edges, keys, key_edges)
    end = put_dictionary(buffer, nodes, nodes.shape[0], keys, begin)
    if end < 0:
        return encoded, -end
    start = put_values(buffer, nodes, nodes.shape[0], room)
    if start < 0 or end - begin > most:
        return encoded, -start if start < 0 else TOO_LARGE
    to, size = value_edges[r], room.size - start
    if to + size > values.size:
        values = larger(values, to, to + size)
        encoded = Variants(values, value_edges, keys, key_edges)
    copy(room, start, size, values, to)
    value_edges[r + 1], key_edges[r + 1] = to + size, end
    return encoded, 0


@jit
def _nodes(buffer: Bytes, at: Int, size: Int, stack: Ints, nodes: Ints) -> Int:
    if size:
        return read_nodes(buffer, at, at + size, stack, nodes)
    nodes[0, KIND], nodes[0, AT], nodes[0, KEY_SIZE] = LITERAL_NODE, 0, -1
    return np.int64(1)
