"""A receiver on one connection that is there in a test alone: what it reads is given, what it says
is noted."""

from __future__ import annotations

import errno
import itertools
import os
import random
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_repl.config import Config, Source
from spark_repl.errors import (
    LogError,
    SecretError,
    SourceError,
    SourceLostError,
    SparkReplError,
)
from spark_repl.observe.screen import _receiver
from spark_repl.position import RelayPosition
from spark_repl.receiver.archiver import Archiver
from spark_repl.receiver.intake import Intake
from spark_repl.receiver.purge import purge
from spark_repl.receiver.receiver import Receiver
from spark_repl.receiver.report import read_report
from spark_repl.receiver.writer import RelayWriter
from spark_repl.relay.archive import RelayArchive
from spark_repl.relay.index import build_index
from spark_repl.relay.log import open_log
from spark_repl.relay.published_end import read_end
from spark_repl.source.dump import error_of
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.dump_stream import dump, feed, heartbeat, packets, receive

A, XID = Table("a"), 16
WIDE = Table("wide", (("id", "int"), ("v", "varchar(1000)")))


class Wire:
    """Gives ``reads``, one at a time, None: nothing in time, b"": nothing any more; ``sent``:
    (place, what was published then); ``waits``: how long each was waited for at most; ``answers``:
    is called before each read."""

    def __init__(
        self, folder: Path, reads: Sequence[bytes | None],
        answers: Callable[[], object] = lambda: None,
    ) -> None:  # fmt: skip
        self.folder, self.reads, self.answers = folder, list(reads), answers
        self.waits = list[float]()
        self.sent = list[tuple[str, int, int]]()

    def read_into(self, space: memoryview, timeout_s: float) -> int:
        self.waits.append(timeout_s)
        self.answers()
        if self.reads[0] is None:
            self.reads.pop(0)
            return 0
        if not self.reads[0]:
            return 0
        count = min(len(space), len(self.reads[0]))
        space[:count] = self.reads[0][:count]
        self.reads[0] = self.reads[0][count:]
        if not self.reads[0]:
            self.reads.pop(0)
        return count

    def has_more(self) -> bool:
        return bool(self.reads)

    def send(self, payload: bytes) -> None:
        (position,) = struct.unpack_from("<Q", payload, 1)
        end = read_end(self.folder)
        assert payload[:1] == b"\xef" and end is not None
        self.sent.append((payload[9:].decode(), position, end.transactions))


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    made = LogWriter(tmp_path / "source")
    made.ddl(A.create)
    for key in range(12):
        made.transaction(insert(A, (key, "x" * 9 * key)), compressed=key % 3 == 1)
    return made


def follow(
    wire: Wire,
    *,
    semi_sync: bool = False,
    net_timeout_s: float = 60,
    relay: Mapping[str, int] = {},
    keep_on: Callable[[], bool] | None = None,
) -> Receiver:
    """To the end of what the wire gives."""
    config = Config.from_mapping({"relay": {"path": str(wire.folder), **relay}})
    source = replace(config.source, semi_sync=semi_sync, net_timeout_s=net_timeout_s)  # type: ignore[arg-type]
    config = replace(config, source=source)
    receiver = Receiver(config, keep_on=keep_on or (lambda: bool(wire.reads)))
    with receiver.writer:
        receiver._receive(wire, Intake(receiver.writer, semi_sync=semi_sync))  # type: ignore[arg-type]
    return receiver


def waiting(events: Sequence[bytes]) -> bytes:
    """Of a semi-synchronous source: it waits for each transaction's end, and counts again."""
    out = bytearray()
    for one in events:
        asks = one[4] in (XID, 40) or (one[4] == 2 and b"CREATE" in one)
        payload = b"\0\xef" + bytes([asks]) + one
        out += len(payload).to_bytes(3, "little") + b"\1" + payload
    return bytes(out)


def receive_at(folder: Path, log: LogWriter) -> None:
    """Receive a source's log."""
    with RelayWriter(folder, 9) as writer:
        receive(writer, [log.path])


class _ArchiveWire(Wire):
    """Notes also how far the archive was at each acknowledgement."""

    def __init__(self, folder: Path, reads: Sequence[bytes | None], archiver: Archiver) -> None:
        # So that reads do not run out before the archive has what they brought.
        super().__init__(folder, reads, lambda: time.sleep(0.001))
        self.archiver, self.archived = archiver, list[int]()

    def send(self, payload: bytes) -> None:
        super().send(payload)
        assert self.archiver.archived is not None
        self.archived.append(self.archiver.archived.position.packed)


def test_an_acknowledgement_waits_for_the_archive(log: LogWriter, tmp_path: Path) -> None:
    stream = waiting(list(dump([log.path])))
    reads = [stream[at : at + 700] for at in range(0, len(stream), 700)]
    folder, last = tmp_path / "relay", log.spans[-1][-1]
    archive = RelayArchive(str(tmp_path / "archive"))
    archiver = Archiver(folder, archive, "lake", chunk_bytes=1 << 20, after_s=3600)
    wire = _ArchiveWire(folder, [*reads, *[None] * 100_000], archiver)
    config = Config.from_mapping({"relay": {"path": str(folder), "archive_before_ack": True}})
    until = time.monotonic() + 60

    def keep_on() -> bool:
        assert time.monotonic() < until
        return not wire.sent or wire.sent[-1][1] != last

    receiver = Receiver(config, keep_on=keep_on, archiver=archiver)
    with receiver.writer, archiver:
        receiver._receive(wire, Intake(receiver.writer, semi_sync=True))  # type: ignore[arg-type]
    ends = build_index(open_log(str(folder)), str(tmp_path / "index")).records["end"]
    places = {end: number + 1 for number, (_, _, end) in enumerate(log.spans)}
    for (_, position, _), archived in zip(wire.sent, wire.archived, strict=True):
        assert (ends <= archived).sum() >= places[position]


def test_without_the_archive_nothing_is_acknowledged(log: LogWriter, tmp_path: Path) -> None:
    """The source waits for its timeout. Receiving goes on."""
    stream = waiting(list(dump([log.path])))
    folder = tmp_path / "relay"
    (tmp_path / "archive").write_text("a file, where a folder has to be")
    archive = RelayArchive(str(tmp_path / "archive"))
    archiver = Archiver(folder, archive, "lake", chunk_bytes=1 << 20, after_s=0)
    wire = Wire(folder, [stream, *[None] * 10])
    config = Config.from_mapping({"relay": {"path": str(folder), "archive_before_ack": True}})
    receiver = Receiver(config, keep_on=lambda: bool(wire.reads), archiver=archiver)
    with receiver.writer, archiver:
        receiver._receive(wire, Intake(receiver.writer, semi_sync=True))  # type: ignore[arg-type]
    assert not wire.sent and receiver.writer.transactions == len(log.spans)
    assert archiver.error and archiver.columns["ARCHIVE_ERROR_MESSAGE"] == archiver.error


def test_a_reconnecting_receiver_first_archives_what_it_has(log: LogWriter, tmp_path: Path) -> None:
    """A semi-synchronous source takes the request for a dump as an acknowledgement of what precedes
    it. Found: it was sent although that was not archived."""
    folder, place = tmp_path / "relay", tmp_path / "archive"
    receive_at(folder, log)
    place.write_text("a file, where a folder has to be")
    values = {"relay": {"path": str(folder), "archive_before_ack": True}}
    config = Config.from_mapping({**values, "source": {"semi_sync": True}})
    looks = iter(range(20))
    for keep_on in (lambda: next(looks, None) is not None, lambda: True):
        archiver = Archiver(folder, RelayArchive(str(place)), "lake", chunk_bytes=99, after_s=3600)
        receiver = Receiver(config, keep_on=keep_on, archiver=archiver)
        with receiver.writer, archiver:
            receiver._await_archive()
            whole = RelayPosition(receiver.writer.number, receiver.writer.whole)
            assert archiver.has(receiver.writer.log_id, whole) != place.is_file()
        report = read_report(folder)
        assert report is not None and report["SERVICE_DOING"] == "waiting for relay.archive"
        place.unlink(missing_ok=True) if place.is_file() else None


@pytest.mark.parametrize("seed", range(8))
def test_each_transaction_that_the_source_waits_for_is_acknowledged(
    log: LogWriter, tmp_path: Path, seed: int
) -> None:
    """Scenario 119: behind its publication, and wherever a read ends: the source would wait for its
    timeout, and then do without."""
    stream, rng = waiting(list(dump([log.path]))), random.Random(seed)
    cuts = sorted(rng.sample(range(1, len(stream)), 60))
    reads = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    wire = Wire(tmp_path / "relay", reads)
    follow(wire, semi_sync=True)
    places = {end: number + 1 for number, (_, _, end) in enumerate(log.spans)}
    told = [(places[position], published) for _, position, published in wire.sent]
    assert all(file == log.path.name for file, _, _ in wire.sent)
    assert all(number <= published for number, published in told), "on disk, then told"
    assert [number for number, _ in told] == sorted({number for number, _ in told})
    assert told[-1][0] == len(log.spans)


def test_a_transaction_is_acknowledged_once_it_is_whole(log: LogWriter, tmp_path: Path) -> None:
    """Scenario 119: a read ends inside of the event that the source waits for, behind one that it
    waits for, too."""
    stream = waiting(list(dump([log.path])))
    for inside in (4, 9, 30):
        wire = Wire(tmp_path / f"relay{inside}", [stream[:-inside], stream[-inside:]])
        follow(wire, semi_sync=True)
        assert wire.sent[-1][1] == log.spans[-1][2]


@pytest.mark.parametrize("space", [0, 9000])
def test_what_is_published_already_is_acknowledged(tmp_path: Path, space: int) -> None:
    """Scenario 119: a client commits and waits, so no later transaction comes. Its transaction
    fills the file, and the rotation publishes it, or fills the whole log, which has to be purged
    first."""
    log = LogWriter(tmp_path / "source")
    for key in range(24):
        log.transaction(insert(WIDE, (key, "x" * 900)))
    folder, reads, part = tmp_path / "relay", list[bytes | None](), list[bytes]()
    for one in dump([log.path]):
        part.append(one)
        if one[4] == XID:
            reads += [waiting(part), None]
            part = []
    wire, looks = Wire(folder, reads), itertools.count()

    def go_on() -> bool:
        given = (len(reads) - len(wire.reads) + 1) // 2
        if read_end(folder) and len(wire.sent) == given:
            purge(folder, 1 << 30)
        assert next(looks) < 200, "the source waits for an answer, and we for a purge"
        return bool(wire.reads)

    relay = {"segment_size_bytes": 4096, "space_limit_bytes": space}
    receiver = follow(wire, semi_sync=True, relay=relay, keep_on=go_on)
    assert [position for _, position, _ in wire.sent] == [end for _, _, end in log.spans]
    assert receiver.writer.number > 4


def test_silence_is_a_lost_connection(
    log: LogWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenario 95: neither event nor heartbeat for net_timeout_s; heartbeats are enough."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def pass_time() -> None:
        now[0] += 10

    events = list(dump([log.path]))
    beat = heartbeat(log.path.name, log.path.stat().st_size)
    beats = list[bytes | None]()
    for number in range(60):
        beats += [packets([beat], sequence=len(events) + 1 + number), None]
    wire = Wire(tmp_path / "relay", [packets(events), *beats], pass_time)
    receiver = follow(wire, net_timeout_s=30)
    assert receiver.writer.published_transactions == len(log.spans)
    wire = Wire(tmp_path / "silent", [packets(events), b""], pass_time)
    with pytest.raises(SourceLostError, match="no event and no heartbeat for") as caught:
        follow(wire, net_timeout_s=30)
    assert caught.value.number == 2013 and len(wire.waits) == 1 + 4, "30 s, and one look more"


def test_the_next_attempt_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """In the warning, and with its time in the report while it is waited for."""
    config = Config.from_mapping({"relay": {"path": str(tmp_path / "relay")}})
    source = replace(config.source, port=1, connect_retry_count=2, connect_retry_s=1)
    reports: list[dict[str, Any]] = []

    def keep_on() -> bool:
        found = read_report(tmp_path / "relay")
        if found and found["SERVICE_STATE"] == "CONNECTING" and found not in reports:
            reports.append(found)
        return True

    receiver = Receiver(replace(config, source=source), keep_on=keep_on)
    with pytest.raises(SourceError, match="gave up after 2 attempts"):
        receiver.run()
    said = [one for one in caplog.messages if one.startswith("source 127.0.0.1:1: ")]
    assert [one.rpartition("; ")[2] for one in said] == [
        "next attempt in 0.05 s", "next attempt in 1 s",
    ]  # fmt: skip
    failed, again = (
        datetime.fromisoformat(reports[1][key]) for key in ("LAST_ERROR_TIMESTAMP", "NEXT_ATTEMPT")
    )
    assert again - failed >= timedelta(seconds=1)
    shown = list(_receiver({"replication_connection_status": [reports[1]]}))
    assert f"  NEXT_ATTEMPT              {reports[1]['NEXT_ATTEMPT']}" in shown
    ended = read_report(tmp_path / "relay")
    assert ended is not None and ended["NEXT_ATTEMPT"] == ""


@pytest.mark.parametrize(("interval_ms", "pending_s"), [(300, 0.3), (60_000, 0.5)])
def test_it_wakes_for_what_is_to_be_published_and_rests_otherwise(
    log: LogWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interval_ms: int,
    pending_s: float,
) -> None:  # fmt: skip
    """A source that says nothing costs two looks a second; what waits for its publication is not
    waited beyond it, nor looked for without a pause."""
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    wire = Wire(tmp_path / "relay", [None, packets(list(dump([log.path]))), None, None])
    follow(wire, relay={"sync_interval_ms": interval_ms})
    idle, first, *waiting = wire.waits
    assert idle == first == 0.5
    assert waiting == [pytest.approx(pending_s)] * 2


class Breaking(Receiver):
    """Each of ``left`` connections brings a transaction of the log's, and breaks; then none is
    made."""

    def __init__(self, config: Config, log: LogWriter, left: int) -> None:
        super().__init__(config)
        self._log, self._left = log, left

    def _session(self, source: Source) -> None:
        if self._left:
            self._left -= 1
            self._log.transaction(insert(A, (self._left, "x")))
            feed(Intake(self.writer), packets(list(dump([self._log.path], self.writer.received))))
        raise SourceLostError("the connection is gone")


class Rotating(Breaking):
    """The account is refused by each of ``errors`` behind the first connection, then let in."""

    def __init__(self, config: Config, log: LogWriter, errors: list[SparkReplError]) -> None:
        super().__init__(config, log, 2)
        self.errors = errors

    def _session(self, source: Source) -> None:
        if self.writer.log_id and self.errors:
            raise self.errors.pop(0)
        super()._session(source)


def test_an_account_whose_secret_is_replaced_is_tried_again(tmp_path: Path) -> None:
    """The source first, the file seconds later; with what is read in between."""
    config = Config.from_mapping({"relay": {"path": str(tmp_path / "relay")}})
    source = replace(config.source, connect_retry_count=6, connect_retry_s=0)
    errors = [error_of(number, "refused") for number in (1045, 3118, 1862, 1227)]
    receiver = Rotating(
        replace(config, source=source),
        LogWriter(tmp_path / "source"),
        [*errors, SecretError("no password file")],
    )
    with pytest.raises(SourceError, match="gave up after 6 attempts: the connection is gone"):
        receiver.run()
    assert receiver.writer.transactions == 2 and not receiver.errors


def test_an_account_that_stays_refused_is_given_up(tmp_path: Path) -> None:
    config = Config.from_mapping({"relay": {"path": str(tmp_path / "relay")}})
    source = replace(config.source, connect_retry_count=2, connect_retry_s=0)
    errors: list[SparkReplError] = [error_of(1045, "Access denied") for _ in range(9)]
    receiver = Rotating(replace(config, source=source), LogWriter(tmp_path / "source"), errors)
    with pytest.raises(SourceError, match="gave up after 2 attempts: Access denied") as caught:
        receiver.run()
    assert caught.value.number == 1045 and "password" in str(caught.value.hint)


class Refused(Receiver):
    """Its log's folder takes no new file from the first connection on."""

    def _session(self, source: Source) -> None:
        self.report.write("ON", self.writer)
        (self.folder / f"receiver.json.{os.getpid()}.part").mkdir()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.folder / "relay.end"))


def test_a_report_is_written_where_there_is_no_room_for_a_new_file(tmp_path: Path) -> None:
    """In the place of the one before: else `status` would not know what has ended the receiver."""
    config = Config.from_mapping({"relay": {"path": str(tmp_path / "relay")}})
    with pytest.raises(LogError, match="can't write the relay log: No space left") as caught:
        Refused(config).run()
    assert "make room" in str(caught.value.hint)
    report = read_report(tmp_path / "relay")
    assert report is not None and report["SERVICE_STATE"] == "OFF"
    assert report["LAST_ERROR_MESSAGE"] == str(caught.value)
    assert report["LAST_ERROR_HINT"] == caught.value.hint


def test_attempts_are_counted_since_something_was_received(tmp_path: Path) -> None:
    """A source that breaks each connection, but gives something, is not given up."""
    config = Config.from_mapping({"relay": {"path": str(tmp_path / "relay")}})
    source = replace(config.source, connect_retry_count=1, connect_retry_s=0)
    receiver = Breaking(replace(config, source=source), LogWriter(tmp_path / "source"), 5)
    with pytest.raises(SourceError, match="gave up after 1 attempts: the connection is gone"):
        receiver.run()
    assert receiver.writer.transactions == 5


@pytest.mark.parametrize(
    ("place", "asked"), [(None, ("bin.000007", 157)), (("bin.000009", 4), ("bin.000009", 4))]
)
def test_a_new_log_begins_where_the_target_is_or_else_where_the_file_says(
    tmp_path: Path, place: tuple[str, int] | None, asked: tuple[str, int]
) -> None:
    config = Config.from_mapping({"relay": {"path": str(tmp_path / "relay")}})
    source = replace(
        config.source, port=1, auto_position=False, log_file="bin.000007", log_position=157,
        connect_retry_count=0,
    )  # fmt: skip
    receiver = Receiver(replace(config, source=source), place=place)
    with pytest.raises(SourceError, match="gave up"):
        receiver.run()
    assert (receiver.writer.source_file, receiver.writer.source_position) == asked
