"""The packet splitter: any cut of the stream gives the same events, and damage is found."""

from __future__ import annotations

import random
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_repl.binlog.event_types import EventType
from spark_repl.errors import SourceLostError
from spark_repl.gtid import format_gtid
from spark_repl.receiver.packet import PACKET_MAX, EventRun, PacketSplitter, Reply, Special
from tests.support.binlog_writer import LogWriter, Table, insert, update
from tests.support.dump_stream import events_of, packets

_TABLE = Table("a")


class Sink:
    """Takes what a splitter yields, as a writer would."""

    def __init__(self) -> None:
        self.data, self.ends, self.gtids = bytearray(), list[int](), list[str]()
        self.specials, self.replies, self.positions = list[int](), list[bytes](), list[int]()

    def take(self, splitter: PacketSplitter) -> None:
        for found in splitter.events():
            if isinstance(found, Special):
                self.specials.append(found.type)
                if found.type == EventType.FORMAT_DESCRIPTION:
                    splitter.described(checksum=True)
            elif isinstance(found, Reply):
                self.replies.append(found.payload)
            else:
                self._batch(found)

    def _batch(self, batch: EventRun) -> None:
        self.ends += [len(self.data) + int(end) for end in batch.ends]
        self.data += batch.data
        for uuid, tag, gno in zip(batch.uuids, batch.tags, batch.gnos, strict=True):
            self.gtids.append(format_gtid(uuid.tobytes(), tag.decode(), int(gno)))
        self.positions += batch.positions.tolist()


def feed(
    stream: bytes, cuts: list[int], *, sizes: list[int] | None = None, semi_sync: bool = False
) -> Sink:
    """``sizes``: of the splitter's output, after each part."""
    splitter, sink, at = PacketSplitter(semi_sync=semi_sync), Sink(), 0
    for cut in [*sorted(cuts), len(stream)]:
        while at < cut:
            space = splitter.space()
            n = min(len(space), cut - at)
            space[:n] = stream[at : at + n]
            at += n
            splitter.received(n)
            sink.take(splitter)
            if sizes is not None:
                sizes.append(len(splitter._out))
    return sink


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    log = LogWriter(tmp_path_factory.mktemp("log"))
    log.ddl(_TABLE.create)
    for i in range(12):
        log.transaction(insert(_TABLE, (i, "x" * (i * 9))), update(_TABLE, ((1, "a"), (1, "b"))))
    log.ddl("DROP TABLE t.b")
    return list(events_of(log.path))


def check(sink: Sink, events: list[bytes]) -> None:
    special = (EventType.FORMAT_DESCRIPTION, EventType.PREVIOUS_GTIDS)
    plain = [e for e in events if e[4] not in special]
    assert bytes(sink.data) == b"".join(plain)
    assert sink.specials == list(special)
    assert len(sink.gtids) == 14 and sink.gtids[-1].endswith(":14")
    assert sink.ends[-1] == len(sink.data) and sorted(set(sink.ends)) == sink.ends
    assert sink.positions[-1] == int.from_bytes(plain[-1][13:17], "little")


@settings(max_examples=60)
@given(st.data())
def test_any_cut_gives_the_same(events: list[bytes], data: st.DataObject) -> None:
    semi_sync = data.draw(st.booleans())
    stream = packets(events, semi_sync=semi_sync)
    cuts = data.draw(st.lists(st.integers(1, len(stream)), max_size=30))
    check(feed(stream, cuts, semi_sync=semi_sync), events)


def test_a_stream_fed_byte_by_byte_gives_the_same_events(events: list[bytes]) -> None:
    stream = packets(events)
    check(feed(stream, list(range(1, len(stream)))), events)


@pytest.mark.parametrize("extra", [-2, -1, 0, 1, 5000])
def test_events_around_the_packet_limit_are_joined(events: list[bytes], extra: int) -> None:
    """Scenario 100: a row event (streamed) and a statement (held whole) of 16 MB and around; what
    they took is given back."""
    big = []
    for event in events:
        if event[4] in (EventType.WRITE_ROWS,) and not big:
            big.append(_grown(event, PACKET_MAX - 1 + extra))
        elif event[4] == EventType.QUERY and event[-16:-4] == b"ROP TABLE t.":
            big.append(_grown(event, 2 * PACKET_MAX - 1 + extra))
        else:
            big.append(event)
    big[-1] = _grown(big[-1], PACKET_MAX - 1 + extra)
    stream = packets(big)
    rng = random.Random(extra)
    sizes = list[int]()
    check(feed(stream, [rng.randrange(len(stream)) for _ in range(40)], sizes=sizes), big)
    assert max(sizes) > PACKET_MAX > sizes[-1]


def _grown(event: bytes, size: int) -> bytes:
    body = bytearray(event[:-4] + b" " * (size - len(event)))
    body[9:13] = size.to_bytes(4, "little")
    return bytes(body) + zlib.crc32(body).to_bytes(4, "little")


def test_each_flipped_byte_is_found(events: list[bytes]) -> None:
    """Scenario 161: in events, not in packet headers: there a flip is a broken connection, or
    EOF."""
    small = events[:8]
    stream = packets(small)
    want = b"".join(small[2:])
    at = len(packets(small[:2])) + 4 + 1
    for offset in range(at, len(stream)):
        bad = bytearray(stream)
        bad[offset] ^= 0x10
        try:
            sink = feed(bytes(bad), [])
        except SourceLostError:
            continue
        assert len(sink.data) < len(want) and want.startswith(bytes(sink.data))


def test_replies_end_the_stream_and_broken_packets_are_errors(events: list[bytes]) -> None:
    error = b"\xff\xd4\x04#HY000Binary log is not open"
    end = b"\xfe\x00\x00\x02\x00"
    stream = packets(events)
    count = len(events) + 1
    for payload in (error, end):
        last = len(payload).to_bytes(3, "little") + bytes([count]) + payload
        sink = feed(stream + last, [len(stream) + 6])
        assert sink.replies == [payload]
    with pytest.raises(SourceLostError, match="out of order"):
        feed(packets(events[:2]) + packets(events[2:], sequence=7), [])
    with pytest.raises(SourceLostError, match="no event"):
        feed(b"\x05\x00\x00\x01\x00abcd" + stream, [])
    without_begin = [*events[:5], *events[6:]]
    twice = [*events[:3], *events[2:]]
    for broken in (twice, without_begin):
        with pytest.raises(SourceLostError, match="can't stand here"):
            feed(packets(broken), [])


def test_a_transaction_can_be_forgotten_in_its_middle(events: list[bytes]) -> None:
    splitter = PacketSplitter()
    stream = packets(events[:5])
    splitter.space()[: len(stream)] = stream
    splitter.received(len(stream))
    sink = Sink()
    sink.take(splitter)
    assert splitter.inside
    splitter.forget_transaction()
    assert not splitter.inside
    assert np.all(np.diff(sink.ends) > 0)
