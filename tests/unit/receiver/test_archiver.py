"""The archiver: which bytes the archive has, and what kills and failing stores leave of it."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import spark_repl.receiver.archiver as archiver_module
from spark_repl.errors import LogError
from spark_repl.position import RelayPosition
from spark_repl.receiver.archiver import Archiver
from spark_repl.receiver.intake import Intake
from spark_repl.receiver.purge import clear, purge
from spark_repl.relay.archive import LogNote, RelayArchive
from spark_repl.relay.archived_ranges import archived_chunks, record_path
from spark_repl.relay.published_end import End, read_end
from spark_repl.runtime.stores import store_of
from tests.support.archived_log import (
    TARGET,
    KilledError,
    archived,
    archiver,
    contents,
    killed_after,
    opened,
    received,
    recorded,
)
from tests.support.dump_stream import dump, feed, packets
from tests.support.store_proxy import DROPPED_ANSWER, DROPPED_REQUEST, store_proxy
from tests.support.stores import SERVERS

CHUNK = "relay_archived"


def _names(archive: RelayArchive) -> list[str]:
    return sorted(name for name, _ in store_of(archive.root).walk(archive.root))


def test_the_archive_has_the_published_bytes(log_copy: Path, archive: RelayArchive) -> None:
    archiver(log_copy, archive).turn()
    assert archived(archive, 1) == recorded(log_copy) == contents(log_copy)
    log, *others = archive.logs()
    assert not others and len(log.files) > 3
    assert [file.is_sealed for file in log.files] == [True] * (len(log.files) - 1) + [False]
    assert all(c.end - c.begin <= 300 for file in log.files for c in file.chunks)
    assert archive.note(1).target == TARGET


def test_a_second_turn_writes_nothing(log_copy: Path, archive: RelayArchive) -> None:
    one = archiver(log_copy, archive)
    one.turn()
    before = _names(archive)
    one.turn()
    archiver(log_copy, archive).turn()
    assert _names(archive) == before


def test_unpublished_bytes_are_not_archived(
    source_files: list[Path], tmp_path: Path, archive: RelayArchive
) -> None:
    folder, stream = tmp_path / "relay", packets(list(dump(source_files)))
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


def test_a_chunk_of_an_open_file_waits_for_size_or_age(
    log_copy: Path, archive: RelayArchive
) -> None:
    now = 0.0
    last = sorted(contents(log_copy))[-1]
    number, size = int(last[-6:]), len(contents(log_copy)[last])
    one = archiver(log_copy, archive, chunk_bytes=1 << 20, after_s=10, clock=lambda: now)
    one.turn()
    assert archived_chunks(log_copy, number - 1) and not archived_chunks(log_copy, number)
    now = 9.9
    one.turn()
    assert not archived_chunks(log_copy, number)
    now = 10.0
    one.turn()
    assert [chunk.end for chunk in archived_chunks(log_copy, number)] == [size]


def _sizes(log_copy: Path) -> list[int]:
    chunks = (chunk for n in range(1, 20) for chunk in archived_chunks(log_copy, n))
    return [chunk.end - chunk.begin for chunk in chunks]


def test_a_slow_line_gets_smaller_chunks(
    log_copy: Path, archive: RelayArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request has a bounded time, with its upload. Found: on a slow line no chunk of the largest
    ``relay.archive_bytes`` came into the archive, whatever the number of attempts."""
    monkeypatch.setattr(archiver_module, "_FIRST_BYTES", 1000)
    monkeypatch.setattr(archiver_module, "_LEAST_BYTES", 50)
    store = store_of(archive.root)

    def clock() -> float:
        """Seconds that the archive's bytes take at 20 bytes a second."""
        return sum(stored.size for _, stored in store.walk(archive.root)) / 20

    archiver(log_copy, archive, chunk_bytes=1 << 20, clock=clock).turn()
    first, second, *others = _sizes(log_copy)
    assert max(first, second) > 250 >= max(others)
    assert archived(archive, 1) == recorded(log_copy) == contents(log_copy)


def test_a_quick_line_gets_chunks_of_the_configured_size(
    log_copy: Path, archive: RelayArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archiver_module, "_FIRST_BYTES", 100)
    archiver(log_copy, archive, chunk_bytes=500).turn()
    assert _sizes(log_copy)[:3] == [100, 200, 400] and max(_sizes(log_copy)) == 500


def test_bytes_that_are_due_do_not_wait_for_each_other_on_a_slow_line(
    log_copy: Path, archive: RelayArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archiver_module, "_FIRST_BYTES", 50)
    monkeypatch.setattr(archiver_module, "_QUICK_S", 0.0)  # no line is quick
    now = 0.0
    one = archiver(log_copy, archive, chunk_bytes=1 << 20, after_s=10, clock=lambda: now)
    one.turn()
    assert recorded(log_copy) != contents(log_copy)
    now = 10.0
    one.turn()
    assert recorded(log_copy) == contents(log_copy)
    last = max(n for n in range(1, 20) if archived_chunks(log_copy, n))
    assert len(archived_chunks(log_copy, last)) > 1


def test_a_chunk_that_is_not_uploaded_in_time_is_tried_at_half_its_size(
    log_copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archiver_module, "_FIRST_BYTES", 1000)
    monkeypatch.setattr(archiver_module, "_LEAST_BYTES", 50)
    archive, now = RelayArchive(str(tmp_path / "archive")), iter(range(0, 1 << 20, 60))
    one = archiver(log_copy, archive, chunk_bytes=1 << 20, clock=lambda: float(next(now)))
    end = read_end(log_copy)
    assert end is not None
    in_the_way = Path(archive.file_folder(archive.begin(LogNote(end.log_id, TARGET)), 1))
    in_the_way.write_bytes(b"a file in place of a folder")
    with pytest.raises(OSError, match="relay"):
        one.turn()
    in_the_way.unlink()
    one.turn()
    assert _sizes(log_copy)[:3] == [500, 250, 125]


def test_a_wanted_position_is_archived_at_once(log_copy: Path, archive: RelayArchive) -> None:
    one = archiver(log_copy, archive, chunk_bytes=1 << 20, after_s=10)
    end = read_end(log_copy)
    assert end is not None
    one.hurry(end.position)
    one.turn()
    assert one.archived is not None and one.archived.position == end.position


def test_a_kill_between_object_and_record(log_copy: Path, archive: RelayArchive) -> None:
    """At each chunk: the next archiver finds the object and records it."""
    rng, kills = random.Random(3), 0
    for _ in range(200):
        try:
            with killed_after(CHUNK, 1):
                archiver(log_copy, archive, chunk_bytes=rng.randrange(50, 900)).turn()
            break
        except KilledError:
            kills += 1
            assert len(_names(archive)) > sum(
                len(archived_chunks(log_copy, number)) for number in range(1, 20)
            )
    assert kills > 5
    assert archived(archive, 1) == recorded(log_copy) == contents(log_copy)


def test_lost_records_are_written_again(log_copy: Path, archive: RelayArchive) -> None:
    archiver(log_copy, archive).turn()
    before = _names(archive)
    for path in log_copy.glob("*.archived"):
        path.write_bytes(path.read_bytes()[: random.Random(path.name).randrange(200)])
    archiver(log_copy, archive, chunk_bytes=5000).turn()
    assert recorded(log_copy) == contents(log_copy)
    assert _names(archive) == before


def test_a_purge_removes_what_is_archived(log_copy: Path, archive: RelayArchive) -> None:
    one = archiver(log_copy, archive)
    one.turn()
    gone = purge(log_copy, 4).files
    assert gone
    one.turn()
    assert archived(archive, 1) == recorded(log_copy) == contents(log_copy)
    assert not any(name in path for path in _names(archive) for name in gone)
    purge(log_copy, 5)
    archiver(log_copy, archive).turn()
    assert archived(archive, 1) == contents(log_copy)
    assert len([*log_copy.glob("*.archived")]) == len(contents(log_copy))


def test_files_that_were_purged_without_a_record(log_copy: Path, archive: RelayArchive) -> None:
    archiver(log_copy, archive).turn()
    record_path(log_copy, 1).unlink()
    purge(log_copy, 3)
    archiver(log_copy, archive).turn()
    assert archived(archive, 1) == contents(log_copy)
    assert not any("relay.000001" in name for name in _names(archive))


def test_a_file_that_was_purged_before_it_was_archived(
    log_copy: Path, archive: RelayArchive
) -> None:
    with killed_after(CHUNK, 2), pytest.raises(KilledError):
        archiver(log_copy, archive).turn()
    purge(log_copy, 3)
    archiver(log_copy, archive).turn()
    assert archived(archive, 1) == contents(log_copy)


def test_a_cleared_log_leaves_no_record(log_copy: Path, archive: RelayArchive) -> None:
    archiver(log_copy, archive).turn()
    clear(log_copy)
    assert not [*log_copy.glob("*.archived")]


def received_as_restored(folder: Path, source_files: list[Path]) -> End:
    """Receive a log with the note of one that was restored from the archive's first log."""
    received(folder, source_files)
    end = read_end(folder)
    assert end is not None
    (folder / "relay.restored").write_text(
        f'{{"log_id": "{end.log_id}", "file": {end.position.file_no},'
        f' "size": {end.position.offset}, "generation": 1}}'
    )
    return end


def test_a_new_log_leaves_the_earlier_one(
    log_copy: Path, source_files: list[Path], tmp_path: Path, archive: RelayArchive
) -> None:
    """Another receiver of the target may still write it, for example on a standby host."""
    archiver(log_copy, archive).turn()
    standby = tmp_path / "standby"
    received(standby, source_files)
    archiver(standby, archive).turn()
    archiver(log_copy, archive).turn()
    assert archived(archive, 1) == contents(log_copy)
    assert archived(archive, 2) == contents(standby)


def test_a_log_is_not_archived_for_a_target_that_it_is_not_of(
    log_copy: Path, archive: RelayArchive
) -> None:
    """Found: after a move of the target no start restored the log."""
    archiver(log_copy, archive).turn()
    archiver(log_copy, archive, target="memory://bank/moved").turn()
    assert archive.note(2).target == "memory://bank/moved"
    assert archived(archive, 2) == contents(log_copy)


def test_targets_of_one_path_on_two_machines_do_not_mix(
    log_copy: Path, source_files: list[Path], tmp_path: Path, archive: RelayArchive
) -> None:
    """Found: with one archive and one name of a channel, each restored and removed the other's."""
    archiver(log_copy, archive, target_id="a").turn()
    received(tmp_path / "other", source_files)
    archiver(tmp_path / "other", archive, target_id="b").turn()
    assert [log.generation for log, _ in archive.logs_of(TARGET, "a")] == [1]
    assert [log.generation for log, _ in archive.logs_of(TARGET, "b")] == [2]
    assert not archive.logs_of(TARGET), "a target without a control table began no log"
    archive.forget(TARGET, "a")
    assert [log.generation for log in archive.logs()] == [2]


def test_a_target_that_begins_after_its_receiver_is_recorded_later(
    log_copy: Path, archive: RelayArchive
) -> None:
    archiver(log_copy, archive).turn()
    assert archive.logs_of(TARGET, "a") and archive.logs_of(TARGET)
    archiver(log_copy, archive, target_id="a").turn()
    assert [log.generation for log, _ in archive.logs_of(TARGET, "a")] == [1]
    assert not archive.logs_of(TARGET, "b")


def test_the_logs_of_a_target_are_forgotten(
    log_copy: Path, source_files: list[Path], tmp_path: Path, archive: RelayArchive
) -> None:
    archiver(log_copy, archive).turn()
    received(tmp_path / "other", source_files)
    archiver(tmp_path / "other", archive, target="memory://bank/other").turn()
    archive.forget(TARGET)
    assert [log.generation for log in archive.logs()] == [2]


def test_a_forgotten_log_is_archived_again(log_copy: Path, archive: RelayArchive) -> None:
    """Found: it claimed the removed number again, believed its records, and archived nothing.
    Executors keep blocks by the objects' URIs, so no URI names two objects."""
    archiver(log_copy, archive).turn()
    before = {chunk.uri for chunk in archived_chunks(log_copy, 1)}
    archive.forget(TARGET)
    assert not archive.logs() and not archive.logs_of(TARGET)
    archiver(log_copy, archive).turn()
    assert archived(archive, 2) == recorded(log_copy) == contents(log_copy)
    assert before.isdisjoint(chunk.uri for chunk in archived_chunks(log_copy, 1))
    archive.forget(TARGET)
    archiver(log_copy, archive).turn()
    assert [log.generation for log in archive.logs()] == [3]


def test_a_receiver_that_runs_archives_its_forgotten_log_again(
    source_files: list[Path], tmp_path: Path, archive: RelayArchive
) -> None:
    folder = tmp_path / "relay"
    received(folder, source_files[:1])
    running = archiver(folder, archive)
    running.turn()
    archive.forget(TARGET)
    received(folder, source_files)
    with pytest.raises(LogError, match="has replaced this archive"):
        running.turn()
    assert running.archived is None
    running.turn()
    assert archived(archive, 2) == recorded(folder) == contents(folder)
    assert [log.generation for log in archive.logs()] == [2], "no chunk is left of the first"


def test_the_log_of_an_emptied_archive_is_archived_again(
    log_copy: Path, archive: RelayArchive
) -> None:
    archiver(log_copy, archive).turn()
    store_of(archive.root).remove_folder(archive.root)
    archiver(log_copy, archive).turn()
    assert archived(archive, 1) == recorded(log_copy) == contents(log_copy)


def test_a_file_that_the_archive_lost_is_archived_again(
    log_copy: Path, archive: RelayArchive
) -> None:
    archiver(log_copy, archive).turn()
    archive.remove_file(1, 3)
    archiver(log_copy, archive).turn()
    assert archived(archive, 1) == recorded(log_copy) == contents(log_copy)


def test_a_log_of_another_target_stays(
    log_copy: Path, source_files: list[Path], tmp_path: Path, archive: RelayArchive
) -> None:
    archiver(log_copy, archive).turn()
    received(tmp_path / "other", source_files)
    archiver(tmp_path / "other", archive, target="memory://bank/other").turn()
    assert archived(archive, 1) == contents(log_copy)
    assert archived(archive, 2) == contents(tmp_path / "other")


def test_the_earlier_log_stays_until_all_that_was_restored_is_archived(
    log_copy: Path, source_files: list[Path], tmp_path: Path, archive: RelayArchive
) -> None:
    archiver(log_copy, archive).turn()
    restored = tmp_path / "restored"
    end = received_as_restored(restored, source_files)
    last = len(archived_chunks(log_copy, end.position.file_no))
    assert last > 1
    total = sum(len(archived_chunks(log_copy, number)) for number in range(1, 20))
    with killed_after(CHUNK, total - 2), pytest.raises(KilledError):
        archiver(restored, archive).turn()
    log, following = archive.logs()
    assert log.generation == 1 and not archive.note(2).covered_by(following)
    archiver(restored, archive).turn()
    assert [log.generation for log in archive.logs()] == [2]


def test_a_receiver_that_slept_changes_nothing(
    log_copy: Path, source_files: list[Path], tmp_path: Path, archive: RelayArchive
) -> None:
    """It finds that its generation was replaced, counts nothing as archived there, and begins
    another one."""
    sleeper = archiver(log_copy, archive)
    with killed_after(CHUNK, 3), pytest.raises(KilledError):
        sleeper.turn()
    following = tmp_path / "following"
    received_as_restored(following, source_files)
    archiver(following, archive).turn()
    sleeper._records.clear()
    with pytest.raises(LogError, match="another receiver of this target has replaced"):
        sleeper.turn()
    assert sleeper.archived is None
    sleeper.turn()
    assert archived(archive, 2) == contents(following)
    assert archived(archive, 3) == contents(log_copy)


def test_what_was_restored_counts_as_archived(
    log_copy: Path, source_files: list[Path], tmp_path: Path, archive: RelayArchive
) -> None:
    """The log that was restored has it until this one does."""
    archiver(log_copy, archive).turn()
    end = received_as_restored(tmp_path / "restored", source_files)
    copier = archiver(tmp_path / "restored", archive)
    assert not copier.has(end.log_id, end.position)
    with killed_after(CHUNK, 0), pytest.raises(KilledError):
        copier.turn()
    assert copier.has(end.log_id, end.position)
    assert not copier.has("another", end.position)
    assert not copier.has(end.log_id, RelayPosition(end.position.file_no + 1, 4))


class _Failing(RelayArchive):
    """An archive that fails to remove, or to write, while it is told to."""

    fails_to_remove = fails_to_seal = False

    def remove_file(self, generation: int, number: int) -> None:
        if self.fails_to_remove:
            raise OSError(5, "Input/output error")
        super().remove_file(generation, number)

    def seal(self, generation: int, number: int, size: int) -> None:
        if self.fails_to_seal:
            raise OSError(5, "Input/output error")
        super().seal(generation, number, size)


def test_a_failed_removal_delays_no_chunk(
    log_copy: Path, archive: RelayArchive, source_files: list[Path], tmp_path: Path
) -> None:
    """Found: the archiver waited up to a minute after each, and archived nothing meanwhile."""
    now, failing = 0.0, _Failing(archive.root)
    received(tmp_path / "short", source_files[:1])
    copier = archiver(tmp_path / "short", failing, clock=lambda: now)
    copier.turn()
    failing.fails_to_remove = True
    purge(tmp_path / "short", 2)
    received(tmp_path / "short", source_files)
    copier.turn()
    assert recorded(tmp_path / "short") == contents(tmp_path / "short")
    assert copier.error == "" and "removing" in copier.columns["ARCHIVE_ERROR_MESSAGE"]
    failing.fails_to_remove = False
    copier.turn()
    assert any("relay.000001/" in name for name in _names(archive)), "not due yet"
    now = 1.0
    copier.turn()
    assert archived(archive, 1) == contents(tmp_path / "short")
    assert copier.columns["ARCHIVE_ERROR_MESSAGE"] == ""


def test_the_archived_place_never_goes_back(log_copy: Path, archive: RelayArchive) -> None:
    """Found: each turn began again at the end of the first file, and an acknowledgement or the
    status could see that."""
    copier, places = archiver(log_copy, archive), list[RelayPosition]()
    advance = copier._advance

    def see(number: int, end: int) -> None:
        advance(number, end)
        assert copier.archived is not None
        places.append(copier.archived.position)

    copier._advance = see  # type: ignore[method-assign]
    for _ in range(3):
        copier.turn()
    assert places == sorted(places) and len(places) > 10


def test_an_acknowledgement_ends_a_long_wait_after_failures(
    log_copy: Path, archive: RelayArchive
) -> None:
    copier = archiver(log_copy, archive)
    copier.hurry(RelayPosition(1, 4))
    begun = time.monotonic()
    copier._back_off(60.0)
    assert 0.4 < time.monotonic() - begun < 10


def test_a_file_of_many_chunks_is_ended(log_copy: Path, archive: RelayArchive) -> None:
    """A purge drops whole files, so a source with few changes would collect chunks for months."""
    copier = archiver(log_copy, archive, chunk_bytes=1)
    copier.turn()
    number = max(file.number for file in archive.logs()[0].files)
    assert not copier.is_fragmented(number)
    copier._records[number].chunks = 10_000
    assert copier.is_fragmented(number) and not copier.is_fragmented(number + 1)


def test_two_receivers_never_share_a_generation(archive: RelayArchive) -> None:
    notes = [LogNote(f"{number:032x}", TARGET) for number in range(5)]
    assert [archive.begin(note) for note in notes] == [1, 2, 3, 4, 5]
    assert [archive.begin(note) for note in notes] == [1, 2, 3, 4, 5]


def test_other_bytes_in_the_archive_are_an_error(
    log_copy: Path, tmp_path: Path, source_files: list[Path], archive: RelayArchive
) -> None:
    """Two machines with copies of one folder write under one log id."""
    copy = shutil.copytree(log_copy, tmp_path / "copy")
    archiver(log_copy, archive).turn()
    last = sorted(copy.glob("relay.00000?"))[-1]
    data = bytearray(last.read_bytes())
    data[-10] ^= 1
    last.write_bytes(data)
    with pytest.raises(LogError, match="other bytes"):
        archiver(copy, archive).turn()


def test_a_disk_that_lost_archived_bytes_is_not_continued(
    log_copy: Path, archive: RelayArchive
) -> None:
    archiver(log_copy, archive).turn()
    last = sorted(log_copy.glob("relay.0000[0-9][0-9]"))[-1]
    os.truncate(last, last.stat().st_size - 10)
    (log_copy / "relay.end").unlink()
    with opened(log_copy) as writer:
        assert writer.lost is not None


@pytest.fixture(scope="module", params=["local", "s3"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    with SERVERS[request.param](tmp_path_factory.mktemp(request.param)) as server:
        yield server


def test_on_each_kind_of_store(
    server, log_copy: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    archive = RelayArchive(f"{server.base}/{tmp_path.name}/relay")
    archiver(log_copy, archive).turn()
    assert archived(archive, 1) == recorded(log_copy) == contents(log_copy)
    purge(log_copy, 3)
    archiver(log_copy, archive).turn()
    assert archived(archive, 1) == contents(log_copy)


def test_a_store_that_loses_requests_and_answers(
    log_copy: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The thread repeats what fails, and nothing is written twice."""
    rng = random.Random(5)

    faults = (None, None, None, DROPPED_ANSWER, DROPPED_REQUEST)

    with SERVERS["s3"](tmp_path) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        with store_proxy(server.url) as proxy:
            for name, value in server.at(proxy.url).items():
                monkeypatch.setenv(name, value)
            proxy.fault = lambda method, target: rng.choice(faults) if method == "PUT" else None
            archive = RelayArchive(f"{server.base}/lossy/relay")
            _until_archived(archiver(log_copy, archive, chunk_bytes=5000), log_copy)
            assert archived(archive, 1) == recorded(log_copy) == contents(log_copy)


def _until_archived(archiver: Archiver, log_copy: Path) -> None:
    for _ in range(100):
        if archiver._attempt() and recorded(log_copy) == contents(log_copy):
            return
    raise AssertionError(archiver.error)
