"""A relay log that can't go on is removed: whatever of it is left, no reader takes it for a log."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_repl.errors import LogError
from spark_repl.receiver.purge import clear
from spark_repl.receiver.writer import Limits, RelayWriter
from spark_repl.relay import log as module
from spark_repl.relay.lease import Lease
from spark_repl.relay.log import open_log
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.dump_stream import receive

T = Table("a")


@pytest.fixture
def begin(tmp_path: Path) -> Callable[[], None]:
    """Receives a log of several files, whatever lies there."""
    source = LogWriter(tmp_path / "source")
    for key in range(40):
        source.transaction(insert(T, (key, "x" * 40)))

    def received() -> None:
        with RelayWriter(tmp_path / "relay", 4711, Limits(2000, 0)) as relay:
            receive(relay, [source.path])

    return received


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ATTEMPTS", 2)


def test_a_clear_that_is_killed_leaves_no_log_for_readers(
    begin: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin()
    folder, true, seen = tmp_path / "relay", os.unlink, list[str]()

    def unlink(path: str) -> None:
        true(path)
        with pytest.raises(LogError) as raised:
            open_log(str(folder))
        seen.append(str(raised.value))

    assert len(open_log(str(folder)).files) > 2
    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", unlink)
        clear(folder)
    assert len(seen) > 4 and "no binary logs" in seen[-1]
    assert all("the list of its files is gone" in text for text in seen[:-1])


@pytest.mark.parametrize("after", [1, 2, 3])  # how many went: the list, then files
def test_the_next_receiver_goes_on(
    begin: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    begin()
    folder, true, left = tmp_path / "relay", os.unlink, [after]

    def unlink(path: str) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        true(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", unlink)
        with pytest.raises(KeyboardInterrupt):
            clear(folder)
    begin()
    numbers = [file.number for file in open_log(str(folder)).files]
    assert numbers == list(range(after, numbers[-1] + 1))


def test_nothing_of_it_goes_while_it_is_written_or_read(
    begin: Callable[[], None], tmp_path: Path
) -> None:
    begin()
    folder = tmp_path / "relay"
    before = sorted(folder.iterdir())
    with (
        RelayWriter(folder, 4711),
        pytest.raises(LogError, match="another receiver writes this relay log"),
    ):
        clear(folder)
    with Lease() as lease:
        lease.hold(open_log(str(folder)), 2)
        with pytest.raises(
            LogError, match=rf"while it is read \(process {os.getpid()}\)"
        ) as raised:
            clear(folder)
        assert "relay.path of its own" in str(raised.value.hint)
    assert sorted(folder.iterdir()) == before
    clear(folder)
    assert not list(folder.glob("relay.0*"))


def test_a_list_that_was_removed_by_hand(begin: Callable[[], None], tmp_path: Path) -> None:
    begin()
    (tmp_path / "relay/relay.index").unlink()
    for path in (tmp_path / "relay", tmp_path / "relay/relay.index"):
        with pytest.raises(LogError, match="the list of its files is gone") as raised:
            open_log(str(path))
        assert "start the receiver again" in str(raised.value.hint)
    begin()
    assert len(open_log(str(tmp_path / "relay")).files) > 2


def test_a_missing_file_of_a_cleared_log_is_named(
    begin: Callable[[], None], tmp_path: Path
) -> None:
    begin()
    with pytest.raises(LogError, match=r"relay\.000099 does not exist"):
        open_log(str(tmp_path / "relay/relay.000099"))
