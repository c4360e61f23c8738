"""From a reader's side: the source ends in the middle, the log is begun again, a reader is killed.

WL#5721: readers see whole transactions, each once, also if writers end at any point.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spark_repl.errors import LogError
from spark_repl.receiver.intake import Intake
from spark_repl.receiver.purge import purge
from spark_repl.receiver.writer import Limits, RelayWriter
from spark_repl.relay.published_end import read_end
from tests.support.binlog_writer import LogWriter, insert
from tests.support.dump_stream import dump, feed, packets, receive
from tests.support.relay_reader import T, ask, read, reader_of, receive_into, take_away

_FOLLOWS = """
import json, sys
from spark_repl.runtime.spark_release import ReadAllAvailable
from spark_repl.apply.stream.spark_source import MySQLRelayReader
reader = MySQLRelayReader({"path": sys.argv[1], "index": sys.argv[2]})
at = reader.initialOffset()
while True:
    end = reader.latestOffset(at, ReadAllAvailable())
    parts = [p for one in reader.partitions(at, end) for p in reader.read(one)]
    if end != at:
        gtids = [str(g) for p in parts for g in p.column("gtid").to_pylist()]
        print(json.dumps([gtids, end]), flush=True)
    at = end
"""


def gtids_of(source: LogWriter, count: int) -> list[str]:
    return [source.gtid(number) for number in range(count)]


@pytest.mark.parametrize("killed", [False, True], ids=["the source ends", "the receiver, too"])
def test_the_source_ends_in_mid_event(source: LogWriter, tmp_path: Path, killed: bool) -> None:
    """At some byte, again and again: the reader stands at the end of a whole transaction each time,
    and goes on from there when the rest was fetched again."""
    folder, files, seen = tmp_path / "relay", sorted(source.folder.iterdir()), list[str]()
    at: dict[str, Any] | None = None
    reader = reader_of(folder, tmp_path)
    broken = 0
    for size in (*range(900, 9000, 487), 1 << 20):
        writer = RelayWriter(folder, 4711, Limits(2000, 0))
        with writer:
            stream = packets(list(dump(files, writer.received)))
            feed(Intake(writer), stream[:size], 211)
            writer.sync()
            broken += writer.size > writer.whole
            inside = writer.size
            if read_end(folder) is not None:
                at = at or reader.initialOffset()
                end = ask(reader, at)
                seen += read(reader, at, end)
                at = end
                assert seen == gtids_of(source, len(seen))
                assert len(seen) == writer.received.count()
            if not killed:
                writer.drop_open()
                assert writer.size == writer.whole <= inside
                assert at is None or ask(reader, at) == at
        if writer.received.count() == 31:
            break
    assert broken > 3 and seen == gtids_of(source, 31)


def test_a_reader_that_is_killed_goes_on_where_it_was(source: LogWriter, tmp_path: Path) -> None:
    """It hinders neither the receiver nor a purge, and what follows its offset is there, once."""
    folder = receive_into(tmp_path / "relay", source)
    process = subprocess.Popen(
        [sys.executable, "-c", _FOLLOWS, str(folder), str(tmp_path / "own")],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    seen, place = json.loads(process.stdout.readline())
    assert seen == gtids_of(source, 31)
    for key in range(100, 110):
        source.transaction(insert(T, (key, "z" * 30)))
    os.kill(process.pid, signal.SIGSTOP)  # as one that hangs: it is in its file
    receive_into(folder, source)
    assert "1867" in purge(folder, 1000).warning
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    reader = reader_of(folder, tmp_path)
    end = ask(reader, place)
    assert seen + read(reader, place, end) == gtids_of(source, 41)
    reader.stop()
    assert purge(folder, 1000).files and not purge(folder, 1000).warning


def test_a_reader_of_a_reset_log_is_refused(source: LogWriter, tmp_path: Path) -> None:
    """The receiver begins a new log: who stands in the old one is told, and holds none of it."""
    folder = receive_into(tmp_path / "relay", source)
    reader = reader_of(folder, tmp_path, waitMs="20000")
    end = ask(reader, reader.initialOffset())
    other = LogWriter(tmp_path / "other", source="99999999-2222-3333-4444-555555555555")
    other.ddl(T.create)
    with RelayWriter(folder, 4711) as writer:
        writer.renew(type(writer.received)())
        receive(writer, [other.path])
    assert reader._lease._fd >= 0
    with pytest.raises(LogError, match="another log") as caught:
        ask(reader, end)
    assert caught.value.hint and reader._lease._fd == -1
    anew = reader_of(folder, tmp_path)
    first = anew.initialOffset()
    assert read(anew, first, ask(anew, first)) == [other.gtid(0)]


def test_a_log_that_is_taken_away_under_a_reader(source: LogWriter, tmp_path: Path) -> None:
    folder = receive_into(tmp_path / "relay", source)
    reader = reader_of(folder, tmp_path)
    end = ask(reader, reader.initialOffset())
    take_away(folder)
    with pytest.raises(LogError) as caught:
        ask(reader, end)
    assert caught.value.hint and reader._lease._fd == -1
