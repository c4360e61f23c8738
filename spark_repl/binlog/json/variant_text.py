"""JSON text, as the server prints it, -> Variant. A SELECT returns JSON as text, not as binary
JSON."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ..kernels.jit import Bytes, Int, Ints, jit_allocating
from ..types.column_values import Values
from .json_document import DEPTH_MAX, ENTRIES
from .parse import parse_nodes, settle_numbers
from .variant_encoding import (
    SIZE_MAX,
    TOO_LARGE,
    Encoded,
    Variants,
    put_document,
    refused,
    room_of,
    variant_array,
)


def document_to_variant(text: str) -> pa.StructArray:
    """Convert one document to VARIANT_STRUCT[1], as ``text_to_variant`` does. Raise DecodeError."""
    raw = np.frombuffer(text.encode(), np.uint8)
    return text_to_variant(Values(raw, np.zeros(1, np.int64), np.array([len(raw)], np.int32)))


def text_to_variant(values: Values) -> pa.StructArray:
    """Convert documents to VARIANT_STRUCT[n], like the documents in the log. Text does not
    distinguish all types: dates and times become strings, and a decimal becomes a double if the
    server prints a double in this form. Raise DecodeError for text that the server never prints and
    for documents that Spark can't read."""
    length = values.length.astype(np.int64)
    text = values.buffer.view()
    text.flags.writeable = False
    plain, nodes, edges, row, code = _parse(text, values.offset, length)
    settle_numbers(plain, nodes)
    missing = length < 0
    if code:
        raise refused(row, code)
    plain.flags.writeable = False
    return variant_array(_encode(plain, nodes, edges, np.maximum(length, 0), SIZE_MAX), missing)


@jit_allocating
def _parse(text: Bytes, offset: Ints, length: Ints) -> tuple[Bytes, Ints, Ints, Int, Int]:
    """Parse all documents. Return (their strings and numbers, nodes of all documents, the offsets
    of each document's nodes, damaged row, code of its damage)."""
    n = offset.size
    size: Int = np.int64(0)
    for r in range(n):
        size += max(length[r], 0)
    plain = np.empty(size + 1, np.uint8)
    nodes = np.empty((size // 2 + n, 5), np.int64)
    edges = np.zeros(n + 1, np.int64)
    stack = np.zeros((DEPTH_MAX, 6), np.int64)
    to: Int = np.int64(0)
    for r in range(n):
        edges[r + 1] = edges[r]
        if length[r] < 0:
            continue
        at = offset[r]
        count, to = parse_nodes(text, at, at + length[r], stack, nodes[edges[r] :], plain, to)
        if count < 0:
            return plain, nodes[:0], edges, r, -count
        edges[r + 1] += count
    return plain[:to], nodes[: edges[n]], edges, -1, 0


@jit_allocating
def _encode(text: Bytes, nodes: Ints, edges: Ints, length: Ints, most: Int) -> Encoded:
    """Encode the documents whose nodes ``_parse`` has read. ``length``: bytes of each document's
    text."""
    n = length.size
    work = np.empty(room_of(length.max() if n else 0, most), np.uint8)
    encoded = Variants(
        np.empty(2 * length.sum() + n, np.uint8), np.zeros(n + 1, np.int64),
        np.empty(length.sum() + n, np.uint8), np.zeros(n + 1, np.int64),
    )  # fmt: skip
    for r in range(n):
        encoded.value_edges[r + 1], encoded.key_edges[r + 1] = (
            encoded.value_edges[r],
            encoded.key_edges[r],
        )
        if edges[r + 1] == edges[r]:
            continue
        room = work[: room_of(length[r], most)]
        rows = nodes[edges[r] : edges[r + 1]]
        encoded, code = put_document(text, rows, room, most, r, encoded)
        if code:
            return encoded, r, TOO_LARGE if code == ENTRIES and room.size == most else code
    return encoded, -1, 0
