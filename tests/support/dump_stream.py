"""What a source would send for a dump request, made from the files of ``binlog_writer``."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from spark_repl.binlog.event_types import EventType
from spark_repl.binlog.events.event import parse_gtid
from spark_repl.gtid import GtidSet
from spark_repl.receiver.intake import Intake
from spark_repl.receiver.packet import PACKET_MAX
from spark_repl.receiver.writer import RelayWriter

_GTIDS = (EventType.GTID, EventType.GTID_TAGGED)


def events_of(path: Path) -> Iterator[bytes]:
    data, at = path.read_bytes(), 4
    while at < len(data):
        length = int.from_bytes(data[at + 9 : at + 13], "little")
        yield data[at : at + length]
        at += length


def event(kind: int, body: bytes, *, flags: int = 0, end: int = 0) -> bytes:
    data = struct.pack("<IBIIIH", 0, kind, 1, 23 + len(body), end, flags) + body
    return data + zlib.crc32(data).to_bytes(4, "little")


def rotate(name: str, position: int = 4) -> bytes:
    return event(EventType.ROTATE, struct.pack("<Q", position) + name.encode(), flags=0x20)


def heartbeat(name: str, position: int) -> bytes:
    return event(EventType.HEARTBEAT, name.encode(), end=position)


def dump(files: Sequence[Path], have: GtidSet | None = None) -> Iterator[bytes]:
    """The events: what is in ``have`` is left out, as with auto-position.

    It begins with the newest file before which nothing is missing.
    """
    first = 0
    for i, path in enumerate(files if have else ()):
        previous = next(e for e in events_of(path) if e[4] == EventType.PREVIOUS_GTIDS)
        if have and GtidSet.decode(previous[19:-4]).issubset(have):
            first = i
    for path in files[first:]:
        yield rotate(path.name)
        skipping = False
        for found in events_of(path):
            if found[4] in _GTIDS and have is not None:
                skipping = have.contains(str(parse_gtid(found[4], found[19:-4])))
            if not skipping or found[4] in (EventType.ROTATE, EventType.FORMAT_DESCRIPTION):
                yield found


def dump_at(files: Sequence[Path], name: str, position: int) -> Iterator[bytes]:
    """The events behind a place of the source, as COM_BINLOG_DUMP brings them; "": all."""
    first = next((i for i, path in enumerate(files) if path.name == name), 0)
    for path in files[first:]:
        start = position if path == files[first] else 4
        yield rotate(path.name, start)
        at = 4
        for found in events_of(path):
            if at >= start or found[4] == EventType.FORMAT_DESCRIPTION:
                yield found
            at += len(found)


def packets(events: Sequence[bytes], *, semi_sync: bool = False, sequence: int = 1) -> bytes:
    out = bytearray()
    for one in events:
        payload = (b"\0\xef\x01" if semi_sync else b"\0") + one
        while True:
            part, payload = payload[:PACKET_MAX], payload[PACKET_MAX:]
            out += len(part).to_bytes(3, "little") + bytes([sequence & 0xFF]) + part
            sequence += 1
            if len(part) < PACKET_MAX:
                break
    return bytes(out)


def feed(intake: Intake, stream: bytes, step: int = 1 << 20) -> None:
    for at in range(0, len(stream), step):
        part = stream[at : at + step]
        while part:
            space = intake.splitter.space()
            n = min(len(space), len(part))
            space[:n] = part[:n]
            part = part[n:]
            intake.splitter.received(n)
            intake.write_events()


def receive(writer: RelayWriter, files: Sequence[Path], step: int = 1 << 20) -> None:
    """One connection from where the writer is to the end of the files."""
    writer.drop_open()
    stream = packets(list(dump(files, writer.received)))
    feed(Intake(writer), stream, step)
    writer.sync()


def receive_at(writer: RelayWriter, files: Sequence[Path]) -> None:
    """The same by file and position."""
    writer.drop_open()
    stream = packets(list(dump_at(files, writer.source_file, writer.source_position)))
    feed(Intake(writer, by_file=True), stream)
    writer.sync()


def looks_cut(whole: bytes, flipped: int) -> bool:
    """Whether the flipped bit makes an event longer than what is left of the file."""
    at = 4
    while at + (length := int.from_bytes(whole[at + 9 : at + 13], "little")) <= flipped:
        at += length
    field = bytearray(whole[at + 9 : at + 13])
    if not at + 9 <= flipped < at + 13:
        return False
    field[flipped - at - 9] ^= 1
    return at + int.from_bytes(field, "little") > len(whole)
