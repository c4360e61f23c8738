"""SourcePlaces: where the transactions of a receiver's relay log stand in the source's own files.

Events keep the source's end_log_pos; which of its files they are from is said by the ROTATE events
between transactions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..binlog.event_types import CRC_LENGTH, HEADER_LENGTH, EventFlag, EventType
from ..binlog.events.event import MAGIC_LENGTH, Header, parse_header, parse_rotate
from ..position import OFFSET_BITS, OFFSET_MASK
from ..source.dump import has_checksum
from .file_index import FileIndex, begin, extend
from .log import RelayLog, split_name

if TYPE_CHECKING:
    from .file_head import RelayFile

Longs = npt.NDArray[np.int64]


def is_received(relay: RelayLog) -> bool:
    """Whether a replica wrote the log, so that its files are not the source's."""
    return bool(relay.files) and relay.head(relay.files[0].number).own.is_relay_log


class SourcePlaces:
    """Finds the records behind and before a place of the source; keeps the files' indexes."""

    def __init__(self) -> None:
        self._indexes: dict[str, FileIndex] = {}

    def reached(
        self, records: Any, relay: RelayLog, base: int, place: tuple[str, int]
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """(bool[n]: ends at or behind ``place`` of the source, bool[n]: begins before it).
        Transactions of files of another name (another source's) do neither."""
        reached, before = np.zeros((2, len(records)), bool)
        stem, number = split_name(place[0])
        numbers = records["position"] >> OFFSET_BITS
        for file in relay.files:
            rows = np.flatnonzero(numbers == file.number + base)
            if not len(rows):
                continue
            names, starts = self._files(relay, file)
            offsets = records["position"][rows] & OFFSET_MASK
            source_file = np.searchsorted(starts, offsets, "right") - 1
            parts = [split_name(name) for name in names]
            suffix = np.array([part[1] for part in parts])[source_file]
            same = np.array([part[0] == stem for part in parts])[source_file]
            first = _begins(file, offsets)
            last = first + records["length"][rows]
            there = suffix == number
            reached[rows] = same & ((suffix > number) | there & (last >= place[1]))
            before[rows] = same & ((suffix < number) | there & (first < place[1]))
        return reached, before

    def _files(self, relay: RelayLog, file: RelayFile) -> tuple[list[str], Longs]:
        """Names of the source's files, and from which offset of this one on they count."""
        index = extend(self._indexes.get(file.path) or begin(relay, file), relay)
        self._indexes[file.path] = index
        begins = index.records["position"] & OFFSET_MASK
        ends = index.records["end"] & OFFSET_MASK
        data = np.memmap(file.path, np.uint8, "r").data
        names, starts = [""], [0]
        for start, end in zip([MAGIC_LENGTH, *ends.tolist()], [*begins.tolist(), index.scanned],
                        strict=True):  # fmt: skip
            for header, event in _events(data, start, end):
                if header.type == EventType.ROTATE and not header.flags & EventFlag.RELAY_LOG:
                    body = event[HEADER_LENGTH : len(event) - CRC_LENGTH * has_checksum(event)]
                    names.append(parse_rotate(body).name)
                    starts.append(start)
        return names, np.array(starts, np.int64)


def _events(data: memoryview, begin: int, end: int) -> Iterator[tuple[Header, bytes]]:
    while begin + HEADER_LENGTH <= end:
        header = parse_header(bytes(data[begin : begin + HEADER_LENGTH]))
        yield header, bytes(data[begin : begin + header.length])
        begin += max(header.length, HEADER_LENGTH)


def _begins(file: RelayFile, at: Longs) -> Longs:
    """Offsets in the source's file of transactions that begin at offsets ``at`` of this one."""
    data = np.memmap(file.path, np.uint8, "r")
    words = [
        sum(data[at + offset + i].astype(np.int64) << 8 * i for i in range(4)) for offset in (9, 13)
    ]
    return np.asarray(words[1] - words[0], np.int64)
