"""A source's log as a MySQL replica's relay log, cut into files between any two events."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from spark_repl.binlog.event_types import CRC_LENGTH, HEADER_LENGTH, EventType
from spark_repl.binlog.events.event import MAGIC
from spark_repl.gtid import GtidSet
from spark_repl.receiver.own_events import file_head, own_rotate, with_checksum
from tests.support.dump_stream import events_of

_HEADS = (EventType.FORMAT_DESCRIPTION, EventType.PREVIOUS_GTIDS)
_ID = "0" * 32
_REPLICA = 900


def source_events(log: Path) -> list[bytes]:
    """The events of a source's files but for their heads."""
    files = sorted(path for path in log.iterdir() if path.suffix != ".index")
    return [event for path in files for event in events_of(path) if event[4] not in _HEADS]


def description(log: Path) -> bytes:
    first = min(path for path in log.iterdir() if path.suffix != ".index")
    return next(events_of(first))


def write_file(
    folder: Path, number: int, source: bytes, events: Sequence[bytes], *, rotated: bool = True,
    previous: GtidSet | None = None, place: int = 4,
) -> Path:  # fmt: skip
    """One file of a relay log that holds these events; ``rotated``: another follows."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"relay.{number:06d}"
    data = file_head(_ID, _REPLICA, previous or GtidSet(), source, "bin.000001", place)
    data += b"".join(events)
    if rotated:
        data += own_rotate(f"relay.{number + 1:06d}", _REPLICA, len(data), checksum=True)
    path.write_bytes(data)
    return path


def anonymous(event: bytes) -> bytes:
    """The event as a source without GTIDs has it."""
    if event[4] != EventType.GTID:
        return event
    changed = bytearray(event[:-CRC_LENGTH])
    changed[4] = EventType.ANONYMOUS_GTID
    changed[HEADER_LENGTH + 1 : HEADER_LENGTH + 25] = bytes(24)
    return with_checksum(bytes(changed))


def write_rotated(
    folder: Path, number: int, source: bytes, events: Sequence[bytes], *, rotated: bool = True
) -> None:
    """As ``write_file`` where the replica stayed connected: nothing says which file of the source
    follows."""
    path = write_file(folder, number, source, [], rotated=False)
    head = [event for event in events_of(path) if event[4] != EventType.ROTATE]
    data = MAGIC + b"".join((*head, *events))
    if rotated:
        data += own_rotate(f"relay.{number + 1:06d}", _REPLICA, len(data), checksum=True)
    path.write_bytes(data)


def relayed(log: Path, folder: Path, cuts: Collection[int]) -> Path:
    """The relay log in ``folder``: a new file begins before each of these events, by number."""
    events, source = source_events(log), description(log)
    edges = [0, *sorted(cuts), len(events)]
    for number, (a, b) in enumerate(pairwise(edges), 1):
        write_file(folder, number, source, events[a:b], rotated=b < len(events))
    return folder


def cut_places(log: Path) -> Iterator[int]:
    """Numbers of the events inside of transactions: all but those that begin one."""
    begins = (EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED, EventType.ROTATE)
    for number, event in enumerate(source_events(log)):
        if event[4] not in begins:
            yield number
