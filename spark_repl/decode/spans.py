"""Reading spans: transactions of a log file, read again and decoded a slice at a time.

Workers call ``read_task`` with the spans of their task; ``read_changes`` and the emulation of
cascades call ``read_images``. A slice has at most 16 MiB, which bounds a worker's memory: a larger
transaction is read window by window, and a compressed one is decompressed window by window.

Invariants: images come in the order of the log. If the log has checksums, the CRC32 of each event,
or of the compressed payload, is verified before its rows are decoded. A file that became shorter
since it was indexed is an error, not an end. Raises DecodeError with the transaction's position
and, from ``read_task``, with the file. Design: docs/design/reading-the-log.md.
"""

from __future__ import annotations

import itertools
import os
import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from ..binlog.event_types import CRC_LENGTH, HEADER_LENGTH, EventType
from ..binlog.events.event import parse_header
from ..binlog.events.payload import (
    BAD_CRC,
    NO_PAYLOAD,
    Payload,
    decompress,
    decompress_all,
    head_at,
    payload_bodies,
    payload_heads,
    small_frames,
)
from ..binlog.events.windows import read_exactly, windows
from ..binlog.rows.walk import Applied, walk
from ..binlog.types.forms import USUAL
from ..errors import DecodeError, SparkReplError
from ..position import RelayPosition

if TYPE_CHECKING:
    from ..binlog.kernels.jit import Bytes
    from ..binlog.rows.row_images import RowImages
    from ..relay.span import Span
    from ..tables.source_table import Declared
    from .stage_task import StageTask

Longs = npt.NDArray[np.int64]

# Bytes decoded at a time: bounds a worker's memory. 16 to 24 MB is 10 % faster than 4 or 48 MB.
_SLICE_BYTES = 16 << 20
_NO_BODY = {
    BAD_CRC: "an event's CRC32 is wrong",
    NO_PAYLOAD: "a compressed transaction has no payload",
}


def slices(span: Span) -> Iterator[tuple[int, int]]:
    """Yield ranges of a span's transactions, at most _SLICE_BYTES or one transaction each."""
    edges = np.concatenate(([0], np.cumsum(span.ends - span.starts)))
    first = 0
    while first < len(span):
        fitting = int(np.searchsorted(edges, edges[first] + _SLICE_BYTES, "right")) - 1
        last = max(first + 1, fitting)
        yield first, last
        first = last


def read_task(
    task: StageTask,
    forms: Applied,
    add: Callable[[RowImages, Longs, Longs], object],
    *,
    pairs: bool | Container[str],
) -> None:
    """Read the spans of a task, and pass to ``add`` what ``read_images`` yields for each slice.

    The ordinals count the transactions of all spans. Raise DecodeError and LogError with file and
    position.
    """
    before = 0
    for span in task.spans:
        for first, last in slices(span):
            ordinal = before + np.arange(first, last)
            try:
                for images, ordinals, positions in read_images(
                    span.part(first, last),
                    ordinal,
                    definitions=task.definitions,
                    forms=forms,
                    pairs=pairs,
                ):
                    add(images, ordinals, positions)
            except SparkReplError as error:
                raise error.at(file=span.path) from error
        before += len(span)


@dataclass(frozen=True)
class _Walker:
    """The arguments of ``walk`` that all windows of a span have in common."""

    definitions: Mapping[str, Declared] | None
    forms: Applied
    pairs: bool | Container[str]

    def walk(
        self, buffer: Any, edges: tuple[Longs, Longs], positions: Longs, *, checksum: bool
    ) -> list[RowImages]:
        """Return the images of the transactions ``buffer[edges[0][i]:edges[1][i]]``."""
        return walk(
            buffer,
            *edges,
            positions,
            checksum,
            definitions=self.definitions,
            forms=self.forms,
            pairs=self.pairs,
        )


def read_images(
    span: Span,
    ordinal: Longs,
    *,
    definitions: Mapping[str, Declared] | None = None,
    forms: Applied = USUAL,
    pairs: bool | Container[str] = False,
) -> Iterator[tuple[RowImages, Longs, Longs]]:
    """Yield the row images of a slice of a span, whose transactions have the numbers ``ordinal``
    [n].

    Yields (images, ordinal of each of their transactions, packed position of each). A transaction
    larger than a slice comes in several windows, one after the other. ``definitions``, ``forms``
    and ``pairs`` are those of ``walk``. Raise DecodeError with the transaction's position.
    """
    walker = _Walker(definitions, forms, pairs)
    positions = span.positions
    compressed = span.compressed
    edges = np.concatenate(([0], np.cumsum(span.ends - span.starts)))
    if edges[-1] > _SLICE_BYTES and len(span) == 1:
        for images in _oversized(span, 0, positions, walker):
            yield images, ordinal, positions
        return
    buffer = read_span(span, positions)
    starts, ends = edges[:-1], edges[1:]
    if not compressed.all():
        plain = ~compressed
        bounds = starts[plain], ends[plain]
        for images in walker.walk(buffer, bounds, positions[plain], checksum=span.checksum):
            yield images, ordinal[plain], positions[plain]
    for chosen, events, edge in _decompressed(
        span, buffer, starts, ends, positions, np.flatnonzero(compressed)
    ):
        if events is not None:
            bounds = edge[:-1], edge[1:]
            walked: Iterable[RowImages] = walker.walk(
                events, bounds, positions[chosen], checksum=False
            )
        else:
            walked = _oversized(span, int(chosen[0]), positions[chosen], walker)
        for images in walked:
            yield images, ordinal[chosen], positions[chosen]


def _oversized(span: Span, index: int, position: Longs, walker: _Walker) -> Iterator[RowImages]:
    """Yield the images of one transaction larger than a slice, window by window."""
    extent = Extent(int(span.starts[index]), int(span.ends[index]), span.checksum)
    read = payload_windows if span.compressed[index] else plain_windows
    number = before = 0
    with span.open() as file:
        try:
            for window, checksum in read(file, extent, _SLICE_BYTES):
                number += 1
                bounds = np.array([0], np.int64), np.array([len(window)], np.int64)
                for images in walker.walk(window, bounds, position, checksum=checksum):
                    yield images.shifted(before)
                before += len(window)
        except SparkReplError as error:
            if number:
                error.message += f", in its window {number}"
            raise error.at(position=RelayPosition.unpack(int(position[0]))) from error


def _decompressed(
    span: Span, buffer: Any, starts: Longs, ends: Longs, positions: Longs, which: Longs
) -> Iterator[tuple[Longs, Any, Longs]]:
    """Yield the events of the compressed transactions ``which``, up to _SLICE_BYTES at a time.

    Yields (indexes of transactions, uint8 of their events end to end, int64[n + 1] where each
    transaction's events begin). A transaction larger than a slice comes by itself, with None
    instead of events.
    """
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
            yield from _one_by_one(buffer, bodies[run], heads[run], positions, which[run])
        first = last


def _one_by_one(
    buffer: Any, bodies: Longs, heads: Longs, positions: Longs, which: Longs
) -> Iterator[tuple[Longs, Any, Longs]]:
    """Yield what ``_decompressed`` yields, one transaction at a time.

    ``positions``: those of all transactions of the slice. Raise DecodeError with the position of
    the damaged transaction.
    """
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


def read_span(span: Span, positions: Longs) -> npt.NDArray[np.uint8]:
    """Return the concatenated bytes of the transactions, without the bytes between them.
    ``positions``: the transactions' packed positions, for an error. Raise DecodeError if the file
    is too short.

    One buffer holds many runs of adjacent transactions, because the runs of a wave may be small.
    """
    starts, ends = span.starts, span.ends
    buffer = np.empty(int((ends - starts).sum()), np.uint8)
    edges = np.concatenate(([0], np.flatnonzero(starts[1:] != ends[:-1]) + 1, [len(starts)]))
    filled = 0
    with span.open() as file:
        for a, b in itertools.pairwise(edges.tolist()):
            size = int(ends[b - 1] - starts[a])
            file.seek(int(starts[a]))
            if file.readinto(buffer.data[filled : filled + size]) != size:  # type: ignore[attr-defined]
                raise file_too_short().at(position=RelayPosition.unpack(int(positions[b - 1])))
            filled += size
    return buffer


_PIECE_BYTES = 1 << 20


def file_too_short() -> DecodeError:
    """Return the error for a file that lost bytes after it was indexed."""
    return DecodeError(
        "the file is shorter than when it was indexed",
        hint="was it truncated or replaced while the applier ran?",
    )


@dataclass(frozen=True)
class Extent:
    """The bytes ``file[start:end]`` of a transaction. ``checksum``: its events end with a CRC32."""

    start: int
    end: int
    checksum: bool


def plain_windows(file: BinaryIO, extent: Extent, size: int) -> Iterator[tuple[Bytes, bool]]:
    """Yield the events of an uncompressed transaction in windows of about ``size`` bytes.

    Yields (window, whether its events end with a CRC32).
    """
    start, end = extent.start, extent.end
    if file.seek(0, os.SEEK_END) < end:
        raise file_too_short()
    file.seek(start)
    for window in windows(file, end - start, size):
        yield window, extent.checksum


def payload_windows(file: BinaryIO, extent: Extent, size: int) -> Iterator[tuple[Bytes, bool]]:
    """Yield the events inside a compressed transaction in windows of about ``size`` bytes.

    Yields (window, False): events inside a payload have no CRC. The payload's own CRC32 is
    verified before anything is decompressed.
    """
    end, checksum = extent.end, extent.checksum
    if file.seek(0, os.SEEK_END) < end:
        raise file_too_short()
    at, tail = extent.start, CRC_LENGTH if checksum else 0
    while at + HEADER_LENGTH + tail <= end:
        file.seek(at)
        header = parse_header(file.read(HEADER_LENGTH))
        length = header.length
        if length < HEADER_LENGTH + tail or at + length > end:
            break
        if checksum:
            _verify(file, at, length - tail)
        if header.type == EventType.TRANSACTION_PAYLOAD:
            file.seek(at + HEADER_LENGTH)
            payload = Payload(file, length - HEADER_LENGTH - tail)
            for window in windows(payload, payload.uncompressed, size):
                yield window, False
            payload.check_end()
            return
        at += length
    raise DecodeError("a compressed transaction has no payload")


def _verify(file: BinaryIO, at: int, size: int) -> None:
    """Raise DecodeError if the CRC32 that follows the ``size`` bytes at ``at`` is wrong."""
    file.seek(at)
    crc, left = 0, size
    while left:
        piece = read_exactly(file, min(left, _PIECE_BYTES))
        crc, left = zlib.crc32(piece, crc), left - len(piece)
    if crc != int.from_bytes(file.read(CRC_LENGTH), "little"):
        raise DecodeError("an event's CRC32 is wrong")
