"""Spans: transactions of a log file, re-read and decoded a slice at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..binlog.events.payload import decompress, decompress_all
from ..binlog.events.payload_bodies import (
    BAD_CRC,
    NO_PAYLOAD,
    head_at,
    payload_bodies,
    payload_heads,
    small_frames,
)
from ..binlog.rows.walk import walk
from ..errors import DecodeError, SparkReplError
from ..position import OFFSET_BITS, RelayPosition
from .large import Extent, plain, too_short, unpacked

if TYPE_CHECKING:
    from ..binlog.rows.row_images import RowImages
    from .staged import Span

Longs = npt.NDArray[np.int64]

# Bytes decoded at a time, which bounds a worker's memory. 16 to 24 MB is 10 % quicker than 48 or 4.
_SLICE_BYTES = 16 << 20
_NO_BODY = {
    BAD_CRC: "an event's CRC32 is wrong",
    NO_PAYLOAD: "a compressed transaction has no payload",
}


def slices(span: Span) -> Iterator[tuple[int, int]]:
    """Ranges of a span's transactions with at most _SLICE_BYTES each (one transaction at least)."""
    edges = np.concatenate(([0], np.cumsum(span.ends - span.starts)))
    first = 0
    while first < len(span):
        fitting = int(np.searchsorted(edges, edges[first] + _SLICE_BYTES, "right")) - 1
        last = max(first + 1, fitting)
        yield first, last
        first = last


def read_images(
    span: Span, ordinal: Longs, **options: Any
) -> Iterator[tuple[RowImages, Longs, Longs]]:
    """(images, ordinal of each of their transactions, its packed position) of a slice of a span,
    whose transactions are ``ordinal`` [n].

    ``options`` are those of ``walk``. A transaction larger than a slice comes in several windows
    one behind the other. DecodeError with the transaction's place.
    """
    positions = (np.int64(span.file_no) << OFFSET_BITS) + span.starts
    if span.at is not None:
        positions = span.at
    compressed = span.compressed
    edges = np.concatenate(([0], np.cumsum(span.ends - span.starts)))
    if edges[-1] > _SLICE_BYTES and len(span) == 1:
        for images in _large(span, 0, positions, **options):
            yield images, ordinal, positions
        return
    buffer = _read(span, positions)
    starts, ends = edges[:-1], edges[1:]
    if not compressed.all():
        loose = ~compressed
        args = starts[loose], ends[loose], positions[loose]
        for images in walk(buffer, *args, span.checksum, **options):
            yield images, ordinal[loose], positions[loose]
    for chosen, events, edge in _unpacked(
        span, buffer, starts, ends, positions, np.flatnonzero(compressed)
    ):
        if events is not None:
            walked: Iterable[RowImages] = walk(
                events, edge[:-1], edge[1:], positions[chosen], False, **options
            )
        else:
            walked = _large(span, int(chosen[0]), positions[chosen], **options)
        for images in walked:
            yield images, ordinal[chosen], positions[chosen]


def _large(span: Span, index: int, position: Longs, **options: Any) -> Iterator[RowImages]:
    extent = Extent(int(span.starts[index]), int(span.ends[index]), span.checksum)
    read = unpacked if span.compressed[index] else plain
    number = before = 0
    with span.open() as file:
        try:
            for window, checksum in read(file, extent, _SLICE_BYTES):
                number += 1
                edge = np.array([0], np.int64), np.array([len(window)], np.int64)
                for images in walk(window, *edge, position, checksum, **options):
                    yield images.behind(before)
                before += len(window)
        except SparkReplError as error:
            if number:
                error.message += f", in its window {number}"
            raise error.at(position=RelayPosition.unpack(int(position[0]))) from error


def _unpacked(
    span: Span, buffer: Any, starts: Longs, ends: Longs, positions: Longs, which: Longs
) -> Iterator[tuple[Longs, Any, Longs]]:
    """(indexes of compressed transactions, uint8 of their events end to end, int64[n + 1] where
    each one's begin), up to _SLICE_BYTES together; one that is larger comes alone and with None."""
    bodies = payload_bodies(buffer, starts[which], ends[which], span.checksum)
    heads = payload_heads(buffer, bodies)
    together, places = small_frames(buffer, bodies, heads, _SLICE_BYTES)
    sizes = np.where(together, heads[:, 2], 0)
    edges = np.concatenate(([0], np.cumsum(sizes)))
    first = 0
    while first < len(which):
        fitting = int(np.searchsorted(edges, edges[first] + _SLICE_BYTES, "right")) - 1
        alone = np.flatnonzero(~together[first:fitting])
        last = max(first + 1, first + int(alone[0]) if len(alone) else fitting)
        inner = None
        if together[first]:
            inner = decompress_all(buffer, places[first:last], sizes[first:last])
        if inner is not None:
            events = np.frombuffer(inner, np.uint8)
            yield which[first:last], events, edges[first : last + 1] - edges[first]
        else:
            run = slice(first, last)
            yield from _singly(buffer, bodies[run], heads[run], positions, which[run])
        first = last


def _singly(
    buffer: Any, bodies: Longs, heads: Longs, positions: Longs, which: Longs
) -> Iterator[tuple[Longs, Any, Longs]]:
    """What ``_unpacked`` gives, one transaction at a time; a DecodeError has the position of the
    damaged one. ``positions``: those of all."""
    data = memoryview(buffer)
    for i, (begin, end), fields in zip(which, bodies.tolist(), heads.tolist(), strict=True):
        events = None
        try:
            if begin < 0:
                raise DecodeError(_NO_BODY[begin])
            body = bytes(data[begin:end])
            head = head_at(fields, body)
            if head.uncompressed <= _SLICE_BYTES:
                events = np.frombuffer(decompress(body, head), np.uint8)
        except SparkReplError as error:
            raise error.at(position=RelayPosition.unpack(int(positions[i]))) from error
        yield np.array([i]), events, np.array([0, head.uncompressed])


def _read(span: Span, positions: Longs) -> npt.NDArray[np.uint8]:
    """The transactions' bytes end to end, without what lies between them. Runs of a wave may be
    small: whatever is done per buffer is done once for many of them."""
    starts, ends = span.starts, span.ends
    buffer = np.empty(int((ends - starts).sum()), np.uint8)
    edges = np.concatenate(([0], np.flatnonzero(starts[1:] != ends[:-1]) + 1, [len(starts)]))
    filled = 0
    with span.open() as file:
        for a, b in itertools.pairwise(edges.tolist()):
            size = int(ends[b - 1] - starts[a])
            file.seek(int(starts[a]))
            if file.readinto(buffer.data[filled : filled + size]) != size:  # type: ignore[attr-defined]
                raise too_short().at(position=RelayPosition.unpack(int(positions[b - 1])))
            filled += size
    return buffer
