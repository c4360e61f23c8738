"""A relay log that is restored from its archive: what it has, and what kills leave of it."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from spark_repl.errors import Stopped
from spark_repl.gtid import GtidSet
from spark_repl.receiver.own_events import log_id_of
from spark_repl.receiver.purge import purge
from spark_repl.receiver.recovery import RESTORING
from spark_repl.receiver.restored_log import Needed, restore
from spark_repl.relay.archive import RelayArchive
from spark_repl.relay.file_list import read_list
from spark_repl.relay.log import open_log
from spark_repl.relay.log_inspection import verify_log
from spark_repl.relay.published_end import read_end
from spark_repl.runtime.stores import store_of
from tests.support.archived_log import (
    TARGET,
    TRANSACTIONS,
    KilledError,
    archived,
    archiver,
    contents,
    killed_after,
    new_archive,
    opened,
    received,
    transactions,
)
from tests.support.dump_stream import receive_at

STEP = "relay_restoring"


def _archive_copy(whole: Path, folder: Path, archive: RelayArchive, **settings: int) -> None:
    """Archive a copy of a log."""
    archiver(Path(shutil.copytree(whole, folder)), archive, **settings).turn()


@pytest.fixture
def archive(whole: Path, tmp_path: Path) -> RelayArchive:
    """The archive of a log whose folder is lost."""
    archive = new_archive()
    _archive_copy(whole, tmp_path / "lost", archive)
    return archive


def _previous(folder: Path, number: int) -> GtidSet:
    return open_log(str(folder)).head(number).previous_gtids


def _all(folder: Path) -> GtidSet:
    with opened(folder) as writer:
        return writer.received


def _restored(folder: Path, archive: RelayArchive, executed: GtidSet | None = None) -> bool:
    return restore(folder, archive, TARGET, Needed(executed or GtidSet()))


def _check_whole(folder: Path, whole: Path, source_files: list[Path]) -> None:
    """Continue the log in ``folder`` at the source, and compare it with a log without a loss."""
    received(folder, source_files)
    assert transactions(folder) == transactions(whole)
    assert all(check.ok for check in verify_log(open_log(str(folder))))


def test_a_lost_log_is_restored_under_a_new_id(
    whole: Path, source_files: list[Path], archive: RelayArchive, tmp_path: Path
) -> None:
    folder = tmp_path / "relay"
    assert _restored(folder, archive)
    with opened(folder) as writer:
        assert writer.received == _all(whole)
        assert writer.log_id != open_log(str(whole)).log_id
    assert contents(folder).keys() == contents(whole).keys()
    assert transactions(folder) == transactions(whole)
    _check_whole(folder, whole, source_files)


def test_every_archived_end_continues_at_the_source(
    whole: Path, source_files: list[Path], tmp_path: Path
) -> None:
    """The archive may end at any chunk, within a transaction too."""
    archive = new_archive()
    _archive_copy(whole, tmp_path / "lost", archive, chunk_bytes=900)
    (log,) = archive.logs()
    for count, file in enumerate(reversed(log.files)):
        for chunk in reversed(file.chunks):
            folder = tmp_path / f"{count}-{chunk.begin}"
            _restored(folder, archive)
            _check_whole(folder, whole, source_files)
            store_of(chunk.uri).remove(chunk.uri)
        if count == 2:
            break


def test_an_existing_log_is_not_replaced(
    whole: Path, archive: RelayArchive, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "relay"))
    before = contents(folder)
    assert not _restored(folder, archive)
    assert contents(folder) == before


def test_a_log_that_lost_published_bytes_is_replaced(
    whole: Path, source_files: list[Path], archive: RelayArchive, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "relay"))
    last = sorted(contents(folder))[-1]
    (folder / last).write_bytes((folder / last).read_bytes()[:-20])
    assert _restored(folder, archive)
    _check_whole(folder, whole, source_files)


def test_only_needed_files_are_restored(
    whole: Path, source_files: list[Path], archive: RelayArchive, tmp_path: Path
) -> None:
    numbers = [file.number for file in open_log(str(whole)).files]
    for number in numbers[:-1]:
        folder = tmp_path / str(number)
        assert _restored(folder, archive, _previous(whole, number))
        listed = read_list(folder)
        assert listed is not None and listed.numbers == tuple(n for n in numbers if n >= number)
        received(folder, source_files)
        expected = transactions(whole)[-len(transactions(folder)) :]
        assert transactions(folder) == expected


def test_nothing_is_restored_that_the_target_has(
    whole: Path, archive: RelayArchive, tmp_path: Path
) -> None:
    folder = tmp_path / "relay"
    assert not _restored(folder, archive, _all(whole))
    with opened(folder) as writer:
        assert writer.log_id == ""


def test_an_archive_that_begins_after_the_target_is_not_used(whole: Path, tmp_path: Path) -> None:
    archive, lost = new_archive(), Path(shutil.copytree(whole, tmp_path / "lost"))
    purge(lost, 3)
    archiver(lost, archive).turn()
    assert not _restored(tmp_path / "relay", archive, _previous(whole, 2))
    assert _restored(tmp_path / "relay", archive, _previous(whole, 3))


def test_the_source_place_decides_without_gtids(
    whole: Path, source_files: list[Path], archive: RelayArchive, tmp_path: Path
) -> None:
    name, size = source_files[1].name, source_files[1].stat().st_size
    folder = tmp_path / "relay"
    assert restore(folder, archive, TARGET, Needed(None, (name, size)))
    with opened(folder) as writer:
        receive_at(writer, source_files)
    expected = transactions(whole)
    have = transactions(folder)
    assert have == expected[-len(have) :] and 10 <= len(have) < TRANSACTIONS
    end = (source_files[-1].name, source_files[-1].stat().st_size)
    for place in (end, ("other.000001", 4), None):
        assert not restore(tmp_path / "none", archive, TARGET, Needed(None, place))


def test_a_kill_at_each_step_of_a_restoration(
    whole: Path, source_files: list[Path], archive: RelayArchive, tmp_path: Path
) -> None:
    for steps in range(50):
        folder = tmp_path / str(steps)
        try:
            with killed_after(STEP, steps):
                _restored(folder, archive)
            break
        except KilledError:
            pass
        _restored(folder, archive)
        assert not (folder / RESTORING).exists()
        _check_whole(folder, whole, source_files)
    assert steps > 10


def test_a_restoration_that_is_killed_and_not_repeated_leaves_no_log(
    archive: RelayArchive, tmp_path: Path
) -> None:
    """The archive was switched off in between."""
    folder = tmp_path / "relay"
    with killed_after(STEP, 6), pytest.raises(KilledError):
        _restored(folder, archive)
    assert (folder / RESTORING).exists()
    with opened(folder) as writer:
        assert writer.log_id == ""
    assert not (folder / RESTORING).exists()


def test_restored_again_and_again(
    whole: Path, source_files: list[Path], archive: RelayArchive, tmp_path: Path
) -> None:
    """Each restored log is archived and lost. Only one generation stays, and no transaction is
    lost that the source no longer has."""
    for turn in range(3):
        folder = tmp_path / str(turn)
        assert _restored(folder, archive)
        with opened(folder):
            archiver(folder, archive).turn()
        assert len(archive.logs()) == 1
        assert transactions(folder) == transactions(whole)
    assert archived(archive, 4) == contents(folder)


def test_a_disk_that_is_lost_before_the_restored_log_is_archived(
    whole: Path, archive: RelayArchive, tmp_path: Path
) -> None:
    """The earlier generation is restored again, not the incomplete one."""
    first = tmp_path / "first"
    assert _restored(first, archive)
    with opened(first):
        unfinished, listed, end = archiver(first, archive), read_list(first), read_end(first)
        assert listed is not None and end is not None
        unfinished._begin(listed)
        unfinished._archive_file(listed.numbers[0], end)
    assert len(archive.logs()) == 2
    second = tmp_path / "second"
    assert _restored(second, archive)
    with opened(second):
        archiver(second, archive).turn()
    assert transactions(second) == transactions(whole)
    assert [log.generation for log in archive.logs()] == [3]


def test_a_kill_before_it_is_decided_what_the_target_needs(
    whole: Path, archive: RelayArchive, tmp_path: Path
) -> None:
    """Found: the mark was removed before. The next start continued a log that ends before the
    target, though the source may have purged what is between."""
    for steps in range(50):
        folder = tmp_path / str(steps)
        try:
            with killed_after(STEP, steps):
                _restored(folder, archive, _all(whole))
            break
        except KilledError:
            assert (folder / RESTORING).exists()
        assert not _restored(folder, archive, _all(whole))
        with opened(folder) as writer:
            assert writer.log_id == ""
    assert steps > 2


def test_files_that_were_restored_are_not_read_again(
    whole: Path, source_files: list[Path], archive: RelayArchive, tmp_path: Path
) -> None:
    (log,) = archive.logs()
    folder, first_log, store = tmp_path / "relay", None, store_of(archive.root)
    for steps in range(1, 1 + len(log.files)):
        with killed_after(STEP, steps == 1), pytest.raises(KilledError):  # after the next file
            _restored(folder, archive)
        ids = {log_id_of(path.read_bytes()[4:600]) for path in folder.glob("relay.00000?")}
        first_log = first_log or ids
        assert ids == first_log and len(ids) == 1
        for chunk in log.files[steps - 1].chunks[3:]:  # a second read would find damage
            store.put(chunk.uri, store.read(chunk.uri)[::-1])
    assert _restored(folder, archive)
    _check_whole(folder, whole, source_files)


def test_a_stop_ends_a_restoration_which_the_next_start_continues(
    whole: Path, source_files: list[Path], archive: RelayArchive, tmp_path: Path
) -> None:
    folder, reads = tmp_path / "relay", iter(range(20))
    with pytest.raises(Stopped):
        restore(
            folder, archive, TARGET, Needed(GtidSet()),
            is_stopping=lambda: next(reads, None) is None,
        )  # fmt: skip
    assert (folder / RESTORING).exists() and [*folder.glob("relay.00000?")]
    assert _restored(folder, archive)
    _check_whole(folder, whole, source_files)


def _flip(archive: RelayArchive, number: int, offset: int) -> None:
    """Change one byte of an archived file."""
    (log,) = archive.logs()
    file = next(file for file in log.files if file.number == number)
    chunk = next(chunk for chunk in file.chunks if chunk.begin <= offset < chunk.end)
    data = bytearray(store_of(chunk.uri).read(chunk.uri))
    data[offset - chunk.begin] ^= 0x40
    store_of(chunk.uri).put(chunk.uri, bytes(data))


@pytest.mark.parametrize("seed", range(12))
def test_a_restored_log_ends_before_damage(
    whole: Path, source_files: list[Path], tmp_path: Path, seed: int
) -> None:
    """The archiver keeps the damaged log: the rest of it may be of use."""
    archive, rng = new_archive(), random.Random(seed)
    _archive_copy(whole, tmp_path / "lost", archive)
    file = rng.choice(archive.logs()[0].files[:-1])
    _flip(archive, file.number, rng.randrange(300 if seed % 2 else 30, file.end))
    folder = tmp_path / "relay"
    if _restored(folder, archive):
        received(folder, [])
        have = transactions(folder)
        assert have == transactions(whole)[: len(have)] and len(have) < TRANSACTIONS
        with opened(folder):
            archiver(folder, archive).turn()
        assert [log.generation for log in archive.logs()] == [1, 2]
    _check_whole(folder, whole, source_files)


def test_a_log_that_lacks_a_chunk_is_left_for_the_one_before(
    whole: Path, source_files: list[Path], archive: RelayArchive, tmp_path: Path
) -> None:
    """Found: only the newest was tried, though an earlier one had everything."""
    received(tmp_path / "second", source_files)
    archiver(tmp_path / "second", archive).turn()
    newest = archive.logs()[1]
    store_of(archive.root).remove(newest.files[2].chunks[1].uri)
    folder = tmp_path / "relay"
    assert _restored(folder, archive)
    received(folder, [])
    assert transactions(folder) == transactions(whole)


def test_a_log_with_a_damaged_head_is_left_for_the_one_before(
    whole: Path, source_files: list[Path], archive: RelayArchive, tmp_path: Path
) -> None:
    received(tmp_path / "second", source_files)
    archiver(tmp_path / "second", archive).turn()
    store = store_of(archive.root)
    for file in archive.logs()[1].files:
        store.put(file.chunks[0].uri, bytes(file.chunks[0].end))
    folder = tmp_path / "relay"
    assert _restored(folder, archive)
    received(folder, [])
    assert transactions(folder) == transactions(whole)


def test_an_earlier_log_that_was_not_restored_stays(
    whole: Path, archive: RelayArchive, source_files: list[Path], tmp_path: Path
) -> None:
    """It may have more than the restored one. Found: the archiver removed it."""
    received(tmp_path / "short", source_files[:1])
    archiver(tmp_path / "short", archive).turn()
    folder = tmp_path / "relay"
    assert _restored(folder, archive)
    with opened(folder):
        archiver(folder, archive).turn()
    assert [log.generation for log in archive.logs()] == [1, 3]


def test_another_target_of_the_same_path_is_not_restored(whole: Path, tmp_path: Path) -> None:
    archive = new_archive()
    lost = Path(shutil.copytree(whole, tmp_path / "lost"))
    archiver(lost, archive, target_id="a").turn()
    needed = Needed(GtidSet())
    for target_id in ("b", ""):
        assert not restore(tmp_path / "relay", archive, TARGET, needed, target_id=target_id)
    assert restore(tmp_path / "relay", archive, TARGET, needed, target_id="a")
