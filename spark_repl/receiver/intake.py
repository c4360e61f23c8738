"""Intake: writes what a dump stream sends into the relay log. It has no socket.

It interprets the stream's own events (ROTATE, FORMAT_DESCRIPTION, PREVIOUS_GTIDS, HEARTBEAT), and
drops a transaction that the source breaks off from the log's tail.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ..binlog.event_types import CRC_LENGTH, HEADER_LENGTH, EventFlag, EventType
from ..binlog.events.event import parse_format_description, parse_rotate
from ..errors import LogError, SourceError, SourceLostError
from ..relay.log import split_name
from ..relay.source_places import unwrapped
from ..source.dump import has_checksum, parse_heartbeat, refusal
from .packet import EventRun, PacketSplitter, Special

if TYPE_CHECKING:
    from .writer import RelayWriter


class Intake:
    """The stream of one connection: call ``write_events`` after each read. The attributes are
    figures for the status.

    ``by_file``: the receiver requested the log by file and position, so a file with the same name
    must be the same file.
    """

    def __init__(
        self, writer: RelayWriter, *, semi_sync: bool = False, by_file: bool = False
    ) -> None:
        self.writer, self._by_file = writer, by_file
        self.splitter = PacketSplitter(semi_sync=semi_sync)
        self.heartbeats = 0
        self.last_heartbeat = 0.0
        self.bytes = 0
        self.ack = False
        """the source waits for an acknowledgement of what was written"""
        self._described = False

    def write_events(self) -> None:
        """Write the events of the bytes received so far.

        Raise SourceError (the source refused), SourceLostError (it ended the stream, or the stream
        is broken), LogError (the relay log can't be written).
        """
        for part in self.splitter.events():
            if isinstance(part, EventRun):
                self.bytes += len(part.data)
                self.ack |= part.ack
                self.writer.append(part)
            elif isinstance(part, Special):
                self._special(part)
            else:
                raise refusal(part.payload)

    def acknowledged(self) -> None:
        """Record that everything written was acknowledged to the source."""
        self.ack = False

    def _special(self, special: Special) -> None:
        kind, event = special.type, special.event
        if kind in (EventType.HEARTBEAT, EventType.HEARTBEAT_V2):
            self._heartbeat(event)
        elif kind == EventType.FORMAT_DESCRIPTION:
            self._describe(event)
        elif kind == EventType.ROTATE:
            self._rotate(event)
        elif self.splitter.checksum and not has_checksum(event):
            raise _damaged(kind)

    def _drop_open(self) -> None:
        if self.splitter.inside:
            self.writer.drop_open()
            self.splitter.forget_transaction()

    def _describe(self, event: bytes) -> None:
        described = parse_format_description(event)
        if described.is_mariadb:
            raise SourceError(
                f"the source is MariaDB ({described.server_version}): its format is another one",
                hint="MySQL 5.7 and later are supported",
            )
        if described.checksum and not has_checksum(event):
            raise _damaged(EventType.FORMAT_DESCRIPTION)
        if self._by_file and self.writer.is_another_file(event):
            raise SourceError(
                f"the source's {self.writer.source_file} is another file than the one of that name"
                " of which a part was received before",
                hint="the source was RESET, restored, or is another server: begin with an empty"
                " target and relay folder",
            )
        self._drop_open()
        self.splitter.described(checksum=described.checksum)
        self.writer.describe(event)
        self._described = True

    def _rotate(self, event: bytes) -> None:
        checked = has_checksum(event)
        place = parse_rotate(event[HEADER_LENGTH : len(event) - CRC_LENGTH * checked])
        artificial = int.from_bytes(event[17:19], "little") & EventFlag.ARTIFICIAL
        if artificial or not self._described:
            self._drop_open()
            self.writer.begin_source(place.name, place.position)
            return
        if self.splitter.checksum and not checked:
            raise _damaged(EventType.ROTATE)
        self._drop_open()
        self.writer.append_rotate(event, place.name, place.position)

    def _heartbeat(self, event: bytes) -> None:
        heartbeat = parse_heartbeat(event)
        writer = self.writer
        name, position = heartbeat.file, heartbeat.position
        if event[4] == EventType.HEARTBEAT:  # version 1 has no more than 32 bits
            position = unwrapped(position, writer.source_position)
        if _is_before((name, position), (writer.source_file, writer.source_position)):
            raise LogError(
                f"Unexpected source's heartbeat data: it is at {name}:{position}, behind"
                f" {writer.source_file}:{writer.source_position}, which was received already",
                number=13118,
                hint="was the source RESET? then begin with a new relay folder",
            )
        self.heartbeats += 1
        self.last_heartbeat = time.time()


def _is_before(place: tuple[str, int], other: tuple[str, int]) -> bool:
    """Return whether one place of the source precedes another; False for logs of other names."""
    (stem, number), (other_stem, other_number) = split_name(place[0]), split_name(other[0])
    return stem == other_stem and (number, place[1]) < (other_number, other[1])


def _damaged(kind: int) -> SourceLostError:
    return SourceLostError(
        "Replication event checksum verification failed while reading from network"
        f" (a {EventType(kind).name} event)",
        hint="it is fetched again; if it comes back, check the source's log",
    )
