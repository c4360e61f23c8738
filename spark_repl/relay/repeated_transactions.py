"""Repeated transactions: those that a replica received twice, so that its relay log holds them
twice.

With relay_log_recovery=ON a replica forgets at its start what it had received and not applied. It
fetches that again into new files, and the old files stay in its list. MySQL's applier skips GTIDs
that it has, and without GTIDs it starts with the new files. Here the index marks the second copy as
empty, by its GTID or by its place in the source's log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..binlog.event_types import CRC_LENGTH, HEADER_LENGTH, EventFlag, EventType
from ..binlog.events.event import Header, parse_header, parse_rotate
from ..gtid import GtidSet
from ..position import OFFSET_BITS, OFFSET_MASK
from ..source.dump import has_checksum
from .file_index import Place, Received
from .log import split_name
from .record import Flag, Kind
from .relay_file import events

if TYPE_CHECKING:
    from .file_index import FileIndex
    from .log import RelayLog
    from .relay_file import RelayFile


def without_repeated(log: RelayLog, before: Sequence[FileIndex], index: FileIndex) -> FileIndex:
    """Return the index of a replica's file, with those transactions marked as empty that the files
    ``before`` already have."""
    earlier = index.earlier
    if earlier is None:
        earlier = _received(log, before, index)
    count = len(index.records)
    if not earlier or earlier.marked == count:
        return replace(index, earlier=earlier)
    records = np.array(index.records)
    again = earlier.gtids.contains_arrays(records["uuid"], records["gno"], records["tag"])
    if earlier.place is not None:
        begins, _ = _begins(log, index, earlier.file)
        anonymous = records["flags"] & Flag.ANONYMOUS > 0
        again |= anonymous & np.array([at < earlier.place for at in begins], bool)
    records["kind"][again] = Kind.EMPTY
    return replace(index, records=records, earlier=replace(earlier, marked=count))


def _received(log: RelayLog, before: Sequence[FileIndex], index: FileIndex) -> Received:
    """Return what the file may repeat; nothing unless the replica started again with this file or
    an earlier one."""
    if not before or not log.head(index.number).own.is_relay_log:
        return Received()
    last = before[-1]
    earlier = last.earlier or Received()
    received = _anonymous(log, before, index, earlier)
    executed = log.head(last.number).previous_gtids.union(_gtids(last))
    if executed.issubset(log.head(index.number).previous_gtids):
        return replace(received, gtids=earlier.gtids)
    executed = log.head(before[0].number).previous_gtids
    for part in before:
        executed = executed.union(_gtids(part))
    return replace(received, gtids=executed)


def _gtids(index: FileIndex) -> GtidSet:
    records = index.records
    return GtidSet.from_arrays(records["uuid"], records["gno"], records["tag"])


def _anonymous(
    log: RelayLog, before: Sequence[FileIndex], index: FileIndex, earlier: Received
) -> Received:
    """Return the place up to which the source had already sent what it sends again from this file
    on."""
    begins = _source_place(log.file(index.number))
    if begins is None:
        # The file was begun by a rotation: what held for the one before holds on.
        file = _begins(log, before[-1], earlier.file)[1] if earlier.place else ""
        return Received(place=earlier.place, file=file)
    filled = [part for part in before if len(part.records)]
    if not filled or not filled[-1].records["flags"][-1] & Flag.ANONYMOUS:
        return Received(place=earlier.place, file=begins[0])
    last = _last_place(log, [part.number for part in before], filled[-1])
    if earlier.place is not None and earlier.place[0] == last[0]:
        last = max(last, earlier.place)
    stem, number = split_name(begins[0])
    again = stem == last[0] and (number, begins[1]) < last[1:]
    return Received(place=last if again else None, file=begins[0])


def _source_place(file: RelayFile) -> tuple[str, int] | None:
    """Return where in the source's log the file begins, if a new connection of the replica began
    it."""
    for number, (header, _, event) in enumerate(events(file)):
        if header.type == EventType.ROTATE and header.flags & EventFlag.ARTIFICIAL:
            rotate = parse_rotate(event[HEADER_LENGTH : len(event) - CRC_LENGTH])
            return rotate.name, rotate.position
        if number > 2 or header.type not in (
            EventType.FORMAT_DESCRIPTION, EventType.PREVIOUS_GTIDS, EventType.ROTATE,
        ):  # fmt: skip
            return None
    return None


def _last_place(log: RelayLog, numbers: Sequence[int], last: FileIndex) -> Place:
    """Return the place of the source after a file's last transaction."""
    name, position = "", 0
    for number in numbers[: numbers.index(last.number) + 1]:
        name = (_source_place(log.file(number)) or (name, 0))[0]
    data = np.memmap(log.file(last.number).path, np.uint8, "r").data
    end = int(last.records["end"][-1]) & OFFSET_MASK
    for header, event in _walk(data, log.head(last.number).length, end):
        if header.type == EventType.ROTATE:
            name = _rotated(header, event) or name
        elif header.end_log_pos and not header.flags & EventFlag.RELAY_LOG:
            position = header.end_log_pos
    return *split_name(name), position


def _begins(log: RelayLog, index: FileIndex, name: str) -> tuple[list[Place], str]:
    """Return (where in the source's log each transaction begins, the source's file at the end).

    ``name``: the source's file at the beginning.
    """
    path = log.file(index.number).path
    data, at = np.memmap(path, np.uint8, "r").data, log.head(index.number).length
    places = []
    for record in index.records:
        number, start = divmod(int(record["position"]), 1 << OFFSET_BITS)
        if number == index.number:
            for header, event in _walk(data, at, start):
                name = _rotated(header, event) or name
            header = parse_header(bytes(data[start : start + HEADER_LENGTH]))
        else:
            first_file = np.memmap(log.file(number).path, np.uint8, "r").data
            header = parse_header(bytes(first_file[start : start + HEADER_LENGTH]))
        places.append((*split_name(name), header.end_log_pos - header.length))
        at = int(record["end"]) & OFFSET_MASK
    for header, event in _walk(data, at, index.scanned):
        name = _rotated(header, event) or name
    return places, name


def _walk(data: memoryview, begin: int, end: int) -> Iterator[tuple[Header, memoryview]]:
    while begin + HEADER_LENGTH <= end:
        header = parse_header(bytes(data[begin : begin + HEADER_LENGTH]))
        yield header, data[begin : begin + header.length]
        begin += max(header.length, HEADER_LENGTH)


def _rotated(header: Header, event: memoryview) -> str:
    """Return the source's file that follows its ROTATE; "" for another event."""
    if header.type != EventType.ROTATE or header.flags & EventFlag.RELAY_LOG:
        return ""
    whole = bytes(event)
    return parse_rotate(whole[HEADER_LENGTH : len(whole) - CRC_LENGTH * has_checksum(whole)]).name
