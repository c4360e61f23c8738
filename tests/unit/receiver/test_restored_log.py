"""A relay log that is restored from its archive: what it has, and what kills leave of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spark_repl.crash_points import listening
from spark_repl.gtid import GtidSet
from spark_repl.receiver.purge import purge
from spark_repl.receiver.recovery import RESTORING
from spark_repl.receiver.restored_log import restore
from spark_repl.relay.archive import RelayArchive
from spark_repl.relay.file_list import read_list
from spark_repl.relay.log import open_log
from spark_repl.relay.published_end import read_end
from spark_repl.relay.verify import verify_log
from spark_repl.runtime.stores import store_of
from tests.support.archived_log import (
    TARGET,
    TRANSACTIONS,
    archived,
    archiver,
    contents,
    new_archive,
    opened,
    received,
    transactions,
    write_source,
)
from tests.support.dump_stream import receive_at


class _KilledError(BaseException):
    pass


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_source(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def whole(source: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "relay"
    received(folder, source)
    return folder


@pytest.fixture
def archive(whole: Path, tmp_path: Path) -> RelayArchive:
    """The archive of a log whose folder is lost."""
    archive = new_archive()
    archiver(Path(shutil.copytree(whole, tmp_path / "lost")), archive).turn()
    return archive


def _previous(folder: Path, number: int) -> GtidSet:
    return open_log(str(folder)).head(number).previous_gtids


def _all(folder: Path) -> GtidSet:
    with opened(folder) as writer:
        return writer.received


def _restored(folder: Path, archive: RelayArchive, executed: GtidSet | None = None) -> bool:
    return restore(folder, archive, TARGET, GtidSet() if executed is None else executed)


def _check_whole(folder: Path, whole: Path, source: list[Path]) -> None:
    """Continue the log in ``folder`` at the source, and compare it with a log without a loss."""
    received(folder, source)
    assert transactions(folder) == transactions(whole)
    assert all(check.ok for check in verify_log(open_log(str(folder))))


def test_a_lost_log_is_restored_under_a_new_id(
    whole: Path, source: list[Path], archive: RelayArchive, tmp_path: Path
) -> None:
    folder = tmp_path / "relay"
    assert _restored(folder, archive)
    with opened(folder) as writer:
        assert writer.received == _all(whole)
        assert writer.log_id != open_log(str(whole)).log_id
    assert contents(folder).keys() == contents(whole).keys()
    assert transactions(folder) == transactions(whole)
    _check_whole(folder, whole, source)


def test_every_archived_end_continues_at_the_source(
    whole: Path, source: list[Path], tmp_path: Path
) -> None:
    """The archive may end at any chunk, within a transaction too."""
    archive = new_archive()
    archiver(Path(shutil.copytree(whole, tmp_path / "lost")), archive, chunk_bytes=900).turn()
    (log,) = archive.logs()
    for count, file in enumerate(reversed(log.files)):
        for chunk in reversed(file.chunks):
            folder = tmp_path / f"{count}-{chunk.begin}"
            _restored(folder, archive)
            _check_whole(folder, whole, source)
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
    whole: Path, source: list[Path], archive: RelayArchive, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "relay"))
    last = sorted(contents(folder))[-1]
    (folder / last).write_bytes((folder / last).read_bytes()[:-20])
    assert _restored(folder, archive)
    _check_whole(folder, whole, source)


def test_only_needed_files_are_restored(
    whole: Path, source: list[Path], archive: RelayArchive, tmp_path: Path
) -> None:
    numbers = [file.number for file in open_log(str(whole)).files]
    for number in numbers[:-1]:
        folder = tmp_path / str(number)
        assert _restored(folder, archive, _previous(whole, number))
        listed = read_list(folder)
        assert listed is not None and listed.numbers == tuple(n for n in numbers if n >= number)
        received(folder, source)
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
    whole: Path, source: list[Path], archive: RelayArchive, tmp_path: Path
) -> None:
    name, size = source[1].name, source[1].stat().st_size
    folder = tmp_path / "relay"
    assert restore(folder, archive, TARGET, None, (name, size))
    with opened(folder) as writer:
        receive_at(writer, source)
    expected = transactions(whole)
    have = transactions(folder)
    assert have == expected[-len(have) :] and 10 <= len(have) < TRANSACTIONS
    end = (source[-1].name, source[-1].stat().st_size)
    for place in (end, ("other.000001", 4), None):
        assert not restore(tmp_path / "none", archive, TARGET, None, place)


@contextmanager
def _failing(after: int) -> Iterator[None]:
    """End the process, as a kill does, at a step of a restoration."""
    steps = 0

    def reached(point: str) -> None:
        nonlocal steps
        steps += point == "relay_restoring"
        if steps > after:
            raise _KilledError

    with listening(reached):
        yield


def test_a_kill_at_each_step_of_a_restoration(
    whole: Path, source: list[Path], archive: RelayArchive, tmp_path: Path
) -> None:
    for steps in range(0, 200, 4):
        folder = tmp_path / str(steps)
        try:
            with _failing(steps):
                _restored(folder, archive)
            break
        except _KilledError:
            pass
        _restored(folder, archive)
        assert not (folder / RESTORING).exists()
        _check_whole(folder, whole, source)
    assert steps > 10


def test_a_restoration_that_is_killed_and_not_repeated_leaves_no_log(
    archive: RelayArchive, tmp_path: Path
) -> None:
    """The archive was switched off in between."""
    folder = tmp_path / "relay"
    with _failing(6), pytest.raises(_KilledError):
        _restored(folder, archive)
    assert (folder / RESTORING).exists()
    with opened(folder) as writer:
        assert writer.log_id == ""
    assert not (folder / RESTORING).exists()


def test_restored_again_and_again(
    whole: Path, source: list[Path], archive: RelayArchive, tmp_path: Path
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
