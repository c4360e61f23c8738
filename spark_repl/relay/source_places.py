"""SourcePlaces: the places of a log's transactions in the source's own files.

Files of a binary log are the source's. In a relay log events keep the source's end_log_pos. ROTATE
events between transactions name the source's file, and the FORMAT_DESCRIPTION after them records
when it was begun.

A ``SourcePlace`` is one position in the source's own binary log, ordered among other positions.
"""

from __future__ import annotations

import struct
import threading
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..binlog.event_types import CRC_LENGTH, HEADER_LENGTH, EventFlag, EventType
from ..binlog.events.event import MAGIC_LENGTH, Header, parse_header, parse_rotate
from ..errors import BEGIN_AGAIN, HistoryError
from ..position import OFFSET_BITS, OFFSET_MASK, RelayPosition
from ..source.dump import has_checksum
from .file_transactions import extend
from .index import index_of_file
from .log import RelayLog, split_name
from .split_transactions import is_split

if TYPE_CHECKING:
    from .file_index import FileIndex
    from .index import TransactionIndex
    from .relay_file import RelayFile

Longs = npt.NDArray[np.int64]

_LENGTH_AT = 9  # of an event's header: its length, then end_log_pos


def is_received(relay: RelayLog) -> bool:
    """Return whether a replica wrote the log, so that its files are not the source's."""
    return bool(relay.files) and relay.head(relay.files[0].number).own.is_relay_log


@dataclass
class _Parts:
    """The parts of a file of the log that hold events of different files of the source.

    ``starts``: the offset in this file at which each part begins. ``places``: the place in the
    source's log at which it begins.
    """

    starts: list[int]
    places: list[SourcePlace | None]
    upto: int = MAGIC_LENGTH
    seen: int = 0
    """how far the file and its records were looked at"""
    received: bool = True

    def at(self, offset: int) -> SourcePlace | None:
        return self.places[bisect_right(self.starts, offset) - 1]


class SourcePlaces:
    """Finds records by a source position, and the source positions of records. Thread-safe.

    It remembers what it found in a file, so that each call reads only what was appended since.
    """

    def __init__(self) -> None:
        self._parts: dict[str, _Parts] = {}
        self._indexes: dict[str, FileIndex] = {}
        self._lock = threading.Lock()

    def reached(
        self, records: Any, relay: RelayLog, base: int, place: tuple[str, int]
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return (bool[n]: ends at or after the source position ``place``, bool[n]: begins before
        it).

        Both are False for transactions of files with other names (another source's).
        """
        reached, before = np.zeros((2, len(records)), bool)
        stem, number = split_name(place[0])
        numbers = records["position"] >> OFFSET_BITS
        for file in relay.files:
            rows = np.flatnonzero(numbers == file.number + base)
            if not len(rows):
                continue
            indexed = self._indexes.get(file.path)
            index = extend(indexed, relay) if indexed else index_of_file(relay, file)
            self._indexes[file.path] = index
            parts = self._of_file(relay, file, index)
            offsets = records["position"][rows] & OFFSET_MASK
            part = np.searchsorted(np.array(parts.starts), offsets, "right") - 1
            names = [split_name(begin.file if begin else "") for begin in parts.places]
            suffix = np.array([name[1] for name in names])[part]
            same = np.array([name[0] == stem for name in names])[part]
            first = _begins(file, offsets)
            last = first + records["length"][rows]
            in_file = suffix == number
            reached[rows] = same & ((suffix > number) | in_file & (last >= place[1]))
            before[rows] = same & ((suffix < number) | in_file & (first < place[1]))
        return reached, before

    def end_of(self, relay: RelayLog, index: TransactionIndex, end: int) -> SourcePlace | None:
        """Return the source position after the last transaction that ends up to the packed position
        ``end``.

        Without such a transaction, return the position where the log begins, or None if the log
        does not record it.
        """
        last = index.before(end)
        return self._place(relay, index, last[0]) if len(last) else self.first(relay, index)

    def begin_of(self, relay: RelayLog, index: TransactionIndex, start: int) -> SourcePlace | None:
        """Return the source position of the transaction that begins at the packed position
        ``start``; if there is none, return as ``end_of``."""
        if not len(index.at(start)):
            return self.end_of(relay, index, start)
        file = relay.file((start >> OFFSET_BITS) - index.base)
        return self._at(relay, index, file, start & OFFSET_MASK, 0)

    def first(self, relay: RelayLog, index: TransactionIndex) -> SourcePlace | None:
        """Return the source position where the log begins."""
        return self._begin_of_file(relay, index, relay.files[0])

    def count_up_to(
        self, records: Any, relay: RelayLog, index: TransactionIndex, place: SourcePlace
    ) -> int:
        """Return how many of some consecutive records end at or before the source position.

        Raise HistoryError if their files are different files of the same name.
        """
        low, high = 0, len(records)
        while low < high:
            middle = (low + high) // 2
            at = self._place(relay, index, records[middle])
            if at is not None and place.reaches(at):
                low = middle + 1
            else:
                high = middle
        return low

    def find(self, relay: RelayLog, index: TransactionIndex, place: SourcePlace) -> int | None:
        """Return the packed position of a source position between two transactions; None if the log
        does not have it, or is another log."""
        with suppress(HistoryError):
            return self._find(relay, index, place)
        return None

    def _find(self, relay: RelayLog, index: TransactionIndex, place: SourcePlace) -> int | None:
        first = self.first(relay, index)
        if first is None or not first.is_of_log(place) or not place.reaches(first):
            return None
        if place == first:
            return RelayPosition(index.base + relay.files[0].number, 0).packed
        # The place is in the last file that begins at or before it.
        for file in reversed(index.files):
            begins = self._begin_of_file(relay, index, relay.file(file.number))
            if begins is None or not begins.is_of_log(place) or not place.reaches(begins):
                continue
            records = index.slice(*_bounds(index.base + file.number))
            count = self.count_up_to(records, relay, index, place)
            if count:
                last = self._place(relay, index, records[count - 1])
                return int(records["end"][count - 1]) if last == place else None
        return None

    def _place(self, relay: RelayLog, index: TransactionIndex, record: Any) -> SourcePlace | None:
        """Return the place after a record's transaction."""
        start, end = int(record["position"]), int(record["end"])
        one_file = start >> OFFSET_BITS == end >> OFFSET_BITS
        length = end - start if one_file else int(record["length"])  # an XA COMMIT's is its rows'
        file = relay.file((start >> OFFSET_BITS) - index.base)
        return self._at(relay, index, file, start & OFFSET_MASK, length)

    def _at(
        self, relay: RelayLog, index: TransactionIndex, file: RelayFile, offset: int, length: int
    ) -> SourcePlace | None:
        """Return the place ``length`` bytes after the event at ``offset`` of a file."""
        parts = self._of_file(relay, file, index.file(file.number))
        part = parts.at(offset) or self._carried(relay, index, file)
        if part is None:
            return None
        begins = offset
        if parts.received:
            near = part.position + offset - parts.starts[bisect_right(parts.starts, offset) - 1]
            begins = unwrapped(_begin(file, offset), near)
        return replace(part, position=begins + length)

    def _begin_of_file(
        self, relay: RelayLog, index: TransactionIndex, file: RelayFile
    ) -> SourcePlace | None:
        """Return the place where a file of the log begins, according to the events before its first
        transaction."""
        indexed = index.file(file.number)
        parts = self._of_file(relay, file, indexed)
        first = np.zeros(0, np.int64) if indexed is None else indexed.records["position"][:1]
        head = len(parts.starts) > 1 and bool((parts.starts[1] < (first & OFFSET_MASK)).all())
        return parts.places[1] if head else parts.places[0] or self._carried(relay, index, file)

    def _carried(
        self, relay: RelayLog, index: TransactionIndex, file: RelayFile
    ) -> SourcePlace | None:
        """Return the place with which the earlier files end: MySQL records the source's file in the
        first file only."""
        if not relay.holds(file.number - 1):
            return None
        before = relay.file(file.number - 1)
        return self._of_file(relay, before, index.file(before.number)).places[-1] or self._carried(
            relay, index, before
        )

    def _of_file(self, relay: RelayLog, file: RelayFile, index: FileIndex | None) -> _Parts:
        with self._lock:
            parts = self._parts.get(file.path)
            if parts is None:
                parts = self._parts[file.path] = _parts_of(relay, file)
            if index is not None and parts.received:
                _look_on(parts, file, index, relay.head(file.number).length)
            return parts


def _bounds(number: int) -> tuple[int, int]:
    return number << OFFSET_BITS, (number + 1) << OFFSET_BITS


def _parts_of(relay: RelayLog, file: RelayFile) -> _Parts:
    """Return the parts of a file that was not read yet: all of it for a binary log, else none."""
    with open(file.path, "rb") as stream:
        stream.seek(MAGIC_LENGTH)
        described = parse_header(stream.read(HEADER_LENGTH))
    if not relay.head(file.number).own.is_relay_log:
        place = SourcePlace(file.name, MAGIC_LENGTH, described.timestamp, described.server_id)
        return _Parts([0], [place], received=False)
    return _Parts([0], [None])


def _look_on(parts: _Parts, file: RelayFile, index: FileIndex, head: int) -> None:
    """Read the events between the transactions that were indexed since the last call."""
    if index.scanned == parts.upto:
        return
    records = index.records[parts.seen :]
    begins, ends = records["position"] & OFFSET_MASK, records["end"] & OFFSET_MASK
    begins[is_split(records)] = head  # such a record's position is in an earlier file
    low = np.concatenate(([parts.upto], ends)).tolist()
    high = np.concatenate((begins, [index.scanned])).tolist()
    gaps = [(a, b) for a, b in zip(low, high, strict=True) if b > a]
    if gaps:
        data = np.memmap(file.path, np.uint8, "r").data
        for a, b in gaps:
            _add_parts(parts, data, a, b)
    parts.seen, parts.upto = len(index.records), index.scanned


def _add_parts(parts: _Parts, data: memoryview, begin: int, end: int) -> None:
    for at, header, event in _events(data, begin, end):
        if header.flags & EventFlag.RELAY_LOG:
            continue
        last = parts.places[-1]
        if header.type == EventType.ROTATE:
            body = event[HEADER_LENGTH : len(event) - CRC_LENGTH * has_checksum(event)]
            place = parse_rotate(body)
            # Files that follow each other within a second are described by the same bytes.
            began, server_id = (last.began, last.server_id) if last else (0, header.server_id)
            parts.starts.append(at)
            parts.places.append(SourcePlace(place.name, place.position, began, server_id))
        elif header.type == EventType.FORMAT_DESCRIPTION and last is not None:
            parts.places[-1] = replace(last, began=header.timestamp, server_id=header.server_id)


def _events(data: memoryview, begin: int, end: int) -> Iterator[tuple[int, Header, bytes]]:
    while begin + HEADER_LENGTH <= end:
        header = parse_header(bytes(data[begin : begin + HEADER_LENGTH]))
        yield begin, header, bytes(data[begin : begin + header.length])
        begin += max(header.length, HEADER_LENGTH)


def _begin(file: RelayFile, offset: int) -> int:
    """Return the offset in the source's file of the event at ``offset`` of this one, modulo
    2**32."""
    with open(file.path, "rb") as stream:
        stream.seek(offset + _LENGTH_AT)
        length, end = struct.unpack("<II", stream.read(8))
    return int(end - length) % (1 << 32)


def _begins(file: RelayFile, at: Longs) -> Longs:
    """Return the offsets in the source's file of transactions that begin at offsets ``at`` of this
    one."""
    data = np.memmap(file.path, np.uint8, "r")
    words = [
        sum(data[at + offset + i].astype(np.int64) << 8 * i for i in range(4)) for offset in (9, 13)
    ]
    return np.asarray(words[1] - words[0], np.int64)


_WRAP = 1 << 32


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """A position of SHOW BINARY LOG STATUS on the source: ``file`` and ``position``.

    ``began``: when the file was begun, in seconds since 1970 UTC, from its FORMAT_DESCRIPTION.
    ``server_id``: the server that wrote it. Both distinguish files with the same name, because
    names are used again after RESET and on another server.
    """

    file: str
    position: int
    began: int = 0
    server_id: int = 0

    @classmethod
    def of(cls, source: Mapping[str, Any]) -> SourcePlace | None:
        """Return the source position from the ``source`` of a cut or a commit; None if it has none.

        An earlier version recorded the relay log's file there, without ``began``.
        """
        if not source.get("file") or "began" not in source:
            return None
        return cls(source["file"], source["position"], source["began"], source.get("server_id", 0))

    def to_json(self) -> dict[str, Any]:
        return {
            "server_id": self.server_id,
            "file": self.file,
            "position": self.position,
            "began": self.began,
        }

    @property
    def _order(self) -> tuple[int, int]:
        return split_name(self.file)[1], self.position

    def is_of_log(self, other: SourcePlace) -> bool:
        """Return whether both positions are in one server's log, as far as their files show."""
        same = split_name(self.file)[0] == split_name(other.file)[0]
        return same and self.server_id == other.server_id and not self._contradicts(other)

    def _contradicts(self, other: SourcePlace) -> bool:
        own, theirs = (self.began, self.server_id), (other.began, other.server_id)
        return self.file == other.file and own != theirs

    def reaches(self, other: SourcePlace) -> bool:
        """Return whether everything up to ``other`` is before this position.

        False for a log with other file names (the source's log_bin was changed). Raises
        HistoryError if both files have the same name but are different files.
        """
        if self._contradicts(other):
            raise HistoryError(
                f"{other} is not of the source's log that was applied before, which stands at"
                f" {self}: a file of that name was begun at another time, or by another server",
                hint=f"the source was RESET, or is another one: {BEGIN_AGAIN}",
            )
        if split_name(self.file)[0] != split_name(other.file)[0]:
            return False
        return self._order >= other._order

    def __str__(self) -> str:
        return f"{self.file}:{self.position}"


def unwrapped(position: int, near: int) -> int:
    """Return the full position of an event that records its low 32 bits: the candidate nearest to
    ``near``.

    A transaction can make a file larger than 4 GiB.
    """
    return position + max(0, round((near - position) / _WRAP)) * _WRAP
