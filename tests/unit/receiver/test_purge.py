"""Purging files of a relay log, and clearing it."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_repl.receiver.purge import clear, deciding, purge
from spark_repl.receiver.recovery import numbers_in, recover
from spark_repl.relay import file_list
from spark_repl.relay.published_end import read_end


def listed(folder: Path) -> tuple[int, ...]:
    found = file_list.read_list(folder)
    return found.numbers if found else ()


def test_a_purge_returns_the_files_and_bytes_that_it_removed(relay: Path) -> None:
    size = [(relay / file_list.file_name(n)).stat().st_size for n in listed(relay)]
    last = max(listed(relay))
    assert purge(relay, 1).files == ()
    found = purge(relay, 3)
    assert (found.files, found.bytes) == (("relay.000001", "relay.000002"), sum(size[:2]))
    (relay / "relay.000002").touch()  # left over by one that was cut off
    (relay / "relay.000003").unlink()  # by hand
    found = purge(relay, 4)
    assert found.files == ("relay.000002",) and found.bytes == 0
    assert listed(relay) == tuple(range(4, last + 1))
    (relay / file_list.NAME).rename(relay / "kept")
    assert purge(relay, 5) == purge(relay, 5) and len(numbers_in(relay)) == last - 3
    file_list.write_list(relay, file_list.FileList("ab" * 16, (5,)))
    assert purge(relay, 5).files == () and len(numbers_in(relay)) == last - 3


def test_a_log_that_is_cleared_leaves_nothing(relay: Path) -> None:
    (relay / file_list.NAME).unlink()  # as one that was cut off
    clear(relay)
    assert read_end(relay) is None and numbers_in(relay) == []
    assert not recover(relay)
    clear(relay)


def test_deciding_needs_no_lock_where_nothing_is_purged(relay: Path, tmp_path: Path) -> None:
    recorded = tmp_path / "recorded"
    recorded.mkdir()
    with deciding(recorded):
        assert not [*recorded.iterdir()]
    held = file_list.locked(relay, "relay.purge.lock", wait=False)
    with deciding(relay), pytest.raises(BlockingIOError), held:
        pass
