"""What a replica's file leaves open at its end, and what the next one does with that."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_repl.binlog.event_types import CRC_LENGTH, EventFlag, EventType
from spark_repl.errors import LogError
from spark_repl.receiver.own_events import make_event, normal, own_rotate, with_checksum
from spark_repl.relay.index import build_index
from spark_repl.relay.log import open_log
from spark_repl.relay.record import gtid_text
from spark_repl.relay.split_transactions import is_split
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.relay_split import description, relayed, source_events, write_file
from tests.unit.relay.test_source_places import moved
from tests.unit.relay.test_split_transactions import changed, index_of, told

A = Table("a")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three transactions: events 0 and 1, 2 to 6, 7 to 11."""
    made = LogWriter(tmp_path / "log")
    made.ddl(A.create)
    for key in (1, 2):
        made.transaction(insert(A, (key, "one")))
    return made.folder


def unchecked(event: bytes) -> bytes:
    """The event as a source with binlog_checksum=NONE has it."""
    bare = bytearray(event[:-CRC_LENGTH])
    bare[9:13] = len(bare).to_bytes(4, "little")
    return bytes(bare)


def begins(log: Path) -> list[int]:
    return [i for i, event in enumerate(source_events(log)) if event[4] == EventType.GTID]


def test_what_is_begun_anew_in_one_file_goes_on_in_the_next(log: Path, tmp_path: Path) -> None:
    """Behind a connection that was lost the source's FORMAT_DESCRIPTION stands amid the file."""
    events, source, folder = source_events(log), description(log), tmp_path / "relay"
    want = told(index_of(relayed(log, tmp_path / "whole", []), tmp_path / "w"))
    begin = begins(log)[1]
    for cut in range(begin + 1, begins(log)[2]):
        once = [*events[begin:5], normal(source)]
        write_file(folder, 1, source, [*events[:begin], *once, *once, *events[begin:cut]])
        write_file(folder, 2, source, events[cut:], rotated=False)
        index = index_of(folder, tmp_path / f"i{cut}")
        assert told(index) == want, cut
        assert changed(folder) == changed(log)


def test_only_behind_a_new_connection_is_it_begun_anew(log: Path, tmp_path: Path) -> None:
    """Else a transaction that lost its end would be passed over for the next one."""
    events, source, folder = source_events(log), description(log), tmp_path / "relay"
    rotate = own_rotate("relay.000003", 900, 1000, checksum=True)
    write_file(folder, 1, source, events[:4])
    path = write_file(folder, 2, source, [events[4], rotate, *events[2:]], rotated=False)
    with pytest.raises(LogError, match="begins while another is open") as found:
        index_of(folder, tmp_path / "i")
    assert found.value.file == path.name and found.value.hint
    write_file(folder, 2, source, [events[4], normal(source), *events[2:]], rotated=False)
    assert len(index_of(folder, tmp_path / "i")) == len(begins(log))


def test_what_the_replica_wrote_itself_is_none_of_its_events(log: Path, tmp_path: Path) -> None:
    """Of whatever type: its place is one of the relay log's."""
    events, source, folder = source_events(log), description(log), tmp_path / "relay"
    whole = index_of(relayed(log, tmp_path / "whole", []), tmp_path / "w")
    relay = int(EventFlag.RELAY_LOG)
    own = make_event(EventType.IGNORABLE, b"", 900, flags=relay, end_log_pos=77, checksum=True)
    write_file(folder, 1, source, events[:4])
    write_file(folder, 2, source, [own, *events[4:]], rotated=False)
    index = index_of(folder, tmp_path / "i")
    assert gtid_text(index.records) == gtid_text(whole.records)
    assert changed(folder) == changed(log)


def test_a_file_without_events_behind_one_that_was_cut_in_its_first(
    log: Path, tmp_path: Path
) -> None:
    """The transaction lies in the third file alone."""
    events, source, folder = source_events(log), description(log), tmp_path / "relay"
    want = told(index_of(relayed(log, tmp_path / "whole", []), tmp_path / "w"))
    write_file(folder, 1, source, [*events[:2], events[2][:30]], rotated=False)
    write_file(folder, 2, source, [])  # connected, and stopped again
    write_file(folder, 3, source, events[2:], rotated=False)
    index = index_of(folder, tmp_path / "i")
    assert told(index) == want and not is_split(index.records).any()
    assert (index.records["position"] >> 40).tolist() == [1, 3, 3]
    assert changed(folder) == changed(log)


def test_what_can_not_stand_in_it_is_refused(log: Path, tmp_path: Path) -> None:
    """A second BEGIN, at its place."""
    events, source, folder = source_events(log), description(log), tmp_path / "relay"
    write_file(folder, 1, source, events[:4])
    again = moved(events[3], len(events[3]))
    path = write_file(folder, 2, source, [again, *events[4:]], rotated=False)
    with pytest.raises(LogError, match="can't stand in the transaction that goes on") as found:
        index_of(folder, tmp_path / "i")
    assert found.value.file == path.name and found.value.hint


def test_a_damaged_payload_without_a_checksum_is_read_anew_when_it_was_mended(
    tmp_path: Path,
) -> None:
    """A reader that read it before continues with events without checksums."""
    made, folder = LogWriter(tmp_path / "log"), tmp_path / "relay"
    made.transaction(insert(A, (1, "packed")), compressed=True)
    made.transaction(insert(A, (2, "plain")))
    bare = with_checksum(description(made.folder)[:-5] + b"\0")
    events = [unchecked(event) for event in source_events(made.folder)]
    path = write_file(folder, 1, bare, events, rotated=False)
    whole = path.read_bytes()
    want = told(index_of(folder, tmp_path / "w"))
    path.write_bytes(whole.replace(b"\x28\xb5\x2f\xfd", b"\0\0\0\0"))
    broken = build_index(open_log(str(folder)), str(tmp_path / "i"), up_to_damage=True)
    assert broken.damage and broken.damage.file == path.name and not len(broken)
    path.write_bytes(whole)
    for known in (broken, None):  # of what a look before had, and what was stored
        assert told(index_of(folder, tmp_path / "i", known)) == want
    assert len(want) == 2 and changed(folder) == changed(made.folder)
