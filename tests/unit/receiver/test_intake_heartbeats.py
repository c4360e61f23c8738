"""Heartbeats of a source: between any events, of both versions, and those that can't be true."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_repl.errors import LogError
from spark_repl.gtid import GtidSet
from spark_repl.receiver.intake import Intake
from spark_repl.receiver.writer import RelayWriter
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.dump_stream import dump, event, feed, heartbeat, packets, receive

A, GIB = Table("a"), 1 << 30


def second_version(name: str, position: int) -> bytes:
    text = b"\x01" + bytes([len(name)]) + name.encode()
    return event(41, text + b"\x02\x09\xfe" + struct.pack("<Q", position) + b"\0")


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    """Two files."""
    made = LogWriter(tmp_path / "source")
    made.ddl(A.create)
    for key in range(6):
        made.transaction(insert(A, (key, "x")))
        if key == 2:
            made.rotate()
    return made


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[RelayWriter]:
    with RelayWriter(tmp_path / "relay", 9) as opened:
        yield opened


def test_between_any_two_events_they_leave_no_trace(
    log: LogWriter, writer: RelayWriter, tmp_path: Path
) -> None:
    """Scenario 94: a source under load beats, too, for what it skips; inside of no transaction, but
    ours would stand that."""
    files = sorted(log.folder.iterdir())
    with RelayWriter(tmp_path / "plain", 9) as plain:
        receive(plain, files)
    beaten = list[bytes]()
    at: tuple[str, int] = "", 4
    for one in dump(files):
        beaten.append(one)
        if one[4] == 4:
            at = one[27:-4].decode(), 4
        at = at[0], max(at[1], int.from_bytes(one[13:17], "little")) if one[4] != 4 else at[1]
        beaten.append((heartbeat, second_version)[len(beaten) // 2 % 2](*at))
    intake = Intake(writer)
    feed(intake, packets(beaten))
    writer.sync()
    assert intake.heartbeats == len(beaten) // 2 > 20
    assert writer.received == GtidSet.parse(f"{log.source}:1-7")
    logs = [(tmp_path / d / "relay.000001").read_bytes() for d in ("relay", "plain")]
    assert without_heads(logs[0]) == without_heads(logs[1])


def without_heads(log: bytes) -> list[bytes]:
    """Events as they came, without those that the receiver made: they bear the time of the day."""
    events, at = [], 4
    while at < len(log):
        size = int.from_bytes(log[at + 9 : at + 13], "little")
        events.append(log[at : at + size])
        at += size
    return [one for one in events if one[4] not in (15, 4)]


@pytest.mark.parametrize("ahead", [0, 1, GIB])
@pytest.mark.parametrize("at", [1000, 3 * GIB, 5 * GIB, 9 * GIB])
def test_of_a_file_larger_than_4_gib(writer: RelayWriter, at: int, ahead: int) -> None:
    """Scenario 97: version 1 has the low 32 bits of a place, and skipped transactions may have led
    far away from what was received last; version 2 has all of it."""
    intake = Intake(writer)
    writer.begin_source("bin.000007", at)
    for beat in (heartbeat("bin.000007", (at + ahead) % (4 * GIB)),
                 second_version("bin.000007", at + ahead)):  # fmt: skip
        feed(intake, packets([beat], sequence=intake.heartbeats + 1))
    assert intake.heartbeats == 2


@pytest.mark.parametrize("at", [1000, 5 * GIB])
@pytest.mark.parametrize(
    ("name", "behind"), [("bin.000007", 1), ("bin.000007", 900), ("bin.000006", -GIB)]
)
@pytest.mark.parametrize("version", [1, 2])
def test_a_heartbeat_behind_the_received_position_is_13118(
    writer: RelayWriter, at: int, name: str, behind: int, version: int
) -> None:
    """Scenario 98: a place, or a file, that lies before what the receiver has is MySQL's 13118."""
    intake = Intake(writer)
    writer.begin_source("bin.000007", at)
    position = at - behind
    beat = second_version(name, position) if version == 2 else heartbeat(name, position % (4 * GIB))
    with pytest.raises(LogError, match="Unexpected source's heartbeat data") as caught:
        feed(intake, packets([beat]))
    assert caught.value.number == 13118 and f"{name}:{position}" in str(caught.value)
    assert intake.heartbeats == 0


def test_a_heartbeat_of_the_next_file_is_accepted(writer: RelayWriter) -> None:
    """Scenario 98: a name ahead is the source's; so is another one, where its log_bin changed."""
    intake = Intake(writer)
    writer.begin_source("bin.000009", 5000)
    for name in ("bin.000010", "other.000001"):
        feed(intake, packets([heartbeat(name, 4)], sequence=1 + intake.heartbeats))
    assert intake.heartbeats == 2
