"""A receiver that ended inside a transaction: what it counts as received, and goes on with.

Each test says which of MySQL's own it stands for (scenarios.py), and asserts what that does.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_repl.gtid import GtidSet
from spark_repl.receiver.intake import Intake
from spark_repl.receiver.recovery import recover
from spark_repl.receiver.writer import RelayWriter
from spark_repl.relay.index import build_index
from spark_repl.relay.log import open_log
from spark_repl.relay.record import gtid_text
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.dump_stream import dump, events_of, feed, packets, receive

A = Table("a")
XID_EVENT, WRITE_ROWS, ROTATE = 16, 30, 4


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    made = LogWriter(tmp_path / "source")
    made.ddl(A.create)
    for key in range(4):
        made.transaction(insert(A, (key, "x")))
    return made


def received_in_part(folder: Path, log: LogWriter, *, stopped: bool) -> None:
    """The dump ends in front of the last XID event; the receiver was ``stopped``, or died."""
    events = list(dump([log.path]))
    assert events[-1][4] == XID_EVENT
    with RelayWriter(folder, 9) as writer:
        feed(Intake(writer), packets(events[:-1]))
        writer.sync()
        if stopped:
            writer.drop_open()
    if not stopped:
        left = b"".join(events[-4:-1])
        assert (folder / "relay.000001").read_bytes().endswith(left), "it lies in the file"


def gnos(folder: Path, store: Path) -> list[int]:
    records = build_index(open_log(str(folder)), str(store)).records
    return [int(text.rpartition(":")[2]) for text in gtid_text(records)]


@pytest.mark.parametrize("stopped", [True, False])
def test_a_transaction_without_its_end_is_fetched_again(
    log: LogWriter, tmp_path: Path, stopped: bool
) -> None:
    """Scenarios 55, 57, 59: the last transaction has no end when the receiver ends; another one
    comes behind it at the source. Its GTID is not among those that are asked for as received, it is
    fetched again with the one behind it, and the boundaries are those of the source."""
    folder = tmp_path / "relay"
    received_in_part(folder, log, stopped=stopped)
    log.transaction(insert(A, (9, "behind")))
    with RelayWriter(folder, 9) as writer:
        assert writer.received == GtidSet.parse(f"{log.source}:1-4")
        receive(writer, [log.path])
        assert writer.received == GtidSet.parse(f"{log.source}:1-6")
    assert gnos(folder, tmp_path / "index") == [1, 2, 3, 4, 5, 6]
    rows = [e for e in events_of(folder / "relay.000001") if e[4] == WRITE_ROWS]
    assert len(rows) == 5, "no rows of the part that came first"


def test_a_connection_that_ends_inside_a_transaction(log: LogWriter, tmp_path: Path) -> None:
    """Scenarios 9, 55: the connection is made again in mid-transaction, by a receiver that goes on,
    and the source rotates: the boundaries are those of the source."""
    folder, events = tmp_path / "relay", list(dump([log.path]))
    log.rotate()
    log.transaction(insert(A, (9, "behind")))
    with RelayWriter(folder, 9) as writer:
        feed(Intake(writer), packets(events[:-1]))
        receive(writer, sorted(log.folder.iterdir()))
        assert writer.received == GtidSet.parse(f"{log.source}:1-6")
    assert gnos(folder, tmp_path / "index") == [1, 2, 3, 4, 5, 6]


def test_a_transaction_with_its_end_is_not_fetched_again(log: LogWriter, tmp_path: Path) -> None:
    """Scenario 59: the last one is whole."""
    folder = tmp_path / "relay"
    with RelayWriter(folder, 9) as writer:
        receive(writer, [log.path])
    with RelayWriter(folder, 9) as writer:
        have = writer.received
        assert have == GtidSet.parse(f"{log.source}:1-5")
    assert not [e for e in dump([log.path], have) if e[4] == XID_EVENT]


@pytest.mark.parametrize("files", [1, 2])
def test_the_place_is_found_without_an_applier(log: LogWriter, tmp_path: Path, files: int) -> None:
    """Scenario 53: no applier has ever run: file and position of the source are those of the last
    ROTATE from the source that the log holds, and of what follows it."""
    log.rotate()
    log.transaction(insert(A, (8, "x")))
    paths, folder = sorted(log.folder.iterdir())[:files], tmp_path / "relay"
    with RelayWriter(folder, 9) as writer:
        receive(writer, paths)
    found = recover(folder)
    assert found is not None
    place = ("bin.000002", 4) if files == 1 else (log.path.name, log.path.stat().st_size)
    assert (found.source_file, found.source_position) == place
