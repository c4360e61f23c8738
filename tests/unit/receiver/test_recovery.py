"""What a receiver finds when it starts: heads that are cut, lists and files that are gone."""

from __future__ import annotations

import errno
import os
import shutil
import struct
import time
from pathlib import Path

import numpy as np
import pytest

from spark_repl.binlog.event_types import EventType
from spark_repl.errors import LogError
from spark_repl.position import MAX_FILE_NO, RelayPosition
from spark_repl.receiver import writer
from spark_repl.receiver.intake import Intake
from spark_repl.receiver.purge import purge
from spark_repl.receiver.recovery import _controls, numbers_in, recover
from spark_repl.receiver.writer import Limits, RelayWriter
from spark_repl.relay import file_list
from spark_repl.relay.index import build_index
from spark_repl.relay.log import open_log
from spark_repl.relay.published_end import NAME, End, EndWriter, read_end
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.dump_stream import dump, events_of, feed, packets, receive

T = Table("a")
COUNT = 30


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Many small files."""
    log = LogWriter(tmp_path_factory.mktemp("source"))
    log.ddl(T.create)
    for i in range(COUNT - 1):
        log.transaction(insert(T, (i, "x" * 40)))
        if i % 3 == 0 or 18 < i < COUNT - 2:
            log.rotate()
    return sorted(log.folder.iterdir())


@pytest.fixture(scope="module")
def whole(source: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A receiver's log of several files."""
    folder = tmp_path_factory.mktemp("whole") / "relay"
    with opened(folder, 2000) as relay:
        receive(relay, source)
        assert relay.number > 4
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy of that log."""
    return Path(shutil.copytree(whole, tmp_path / "relay"))


def opened(folder: Path, size: int = 1 << 30, space: int = 0) -> RelayWriter:
    return RelayWriter(folder, 4711, Limits(size, space))


def count_in(folder: Path) -> int:
    return len(build_index(open_log(str(folder)), f"{folder}-index"))


def listed(folder: Path) -> tuple[int, ...]:
    found = file_list.read_list(folder)
    return found.numbers if found else ()


def test_more_files_of_the_source_than_were_expected(source: list[Path], tmp_path: Path) -> None:
    # Scenario 115: many rotations, with starts between.
    folder = tmp_path / "relay"
    assert len(source) > 16, "of which each has two events of its own"
    half = len(source) // 2
    last = source[-1]
    for files, place in (
        (source[:half], (source[half].name, 4)),
        (source, (last.name, last.stat().st_size)),
    ):
        with opened(folder) as relay:
            receive(relay, files)
        with opened(folder) as relay:
            assert relay.lost is None
            assert (relay.source_file, relay.source_position) == place
    assert count_in(folder) == COUNT


def test_a_log_is_published_as_soon_as_it_begins(source: list[Path], tmp_path: Path) -> None:
    """Else readers would take it for a recorded one, whose end is that of its file."""
    folder = tmp_path / "relay"
    with opened(folder) as relay:
        for _ in range(2):
            feed(Intake(relay), packets(list(dump(source))[:2]))
            end = read_end(folder)
            assert end is not None and end.log_id == relay.log_id != ""
            relay.renew(relay.received)


def test_a_stop_leaves_no_trace(source: list[Path], tmp_path: Path) -> None:
    """Scenario 117: the source begins each connection with what the log has last: its file and
    format."""
    folder = tmp_path / "relay"
    sizes = set()
    for _ in range(3):
        with opened(folder) as relay:
            receive(relay, source)
            sizes.add(relay.size)
    assert len(sizes) == 1


def test_a_head_that_is_cut(folder: Path, source: list[Path], tmp_path: Path) -> None:
    """Of a rotation, as a crash of the machine leaves it: the file before it goes on."""
    *_, before, last = listed(folder)
    head = open_log(str(folder)).head(last).length
    (folder / NAME).unlink()
    for size in range(0, head, 23):
        copy = Path(shutil.copytree(folder, tmp_path / f"copy{size}"))
        os.truncate(copy / file_list.file_name(last), size)
        with opened(copy, 2000) as relay:
            assert relay.number == before and relay.lost is None
            assert numbers_in(copy) and listed(copy)[-1] == before == max(numbers_in(copy))
            receive(relay, source)
        assert count_in(copy) == COUNT


def test_a_log_without_a_whole_head_is_begun_anew(source: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "relay"
    with opened(folder) as relay:
        receive(relay, source[:2])
    os.truncate(folder / "relay.000001", 50)
    with opened(folder) as relay:
        assert (relay.log_id, relay.received.count()) == ("", 0)
        receive(relay, source)
        assert relay.number == 2
    assert count_in(folder) == COUNT
    assert numbers_in(folder) == [2]


def test_what_a_rotation_left_behind_is_removed(folder: Path) -> None:
    stray = folder / file_list.file_name(max(listed(folder)) + 1)
    shutil.copy(folder / file_list.file_name(max(listed(folder))), stray)
    other, part = folder / "relay.000009x", folder / "relay.index.1.part"
    for each in (other, part):
        each.touch()
    os.utime(part, (0, 0))
    with opened(folder) as relay:
        assert relay.lost is None
        assert sorted(numbers_in(folder)) == list(listed(folder))
    assert other.exists() and not part.exists()


def test_a_listed_file_is_missing(folder: Path) -> None:
    (folder / file_list.file_name(listed(folder)[-1])).unlink()
    with pytest.raises(LogError, match="listed in the index but missing"), opened(folder):
        pass


def test_a_torn_record_of_the_end_is_mended(folder: Path, source: list[Path]) -> None:
    path = folder / NAME
    for data in (b"", path.read_bytes()[:20], bytes(44), b"X" + path.read_bytes()[1:]):
        path.write_bytes(data)
        with opened(folder) as relay:
            assert relay.lost is None and relay.received.count() == COUNT
        assert count_in(folder) == COUNT


def test_an_end_of_another_log_says_nothing_of_this_one(folder: Path) -> None:
    end = EndWriter(folder)
    end.publish(End("ab" * 16, RelayPosition(max(listed(folder)), 1 << 30), 7))
    end.close()
    with opened(folder) as relay:
        assert relay.lost is None and relay.received.count() == COUNT


@pytest.mark.parametrize("published_end", [True, False])
def test_a_list_is_made_again_of_this_logs_files_alone(
    folder: Path, source: list[Path], tmp_path: Path, published_end: bool
) -> None:
    """Those of another log, and what lies before a gap, were about to be removed."""
    numbers = listed(folder)
    other = tmp_path / "other"
    with opened(other) as relay:
        receive(relay, source[:1])
    shutil.copy(other / "relay.000001", folder / "relay.000001")
    (folder / file_list.file_name(3)).unlink()
    (folder / file_list.NAME).unlink()
    if not published_end:
        (folder / NAME).unlink()
    with opened(folder) as relay:
        assert relay.lost is None and relay.received.count() == COUNT
        assert listed(folder) == numbers[3:]
        assert sorted(numbers_in(folder)) == list(numbers[3:])


def test_a_list_that_is_no_list_is_made_again_where_an_end_is(folder: Path) -> None:
    numbers = listed(folder)
    (folder / file_list.NAME).write_text("nonsense\n")
    with opened(folder) as relay:
        assert relay.received.count() == COUNT
    assert listed(folder) == numbers


def test_the_list_is_lost_in_a_rotation(folder: Path) -> None:
    """The next file has no head yet; who wrote the others, the published end says."""
    numbers = listed(folder)
    (folder / file_list.file_name(numbers[-1] + 1)).touch()
    (folder / file_list.NAME).unlink()
    with opened(folder) as relay:
        assert relay.lost is None and relay.received.count() == COUNT
    assert listed(folder) == numbers == tuple(sorted(numbers_in(folder)))


@pytest.mark.parametrize("left", ["another log's", "no head"])
def test_no_file_of_the_log_is_left(folder: Path, source: list[Path], left: str) -> None:
    for path in folder.glob("relay.0*"):
        path.unlink()
    (folder / file_list.NAME).unlink()
    if left == "no head":
        (folder / NAME).unlink()
        (folder / "relay.000002").touch()
    else:
        with opened(folder.parent / "other") as relay:
            receive(relay, source[:1])
        shutil.copy(folder.parent / "other/relay.000001", folder)
    with opened(folder) as relay:
        assert relay.log_id == ""
        receive(relay, source)
    assert count_in(folder) == COUNT and len(listed(folder)) == 1


def test_what_was_not_published_may_be_damaged(folder: Path, source: list[Path]) -> None:
    """The machine ended before the last file was on disk, and its end with it."""
    *_, before, last = (folder / file_list.file_name(n) for n in listed(folder))
    log_id = open_log(str(folder)).log_id
    end = EndWriter(folder)
    end.publish(End(log_id, RelayPosition(listed(folder)[-2], before.stat().st_size), 7))
    end.close()
    data = last.read_bytes()
    assert len(data) < before.stat().st_size
    last.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    recovered = recover(folder)
    assert recovered is not None and last.stat().st_size == recovered.size < len(data)
    with opened(folder, 2000) as relay:
        assert relay.lost is None and 0 < relay.received.count() < COUNT
        receive(relay, source)
    assert count_in(folder) == COUNT


def test_an_event_that_says_no_place_hides_none() -> None:
    def event(kind: int, end_log_pos: int) -> bytes:
        return struct.pack("<IBIIIH", 0, kind, 7, 19, end_log_pos, 0)

    for places, found in (((0, 0), 0), ((200, 300), 300), ((200, 0), 200)):
        data = bytes(4) + b"".join(event(EventType.XID, place) for place in places)
        assert _controls(np.frombuffer(data, np.uint8), len(data))[1] == found


def test_damage_in_a_log_without_checksums_is_found_if_it_shows(tmp_path: Path) -> None:
    """Scenario 161: damage that is visible without checksums is an error; other damage is not
    found."""
    files = sorted((Path(__file__).parents[2] / "fixtures/logs/no_checksum").glob("binlog.0*"))
    folder = tmp_path / "relay"
    with opened(folder) as relay:
        feed(Intake(relay), packets(list(dump(files))))
        relay.sync()
        place = relay.source_file, relay.source_position
    with opened(folder) as relay:
        assert relay.lost is None and relay.received.count() == 6
        assert (relay.source_file, relay.source_position) == place
        assert place == (files[-1].name, files[-1].stat().st_size)
    path = folder / "relay.000001"
    data, at = path.read_bytes(), open_log(str(folder)).head(1).length
    for event in list(events_of(path))[4:]:
        path.write_bytes(data[: at + 4] + b"c" + data[at + 5 :])
        with pytest.raises(LogError, match="damaged here") as caught, opened(folder):
            pass
        assert str(at) in str(caught.value) and path.stat().st_size == len(data)
        at += len(event)


def test_numbers_are_never_used_again(folder: Path, source: list[Path]) -> None:
    """A reader may have seen them, even if all files are gone."""
    last = max(listed(folder))
    for path in folder.glob("relay.[0i]*"):
        path.unlink()
    with opened(folder) as relay:
        assert relay.log_id == ""
        relay.sync()
        relay.sync_beside()  # nothing yet
        receive(relay, source[:1])
        assert relay.number == last + 1


# The writer.


def test_a_disk_that_takes_little_at_a_time(
    source: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:7]))
    with opened(tmp_path / "relay") as relay:
        receive(relay, source)
    assert count_in(tmp_path / "relay") == COUNT


def test_a_full_disk_is_named(
    source: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Scenario 116: an event that can't be written is an error with its file.
    def full(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with opened(tmp_path / "relay") as relay:
        receive(relay, source[:1])
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(LogError, match="No space left") as caught:
            receive(relay, source)
        assert "make room" in str(caught.value.hint)


def test_a_sync_that_fails_beside_is_not_forgotten(
    source: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with opened(tmp_path / "relay") as relay:
        receive(relay, source[:1])
        before = read_end(tmp_path / "relay")
        with monkeypatch.context() as patched:
            patched.setattr(os, "fdatasync", broken)
            relay.sync_beside()
            with pytest.raises(OSError, match="Input/output error"):
                relay.sync()
        assert read_end(tmp_path / "relay") == before
        relay.sync()


def test_a_rotation_waits_for_the_sync_beside(
    source: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else that would publish the end before the rotation behind it."""
    real = os.fdatasync
    with opened(tmp_path / "relay") as relay:
        receive(relay, source[:1])
        # A slow disk: the sync is under way when the rotation begins.
        monkeypatch.setattr(os, "fdatasync", lambda fd: (time.sleep(0.2), real(fd)))
        relay.sync_beside()
        relay.rotate()
    end = read_end(tmp_path / "relay")
    assert end is not None and end.position.file_no == 2


def test_space_is_bounded_by_whole_files(source: list[Path], tmp_path: Path) -> None:
    assert Limits(1000).file_bytes == 1000
    assert Limits(1000, 2000).file_bytes == 500
    assert Limits(1000, 8000).file_bytes == 1000
    folder = tmp_path / "relay"
    with opened(folder, space=8000) as relay:
        receive(relay, source[:1])
        assert not relay.is_full()
        receive(relay, source)
        total = sum((folder / file_list.file_name(n)).stat().st_size for n in listed(folder))
        assert relay.total_bytes() == total
        for space, full in ((0, False), (total + 1, False), (total, True), (1, True)):
            relay.limits = Limits(1000, space)
            assert relay.is_full() == full
        purge(folder, relay.number)
        assert relay.total_bytes() == relay.size and not relay.is_full(), "none is left to purge"


def test_the_last_possible_file_number_is_an_error(
    source: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MAX_FILE_NO", 2)
    assert MAX_FILE_NO > 2
    with opened(tmp_path / "relay", 2000) as relay, pytest.raises(LogError, match="is the last"):
        receive(relay, source)
    assert listed(tmp_path / "relay") == (1, 2)


def test_a_log_that_is_renewed_in_mid_transaction(source: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "relay"
    with opened(folder) as relay:
        receive(relay, source[:2])
        have = relay.received
        relay._write(b"x" * 99)
        relay.drop_open()
        assert relay.size == relay.whole == (folder / "relay.000001").stat().st_size
        relay.renew(have)
        assert (relay.source_file, relay.source_position) == ("", 4)
        assert relay.received == have and relay.lost is None
        receive(relay, source)
        assert relay.number == 2 and relay.received.count() == COUNT
    assert count_in(folder) == COUNT - have.count()
    assert numbers_in(folder) == [2]
