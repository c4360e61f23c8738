"""Spans: transactions of a log file, re-read and decoded a slice at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..binlog.crc import event_crc_ok
from ..binlog.definition import TableDefinition
from ..binlog.grammar import Flag
from ..binlog.payload import decompress
from ..binlog.row_images import RowImages
from ..binlog.rows import walk
from ..errors import DecodeError, SparkReplError
from ..position import OFFSET_BITS, OFFSET_MASK, RelayPosition

Longs = npt.NDArray[np.int64]

# Bytes decoded at a time, which bounds a worker's memory. 16 to 24 MB is 10 % quicker than 48 or 4.
_SLICE_BYTES = 16 << 20
_PAYLOAD_EVENT = 40


@dataclass(frozen=True)
class Span:
    """Transactions of one file, ascending: int64[n] offsets of starts and ends, bool[n] flags.
    Between two of them others may lie, which are other workers'.

    ``at``: their places in the order of the log (packed), where that is not where they lie: a
    prepared XA branch counts at its XA COMMIT.
    """

    path: str
    file_no: int
    starts: Longs
    ends: Longs
    compressed: npt.NDArray[np.bool_]
    checksum: bool
    at: Longs | None = None

    @classmethod
    def of(cls, path: str, file_no: int, records: Any) -> Span:
        """Of index records of one file, in the log's order."""
        return cls(
            path,
            file_no,
            (records["position"] & OFFSET_MASK).astype(np.int64),
            (records["end"] & OFFSET_MASK).astype(np.int64),
            records["flags"] & Flag.COMPRESSED != 0,
            bool(records["flags"][0] & Flag.CHECKSUM),
        )

    def __len__(self) -> int:
        return len(self.starts)


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
    span: Span,
    first: int,
    last: int,
    ordinal: Longs,
    *,
    known: Mapping[str, TableDefinition] | None = None,
    pairs: bool = False,
) -> Iterator[tuple[RowImages, Longs, Longs]]:
    """(images, ordinal of each of their transactions, its packed position) of a slice of a span.

    ``known`` and ``pairs`` as ``walk`` has them. DecodeError with the transaction's position.
    """
    positions = (np.int64(span.file_no) << OFFSET_BITS) + span.starts[first:last]
    if span.at is not None:
        positions = span.at[first:last]
    buffer = _read(span.path, span.starts[first:last], span.ends[first:last], positions)
    edges = np.concatenate(([0], np.cumsum(span.ends[first:last] - span.starts[first:last])))
    starts, ends = edges[:-1], edges[1:]
    packed = span.compressed[first:last]
    plain = ~packed
    if plain.any():
        args = starts[plain], ends[plain], positions[plain]
        for images in walk(buffer, *args, span.checksum, known=known, pairs=pairs):
            yield images, ordinal[plain], positions[plain]
    chosen: list[int] = []
    inner: list[bytes] = []
    for i in np.flatnonzero(packed):
        inner.append(_payload(buffer, int(starts[i]), int(ends[i]), span.checksum, positions[i]))
        chosen.append(int(i))
        if sum(map(len, inner)) > _SLICE_BYTES or i == np.flatnonzero(packed)[-1]:
            edge = np.concatenate(([0], np.cumsum([len(data) for data in inner])))
            joined = np.frombuffer(b"".join(inner), np.uint8)
            at = positions[chosen]
            for images in walk(joined, edge[:-1], edge[1:], at, False, known=known, pairs=pairs):
                yield images, ordinal[chosen], at
            chosen, inner = [], []


def _read(path: str, starts: Longs, ends: Longs, positions: Longs) -> npt.NDArray[np.uint8]:
    """The transactions' bytes end to end, without what lies between them. Runs of a wave may be
    small: whatever is done per buffer is done once for many of them."""
    buffer = np.empty(int((ends - starts).sum()), np.uint8)
    edges = np.concatenate(([0], np.flatnonzero(starts[1:] != ends[:-1]) + 1, [len(starts)]))
    filled = 0
    with open(path, "rb") as file:
        for a, b in itertools.pairwise(edges.tolist()):
            size = int(ends[b - 1] - starts[a])
            file.seek(int(starts[a]))
            if file.readinto(buffer.data[filled : filled + size]) != size:
                raise DecodeError(
                    "the file is shorter than when it was indexed",
                    position=RelayPosition.unpack(int(positions[b - 1])),
                    hint="was it truncated or replaced while the applier ran?",
                )
            filled += size
    return buffer


def _payload(buffer: Any, at: int, end: int, checksum: bool, position: np.int64) -> bytes:
    """The events inside a compressed transaction; loops over its two events, not over rows."""
    place = RelayPosition.unpack(int(position))
    while at + 19 <= end:
        length = int.from_bytes(buffer[at + 9 : at + 13].tobytes(), "little")
        if length < 19 or at + length > end:
            break
        if checksum and (length < 23 or not event_crc_ok(buffer, at, at + length)):
            raise DecodeError("an event's CRC32 is wrong", position=place)
        if buffer[at + 4] == _PAYLOAD_EVENT:
            body = buffer[at + 19 : at + length - (4 if checksum else 0)].tobytes()
            try:
                return decompress(body)
            except SparkReplError as error:
                raise error.at(position=place) from error
        at += length
    raise DecodeError("a compressed transaction has no payload", position=place)
