"""The archiver: which bytes the archive has, and what kills and failing stores leave of it."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spark_repl.crash_points import listening
from spark_repl.errors import LogError
from spark_repl.receiver.archiver import Archiver
from spark_repl.receiver.intake import Intake
from spark_repl.receiver.purge import clear, purge
from spark_repl.relay.archive import LogNote, RelayArchive
from spark_repl.relay.archived_ranges import archived_chunks, record_path
from spark_repl.relay.published_end import End, read_end
from spark_repl.runtime.stores import store_of
from tests.support.archived_log import (
    TARGET,
    archived,
    archiver,
    contents,
    new_archive,
    opened,
    received,
    recorded,
    write_source,
)
from tests.support.dropping_proxy import Dropped, dropping_proxy
from tests.support.dump_stream import dump, feed, packets
from tests.support.stores import SERVERS


class _KilledError(BaseException):
    pass


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_source(tmp_path_factory.mktemp("source"))


@pytest.fixture
def relay(source: list[Path], tmp_path: Path) -> Path:
    """A receiver's log of several files."""
    received(tmp_path / "relay", source)
    return tmp_path / "relay"


@pytest.fixture
def archive() -> RelayArchive:
    return new_archive()


def _names(archive: RelayArchive) -> list[str]:
    return sorted(name for name, _ in store_of(archive.root).walk(archive.root))


def test_the_archive_has_the_published_bytes(relay: Path, archive: RelayArchive) -> None:
    archiver(relay, archive).turn()
    assert archived(archive, 1) == recorded(relay) == contents(relay)
    log, *others = archive.logs()
    assert not others and len(log.files) > 3
    assert [file.is_sealed for file in log.files] == [True] * (len(log.files) - 1) + [False]
    assert all(c.end - c.begin <= 300 for file in log.files for c in file.chunks)
    assert archive.note(1).target == TARGET


def test_a_second_turn_writes_nothing(relay: Path, archive: RelayArchive) -> None:
    one = archiver(relay, archive)
    one.turn()
    before = _names(archive)
    one.turn()
    archiver(relay, archive).turn()
    assert _names(archive) == before


def test_unpublished_bytes_are_not_archived(
    source: list[Path], tmp_path: Path, archive: RelayArchive
) -> None:
    folder, stream = tmp_path / "relay", packets(list(dump(source)))
    one = archiver(folder, archive)
    with opened(folder) as writer:
        intake = Intake(writer)
        rng = random.Random(7)
        while stream:
            size = rng.randrange(1, 900)
            feed(intake, stream[:size])
            stream = stream[size:]
            if rng.random() < 0.3:
                writer.sync()
            one.turn()
            if read_end(folder) is not None:
                assert recorded(folder) == contents(folder)
        writer.sync()
        one.turn()
    assert archived(archive, 1) == contents(folder)


def test_a_chunk_of_an_open_file_waits_for_size_or_age(relay: Path, archive: RelayArchive) -> None:
    now = 0.0
    last = sorted(contents(relay))[-1]
    number, size = int(last[-6:]), len(contents(relay)[last])
    one = archiver(relay, archive, chunk_bytes=1 << 20, after_s=10, clock=lambda: now)
    one.turn()
    assert archived_chunks(relay, number - 1) and not archived_chunks(relay, number)
    now = 9.9
    one.turn()
    assert not archived_chunks(relay, number)
    now = 10.0
    one.turn()
    assert [chunk.end for chunk in archived_chunks(relay, number)] == [size]


def test_a_wanted_position_is_archived_at_once(relay: Path, archive: RelayArchive) -> None:
    one = archiver(relay, archive, chunk_bytes=1 << 20, after_s=10)
    end = read_end(relay)
    assert end is not None
    one.hurry(end.position)
    one.turn()
    assert one.archived is not None and one.archived.position == end.position


def test_a_kill_between_object_and_record(relay: Path, archive: RelayArchive) -> None:
    """At each chunk: the next archiver finds the object and records it."""
    rng, kills = random.Random(3), 0
    for _ in range(200):
        try:
            with listening(_after(1)):
                archiver(relay, archive, chunk_bytes=rng.randrange(50, 900)).turn()
            break
        except _KilledError:
            kills += 1
            assert len(_names(archive)) > sum(
                len(archived_chunks(relay, number)) for number in range(1, 20)
            )
    assert kills > 5
    assert archived(archive, 1) == recorded(relay) == contents(relay)


def _after(chunks: int) -> Callable[[str], None]:
    """Return a listener that kills after so many chunks, before the next one's record."""
    reached = 0

    def kill(point: str) -> None:
        nonlocal reached
        reached += point == "relay_archived"
        if reached > chunks:
            raise _KilledError

    return kill


def test_lost_records_are_written_again(relay: Path, archive: RelayArchive) -> None:
    archiver(relay, archive).turn()
    before = _names(archive)
    for path in relay.glob("*.archived"):
        path.write_bytes(path.read_bytes()[: random.Random(path.name).randrange(200)])
    archiver(relay, archive, chunk_bytes=5000).turn()
    assert recorded(relay) == contents(relay)
    assert _names(archive) == before


def test_a_purge_removes_what_is_archived(relay: Path, archive: RelayArchive) -> None:
    one = archiver(relay, archive)
    one.turn()
    gone = purge(relay, 4).files
    assert gone
    one.turn()
    assert archived(archive, 1) == recorded(relay) == contents(relay)
    assert not any(name in path for path in _names(archive) for name in gone)
    purge(relay, 5)
    archiver(relay, archive).turn()
    assert archived(archive, 1) == contents(relay)
    assert len([*relay.glob("*.archived")]) == len(contents(relay))


def test_files_that_were_purged_without_a_record(relay: Path, archive: RelayArchive) -> None:
    archiver(relay, archive).turn()
    record_path(relay, 1).unlink()
    purge(relay, 3)
    archiver(relay, archive).turn()
    assert archived(archive, 1) == contents(relay)
    assert not any("relay.000001" in name for name in _names(archive))


def test_a_file_that_was_purged_before_it_was_archived(relay: Path, archive: RelayArchive) -> None:
    with listening(_after(2)), pytest.raises(_KilledError):
        archiver(relay, archive).turn()
    purge(relay, 3)
    archiver(relay, archive).turn()
    assert archived(archive, 1) == contents(relay)


def test_a_cleared_log_leaves_no_record(relay: Path, archive: RelayArchive) -> None:
    archiver(relay, archive).turn()
    clear(relay)
    assert not [*relay.glob("*.archived")]


def received_as_restored(folder: Path, source: list[Path]) -> End:
    """Receive a log with the note of one that was restored from an archive."""
    received(folder, source)
    end = read_end(folder)
    assert end is not None
    (folder / "relay.restored").write_text(
        f'{{"log_id": "{end.log_id}", "file": {end.position.file_no},'
        f' "size": {end.position.offset}}}'
    )
    return end


def test_a_new_log_leaves_the_earlier_one(
    relay: Path, source: list[Path], tmp_path: Path, archive: RelayArchive
) -> None:
    """Another receiver of the target may still write it, for example on a standby host."""
    archiver(relay, archive).turn()
    standby = tmp_path / "standby"
    received(standby, source)
    archiver(standby, archive).turn()
    archiver(relay, archive).turn()
    assert archived(archive, 1) == contents(relay)
    assert archived(archive, 2) == contents(standby)


def test_a_log_is_not_archived_for_a_target_that_it_is_not_of(
    relay: Path, archive: RelayArchive
) -> None:
    """Found: after a move of the target no start restored the log."""
    archiver(relay, archive).turn()
    archiver(relay, archive, target="memory://bank/moved").turn()
    assert archive.note(2).target == "memory://bank/moved"
    assert archived(archive, 2) == contents(relay)


def test_the_logs_of_a_target_are_forgotten(
    relay: Path, source: list[Path], tmp_path: Path, archive: RelayArchive
) -> None:
    archiver(relay, archive).turn()
    received(tmp_path / "other", source)
    archiver(tmp_path / "other", archive, target="memory://bank/other").turn()
    archive.forget(TARGET)
    assert [log.generation for log in archive.logs()] == [2]


def test_a_log_of_another_target_stays(
    relay: Path, source: list[Path], tmp_path: Path, archive: RelayArchive
) -> None:
    archiver(relay, archive).turn()
    received(tmp_path / "other", source)
    archiver(tmp_path / "other", archive, target="memory://bank/other").turn()
    assert archived(archive, 1) == contents(relay)
    assert archived(archive, 2) == contents(tmp_path / "other")


def test_the_earlier_log_stays_until_all_that_was_restored_is_archived(
    relay: Path, source: list[Path], tmp_path: Path, archive: RelayArchive
) -> None:
    archiver(relay, archive).turn()
    restored = tmp_path / "restored"
    end = received_as_restored(restored, source)
    last = len(archived_chunks(relay, end.position.file_no))
    assert last > 1
    total = sum(len(archived_chunks(relay, number)) for number in range(1, 20))
    with listening(_after(total - 2)), pytest.raises(_KilledError):
        archiver(restored, archive).turn()
    log, following = archive.logs()
    assert log.generation == 1 and not archive.note(2).covered_by(following)
    archiver(restored, archive).turn()
    assert [log.generation for log in archive.logs()] == [2]


def test_a_receiver_that_slept_changes_nothing(
    relay: Path, source: list[Path], tmp_path: Path, archive: RelayArchive
) -> None:
    """It finds that its generation was replaced, counts nothing as archived there, and begins
    another one."""
    sleeper = archiver(relay, archive)
    with listening(_after(3)), pytest.raises(_KilledError):
        sleeper.turn()
    following = tmp_path / "following"
    received_as_restored(following, source)
    archiver(following, archive).turn()
    sleeper._records.clear()
    with pytest.raises(LogError, match="another receiver of this target has replaced"):
        sleeper.turn()
    assert sleeper.archived is None
    sleeper.turn()
    assert archived(archive, 2) == contents(following)
    assert archived(archive, 3) == contents(relay)


def test_two_receivers_never_share_a_generation(archive: RelayArchive) -> None:
    notes = [LogNote(f"{number:032x}", TARGET) for number in range(5)]
    assert [archive.begin(note) for note in notes] == [1, 2, 3, 4, 5]
    assert [archive.begin(note) for note in notes] == [1, 2, 3, 4, 5]


def test_other_bytes_in_the_archive_are_an_error(
    relay: Path, tmp_path: Path, source: list[Path], archive: RelayArchive
) -> None:
    """Two machines with copies of one folder write under one log id."""
    copy = shutil.copytree(relay, tmp_path / "copy")
    archiver(relay, archive).turn()
    last = sorted(copy.glob("relay.00000?"))[-1]
    data = bytearray(last.read_bytes())
    data[-10] ^= 1
    last.write_bytes(data)
    with pytest.raises(LogError, match="other bytes"):
        archiver(copy, archive).turn()


def test_a_disk_that_lost_archived_bytes_is_not_continued(
    relay: Path, archive: RelayArchive
) -> None:
    archiver(relay, archive).turn()
    last = sorted(relay.glob("relay.0000[0-9][0-9]"))[-1]
    os.truncate(last, last.stat().st_size - 10)
    (relay / "relay.end").unlink()
    with opened(relay) as writer:
        assert writer.lost is not None


@pytest.fixture(scope="module", params=["local", "s3"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    with SERVERS[request.param](tmp_path_factory.mktemp(request.param)) as server:
        yield server


def test_on_each_kind_of_store(
    server, relay: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    archive = RelayArchive(f"{server.base}/{tmp_path.name}/relay")
    archiver(relay, archive).turn()
    assert archived(archive, 1) == recorded(relay) == contents(relay)
    purge(relay, 3)
    archiver(relay, archive).turn()
    assert archived(archive, 1) == contents(relay)


def test_a_store_that_loses_requests_and_answers(
    relay: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The thread repeats what fails, and nothing is written twice."""
    rng = random.Random(5)

    def drops(method: str, _: str) -> Dropped:
        return rng.choice((None, None, None, "answer", "request")) if method == "PUT" else None

    with SERVERS["s3"](tmp_path) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        with dropping_proxy(server.url) as proxy:
            for name, value in server.at(proxy.url).items():
                monkeypatch.setenv(name, value)
            proxy.drops = drops
            archive = RelayArchive(f"{server.base}/lossy/relay")
            _until_archived(archiver(relay, archive, chunk_bytes=5000), relay)
            assert archived(archive, 1) == recorded(relay) == contents(relay)


def _until_archived(archiver: Archiver, relay: Path) -> None:
    for _ in range(100):
        if archiver._attempt() and recorded(relay) == contents(relay):
            return
    raise AssertionError(archiver.error)
