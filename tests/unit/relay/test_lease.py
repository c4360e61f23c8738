"""Readers that are in a relay log's files while it is purged: WL#5721, MySQL's warning 1867."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spark_repl import read_changes
from spark_repl.receiver.purge import purge
from spark_repl.relay.lease import Lease, readers
from spark_repl.relay.log import open_log, read_while_purged
from spark_repl.relay.log_inspection import dump
from tests.support.relay_reader import ask, read, reader_of

_HOLDS = """
import sys
from spark_repl.relay.lease import Lease
from spark_repl.relay.log import open_log
lease = Lease()
lease.hold(open_log(sys.argv[1]), int(sys.argv[2]))
print("held", flush=True)
sys.stdin.read()
"""


def numbers(relay: Path) -> list[int]:
    return [file.number for file in open_log(str(relay)).files]


@pytest.fixture
def holder(relay: Path) -> Iterator[Callable[[int], subprocess.Popen[str]]]:
    """Starts processes that hold a file."""
    made = []

    def start(number: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", _HOLDS, str(relay), str(number)]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        made.append(process)
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        return process

    yield start
    for process in made:
        process.kill()
        process.communicate()


def test_a_purge_spares_what_others_read_and_a_dead_one_holds_nothing(
    relay: Path, holder: Callable[[int], subprocess.Popen[str]]
) -> None:
    # Scenario 104: 1867, with names.
    last = numbers(relay)[-1]
    first, second = holder(2), holder(4)
    purged = purge(relay, last)
    assert purged.files == ("relay.000001",) and numbers(relay)[0] == 2
    assert purged.warning == (
        "file relay.000002 was not purged because it was being read by 1 reader(s) (process"
        f" {first.pid}), purged only 1 out of {last - 1} files (1867)"
    )
    assert purge(relay, last).files == ()
    first.send_signal(signal.SIGKILL)
    first.wait()
    purged = purge(relay, last)
    assert purged.files == ("relay.000002", "relay.000003")
    assert f"process {second.pid}" in purged.warning
    second.send_signal(signal.SIGKILL)
    second.wait()
    purged = purge(relay, last)
    assert len(purged.files) == last - 4 and not purged.warning
    assert numbers(relay) == [last]


def test_a_stream_holds_the_file_where_it_is(relay: Path, tmp_path: Path) -> None:
    """Two streams: what both have passed goes; a batch that was planned can be read."""
    log = open_log(str(relay))
    last = log.files[-1].number
    slow, quick = reader_of(relay, tmp_path), reader_of(relay, tmp_path)
    first = slow.initialOffset()
    end = ask(quick, quick.initialOffset())
    assert not purge(relay, last).files
    assert len(read(quick, first, end)) == 31
    assert ask(quick, end) == end  # now it is in the last file
    assert not purge(relay, last).files
    assert readers(log.files[0].path) == (os.getpid(),) == readers(log.files[-1].path)
    assert len(read(slow, first, ask(slow, first))) == 31
    slow.stop()
    purged = purge(relay, last)
    assert len(purged.files) == last - 1 and not purged.warning
    assert ask(quick, end) == end


def test_a_stream_that_holds_nothing(relay: Path, tmp_path: Path) -> None:
    """As the applier's own: it holds the file where its tables are."""
    reader = reader_of(relay, tmp_path, lease="false")
    reader.initialOffset()
    assert purge(relay, 3).files == ("relay.000001", "relay.000002")


def test_a_dump_holds_the_file_that_it_is_in(relay: Path) -> None:
    # Scenario 103: a purge leaves what is dumped.
    last = numbers(relay)[-1]
    lines = dump(open_log(str(relay)))
    assert next(lines).file == "relay.000001"
    assert not purge(relay, last).files
    while next(lines).file != "relay.000003":
        pass
    assert purge(relay, last).files == ("relay.000001", "relay.000002")
    assert {line.file for line in lines} == {f"relay.{n:06d}" for n in range(3, last + 1)}
    assert len(purge(relay, last).files) == last - 3


def test_read_changes_holds_all_that_it_has_to_read(relay: Path) -> None:
    last = numbers(relay)[-1]
    batches = read_changes(str(relay))
    count = len(next(batches))
    assert not purge(relay, last).files
    count += sum(len(batch) for batch in batches)
    assert count == 30
    assert len(purge(relay, last).files) == last - 1


def test_a_file_that_goes_while_it_is_taken(relay: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Purged between the reader's open and its lock: the reader looks again."""
    true, asked = fcntl.flock, []

    def purged_before(fd: int, how: int) -> None:
        if not asked:
            asked.append(how)
            assert len(purge(relay, 3).files) == 2
        true(fd, how)

    monkeypatch.setattr(fcntl, "flock", purged_before)
    with Lease() as lease:
        log, _ = read_while_purged(str(relay), lambda found: lease.hold(found, 1))
        assert log.files[0].number == 3
        assert not purge(relay, 100).files


def test_the_file_before_is_held_until_the_next_one_is(relay: Path) -> None:
    """A purge in between, or that has taken the next one, would take both."""
    log = open_log(str(relay))
    with Lease() as lease:
        lease.hold(log, 1)
        Path(log.file(3).path).unlink()
        with pytest.raises(FileNotFoundError):
            lease.hold(log, 3)
        assert not purge(relay, 100).files


def test_a_recorded_log_is_not_held(source: object, relay: Path, tmp_path: Path) -> None:
    folder = tmp_path / "recorded"
    folder.mkdir()
    for path in sorted(relay.glob("relay.0*"))[:2]:
        (folder / path.name).write_bytes(path.read_bytes())
    with Lease() as lease:
        lease.hold(open_log(str(folder)), 1)
        assert readers(str(folder / "relay.000001")) == ()
