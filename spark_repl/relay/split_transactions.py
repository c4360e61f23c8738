"""Split transactions: those that begin in one file of a replica's relay log and end in a later one.

A MySQL replica without GTIDs rotates its relay log wherever it is full. Any replica that stops
inside a transaction leaves it open: with SOURCE_AUTO_POSITION the source sends it again from its
beginning, without that it continues where it was. A transaction that is open at a file's end
therefore either continues in the next file, at the place of the source's log where it stopped, or
begins again there.

``pieces_of`` returns the bytes of such a transaction, to be read as if they were in one file.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO, cast

import numpy as np

from ..binlog.event_types import CRC_LENGTH, HEADER, HEADER_LENGTH, EventFlag, EventType
from ..binlog.events.transaction import Scan, Stop
from ..errors import LogError
from ..position import OFFSET_BITS, OFFSET_MASK

if TYPE_CHECKING:
    from typing import Any

    from .log import RelayLog
    from .relay_file import RelayFile

_GTIDS = (EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED)
_OWN = frozenset((
    EventType.FORMAT_DESCRIPTION, EventType.PREVIOUS_GTIDS, EventType.ROTATE, EventType.STOP,
    EventType.HEARTBEAT, EventType.HEARTBEAT_V2,
))  # fmt: skip
_MAY_END = (
    EventType.QUERY, EventType.XID, EventType.XA_PREPARE, EventType.TRANSACTION_PAYLOAD,
    EventType.INCIDENT, EventType.EXECUTE_LOAD_QUERY,
)  # fmt: skip
_ROWS = frozenset((
    EventType.WRITE_ROWS_V1, EventType.UPDATE_ROWS_V1, EventType.DELETE_ROWS_V1,
    EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS,
    EventType.PARTIAL_UPDATE_ROWS,
))  # fmt: skip
_RELAY_LOG, _ROTATE = int(EventFlag.RELAY_LOG), int(EventType.ROTATE)
_POSITION_MASK = 0xFFFFFFFF
_FIRST_WITH_GTIDS = (5, 7)
# Bytes mapped at a time: pages of the log that were read count as memory of this process.
_WINDOW_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Open:
    """A transaction, as far as it was read.

    ``outline``: its events, with only one rows event and without that event's body, which is enough
    to determine the transaction's kind. ``source_end``: end_log_pos of the last event. ``lost``: no
    file has its beginning.
    """

    pieces: tuple[Piece, ...]
    checksum: bool
    outline: bytes = b""
    row_events: int = 0
    source_end: int = 0
    lost: bool = False


@dataclass(frozen=True, slots=True)
class OpenPart:
    """The part of an open transaction in one file.

    ``end``: where its last event in the file ends. ``scan``: the scan of its outline, if the
    transaction ends here. ``open``: the transaction with this file's piece; None if it begins again
    at ``end``, or if its beginning was lost and it has ended.
    """

    end: int
    open: Open | None
    scan: Scan | None = None
    stop: Stop = Stop.OPEN
    bad: int = 0


def left_open(log: RelayLog, file: RelayFile, start: int, *, checksum: bool) -> Open | None:
    """Return the transaction that begins at ``start`` and does not end in the file; None if there
    is no complete event."""
    part = follow(log, file, Open((), checksum), start)
    while part.open is None:  # sent again after a new connection
        part = follow(log, file, Open((), checksum), part.end)
    return part.open if part.open.outline else None


def lost_part(log: RelayLog, file: RelayFile) -> Open | None:
    """Return the incomplete transaction with which a replica's log begins, if there is one: servers
    from 5.7 on begin each transaction with a GTID event."""
    head = log.head(file.number)
    version = tuple(
        int(part) for part in head.source.server_version.split(".")[:2] if part.isdigit()
    )
    if not head.own.is_relay_log or version < _FIRST_WITH_GTIDS:
        return None
    for kind, *_ in _events(file.path, head.length, log.size(file.number)):
        if kind not in _OWN:
            return None if kind in _GTIDS else Open((), head.source.checksum, lost=True)
    return None


def follow(
    log: RelayLog, file: RelayFile, before: Open, start: int, most: int = sys.maxsize
) -> OpenPart:
    """Follow a transaction through the file from ``start`` on, whether it continues there or begins
    again. End early, without a scan, if its events that are not row changes have more than ``most``
    bytes. Each such event is appended to a copy of the earlier ones.

    Raise LogError if it continues at another position of the source's log, or with an event that
    can't continue a transaction.
    """
    _check_sums(log, file, before)
    size, now, end = log.size(file.number), before, start
    rows, last = before.row_events, before.source_end
    begins_again, stop, bad = bool(before.outline), Stop.OPEN, size
    for kind, at, length, source_end in _events(file.path, start, size):
        if length < HEADER_LENGTH or at + length > size:
            stop, bad = Stop.NO_EVENT if length < HEADER_LENGTH else Stop.CUT, at
            break
        if kind in _OWN:
            begins_again = begins_again or (
                kind == EventType.FORMAT_DESCRIPTION and bool(now.outline)
            )
            continue
        if kind in _GTIDS and (now.outline or now.lost):
            if not (begins_again or now.lost):
                raise _refused(file, at, "begins while another is open")
            return OpenPart(end if now.lost else at, None, stop=Stop.END, bad=at)
        if begins_again:
            _check_place(file, at, replace(now, source_end=last), source_end - length)
        begins_again, end, last = False, at + length, source_end
        if now.lost or kind == EventType.TABLE_MAP or (kind in _ROWS and rows):
            rows += kind in _ROWS
            continue
        rows += kind in _ROWS
        now = replace(now, outline=now.outline + _outline(file.path, at, kind, length, now))
        if len(now.outline) > most:
            break
        if kind in _MAY_END:
            scan = _scanned(file, at, now)
            if len(scan.numbers):
                now = replace(now, row_events=rows, source_end=last)
                return OpenPart(end, _with_piece(now, file.path, start, end), scan, Stop.END, at)
    now = replace(now, row_events=rows, source_end=last)
    return OpenPart(end, _with_piece(now, file.path, start, end), stop=stop, bad=bad)


def pieces_of(log: RelayLog, record: Any, base: int) -> tuple[Piece, ...]:
    """Return the pieces of an index record's transaction, in order; one piece if it is in one file.

    ``base``: the difference between the record's file numbers and the files' own.
    """
    start, stop = int(record["position"]), int(record["end"])
    first, last = (start >> OFFSET_BITS) - base, (stop >> OFFSET_BITS) - base
    pieces = []
    for number in range(first, last + 1):
        file, head = log.file(number), log.head(number)
        begin = start & OFFSET_MASK if number == first else head.length
        if number == last:
            end = stop & OFFSET_MASK
        else:
            end = _last_end(file.path, begin, log.size(number))
        if end > begin:
            pieces.append(Piece(file.path, begin, end))
    return tuple(pieces)


def is_split(records: Any) -> Any:
    """Return bool, or bool[n]: whether the transactions of index records, given as an array or as
    columns, are in several files."""
    return records["position"] >> OFFSET_BITS != records["end"] >> OFFSET_BITS


def _last_end(path: str, begin: int, size: int) -> int:
    end = begin
    for kind, at, length, _ in _events(path, begin, size):
        if length < HEADER_LENGTH or at + length > size:
            break
        if kind not in _OWN:
            end = at + length
    return end


def _events(path: str, begin: int, size: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield (type, offset, length, end_log_pos) of each event; the last may be cut, or be none.

    An event that the replica itself wrote is reported as ROTATE, whatever it is.
    """
    first, data = begin, memoryview(b"")
    while begin + HEADER_LENGTH <= size:
        if begin + HEADER_LENGTH > first + len(data):
            first, length = begin, min(size - begin, _WINDOW_BYTES)
            data = np.memmap(path, np.uint8, "r", offset=first, shape=(length,)).data
        _, kind, _, length, source_end, flags = HEADER.unpack_from(data, begin - first)
        if flags & _RELAY_LOG and kind not in _OWN:
            kind = _ROTATE
        yield kind, begin, length, source_end
        if length < HEADER_LENGTH:
            return
        begin += length


def _outline(path: str, at: int, kind: int, length: int, now: Open) -> bytes:
    """Return the event, or only the header of an event with rows."""
    short = kind in _ROWS or kind == EventType.TRANSACTION_PAYLOAD
    size = HEADER_LENGTH + CRC_LENGTH * now.checksum if short else length
    with open(path, "rb") as file:
        file.seek(at)
        event = bytearray(file.read(size))
    event[9:13] = size.to_bytes(4, "little")
    return bytes(event)


def _with_piece(now: Open, path: str, begin: int, end: int) -> Open:
    if end == begin:
        return now
    return replace(now, pieces=(*now.pieces, Piece(path, begin, end)))


def _scanned(file: RelayFile, at: int, now: Open) -> Scan:
    from ..binlog.events.scan import scan  # numba: half a second that reading an index does without

    scanned = scan(np.frombuffer(now.outline, np.uint8), 0, now.checksum, relay=True)
    if scanned.stop not in (Stop.END, Stop.OPEN):
        raise _refused(file, at, "can't stand in the transaction that goes on here")
    return scanned


def _check_sums(log: RelayLog, file: RelayFile, before: Open) -> None:
    head = log.head(file.number)
    described = head.source is not head.own
    if before.outline and described and head.source.checksum != before.checksum:
        raise LogError(
            "a transaction goes on in this file with other checksums (binlog_checksum) than it"
            " began with",
            file=file.name, position=head.length, hint="fetch the log again from the source",
        )  # fmt: skip


def _check_place(file: RelayFile, at: int, before: Open, source_begin: int) -> None:
    """Raise LogError unless the event follows the last one in the source's log."""
    source_begin &= _POSITION_MASK
    if not before.source_end or source_begin == before.source_end:
        return
    begun = f"{before.pieces[0].path}:{before.pieces[0].begin}" if before.pieces else file.path
    raise LogError(
        f"the transaction that begins at {begun} goes on with what stands at {source_begin}"
        f" of the source's log, it stopped at {before.source_end}: events are missing, or were"
        " received twice",
        file=file.name,
        position=at,
        hint="start the replica with relay_log_recovery=ON, or fetch the log again",
    )


def _refused(file: RelayFile, at: int, why: str) -> LogError:
    return LogError(
        f"an event {why}: the transactions' boundaries are broken", file=file.name, position=at,
        hint="the file is damaged here: relay verify says more",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Piece:
    """Whole events of a transaction: ``[begin, end)`` of a file."""

    path: str
    begin: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.begin


def size_of(pieces: Sequence[Piece]) -> int:
    return sum(piece.size for piece in pieces)


def open_pieces(pieces: Sequence[Piece]) -> BinaryIO:
    """Open the concatenated pieces. Reading stops early if a file has become shorter."""
    return cast(BinaryIO, io.BufferedReader(_Joined(pieces)))


class _Joined(io.RawIOBase):
    """The pieces as one stream; only one file is open at a time."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces, self._at = pieces, 0
        self._file: BinaryIO | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: size_of(self._pieces)}[whence]
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        begin = 0
        for piece in self._pieces:
            if self._at < begin + piece.size:
                file = self._opened(piece.path)
                file.seek(piece.begin + self._at - begin)
                most = min(len(buffer), begin + piece.size - self._at)
                count = file.readinto(memoryview(buffer)[:most])  # type: ignore[attr-defined]
                self._at += count
                return int(count)
            begin += piece.size
        return 0

    def _opened(self, path: str) -> BinaryIO:
        if self._file is None or self._file.name != path:
            self._close()
            self._file = open(path, "rb", buffering=0)  # noqa: SIM115
        return self._file

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def close(self) -> None:
        self._close()
        super().close()
