"""Places of the source in a relay log: of each transaction, and back; files that are larger than an
event's end_log_pos can say; files that are others of the same name."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from spark_repl.errors import HistoryError, SourceError
from spark_repl.gtid import GtidSet
from spark_repl.receiver.intake import Intake
from spark_repl.receiver.writer import Limits, RelayWriter
from spark_repl.relay.index import TransactionIndex, build_index
from spark_repl.relay.log import RelayLog, open_log
from spark_repl.relay.source_places import SourcePlace, SourcePlaces, unwrapped
from spark_repl.source.dump import dump_file
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.dump_stream import events_of, feed, packets, receive_at, rotate
from tests.support.relay_split import cut_places, description, relayed, source_events, write_file

A = Table("a")
GIB = 1 << 30


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    """Two files with three transactions each."""
    made = LogWriter(tmp_path / "log")
    made.anonymous = True
    for number in range(2):
        for key in range(3):
            made.transaction(insert(A, (key, "x")))
        if not number:
            made.rotate()
    return made


def received(log: LogWriter, folder: Path, segment: int = GIB) -> tuple[RelayLog, TransactionIndex]:
    with RelayWriter(folder, 9, Limits(segment)) as writer:
        receive_at(writer, sorted(log.folder.iterdir()))
    relay = open_log(str(folder))
    return relay, build_index(relay, str(folder.parent / "index"), base=7)


@pytest.mark.parametrize("segment", [GIB, 500])
def test_each_transaction_has_its_place_and_is_found_there(log, tmp_path, segment):
    relay, index = received(log, tmp_path / "relay", segment)
    assert (len(relay.files) > 1) == (segment < GIB)
    places = SourcePlaces()
    for record, (file, start, end) in zip(index.records, log.spans, strict=True):
        begin = places.begin_of(relay, index, int(record["position"]))
        behind = places.end_of(relay, index, int(record["end"]))
        assert begin is not None and (begin.file, begin.position) == (file, start)
        assert behind is not None and (behind.file, behind.position) == (file, end)
        assert (behind.server_id, behind.began) == (1, 1_700_000_001)
        assert places.find(relay, index, behind) == record["end"]
        assert places.find(relay, index, replace(behind, position=end - 1)) is None
        assert places.find(relay, index, replace(behind, server_id=2)) is None
        assert places.find(relay, index, replace(behind, began=1)) is None
    first = places.first(relay, index)
    assert first == SourcePlace("bin.000001", 4, 1_700_000_001, 1)
    assert places.find(relay, index, first) == (7 + relay.files[0].number) << 40


def test_behind_a_transaction_that_began_in_a_file_before(tmp_path):
    """Where it began there is no place of this file, which has two of the source's behind it."""
    log = LogWriter(tmp_path / "log")
    log.transaction(insert(A, *[(key, "x" * 20) for key in range(100)]))
    for key in range(100, 103):
        log.transaction(insert(A, (key, "x")))
        log.rotate()
    split = list(cut_places(log.folder))[4]
    relay = open_log(str(relayed(log.folder, tmp_path / "relay", [split])))
    index, places = build_index(relay, str(tmp_path / "index")), SourcePlaces()
    begins = index.records["position"] % (1 << 40)
    assert begins[1] > relay.size(2) - relay.head(2).length, "no place of the second file"
    ends = [places.end_of(relay, index, int(end)) for end in index.records["end"]]
    assert [end and (end.file, end.position) for end in ends] == [
        (file, end) for file, _, end in log.spans
    ]


def test_behind_another_server_the_place_is_of_that_one(log, tmp_path):
    """Its file has the same name, and was begun in the same second."""
    other = LogWriter(tmp_path / "other", server_id=2, gno=50)
    other.transaction(insert(A, (9, "x")))
    events = [*source_events(log.folder), rotate("bin.000001"), description(other.folder)]
    folder = tmp_path / "relay"
    write_file(
        folder, 1, description(log.folder), [*events, *source_events(other.folder)], rotated=False
    )
    relay = open_log(str(folder))
    index, places = build_index(relay, str(tmp_path / "index")), SourcePlaces()
    ends = [places.end_of(relay, index, int(end)) for end in index.records["end"][-2:]]
    assert [end and end.server_id for end in ends] == [1, 2]


def test_places_of_appended_files_are_found(log, tmp_path):
    relay, index = received(log, tmp_path / "relay")
    places = SourcePlaces()
    assert places.end_of(relay, index, index.end) == SourcePlace(
        log.spans[-1][0], log.spans[-1][2], 1_700_000_001, 1
    )
    log.rotate()
    log.transaction(insert(A, (9, "x")))
    relay, index = received(log, tmp_path / "relay")
    found = places.end_of(relay, index, index.end)
    assert found is not None and (found.file, found.position) == (
        log.spans[-1][0],
        log.spans[-1][2],
    )


def test_records_are_counted_up_to_a_place(log, tmp_path):
    relay, index = received(log, tmp_path / "relay")
    places, records = SourcePlaces(), index.records
    for count, (file, _, end) in enumerate(log.spans, 1):
        for position, want in ((end - 1, count - 1), (end, count), (end + 1, count)):
            place = SourcePlace(file, position, 1_700_000_001, 1)
            assert places.count_up_to(records, relay, index, place) == want
    with pytest.raises(HistoryError, match="begun at another time"):
        places.count_up_to(records, relay, index, SourcePlace("bin.000002", 4, 1, 1))


def test_places_of_the_source_are_ordered_by_file_and_position():
    place = SourcePlace("bin.000009", 500, 1, 1)
    for file, position, want in (
        ("bin.000009", 500, True), ("bin.000009", 501, False), ("bin.000008", 900, True),
        ("bin.000010", 4, False), ("other.000001", 4, False),
    ):  # fmt: skip
        assert place.reaches(SourcePlace(file, position, 1, 1)) == want
    with pytest.raises(HistoryError):
        place.reaches(SourcePlace("bin.000009", 4, 2, 1))
    assert SourcePlace.of({"file": "relay.000001", "position": 4}) is None
    assert SourcePlace.of(place.to_json()) == place


@pytest.mark.parametrize("above", [0, 5 * GIB, 9 * GIB])
def test_places_after_4_gib_of_a_file_are_found(log, tmp_path, above):
    """A transaction is that large, and others follow it: their end_log_pos has begun again."""
    first = sorted(log.folder.iterdir())[0]
    events = [moved(event, above) for event in events_of(first)]
    folder = tmp_path / "relay"
    with RelayWriter(folder, 9) as writer:
        begin = above + log.spans[0][1]
        stream = [rotate("bin.000001", begin), *events[:1], *events[2:-1]]
        feed(Intake(writer), packets(stream))
        writer.sync()
        end = above + log.spans[2][2]
        assert writer.source_position == end
    with RelayWriter(folder, 9) as writer:
        assert (writer.source_file, writer.source_position) == ("bin.000001", end)
        if above:
            with pytest.raises(SourceError, match="behind 4 GiB"):
                dump_file(9, writer.source_file, writer.source_position)
    relay = open_log(str(folder))
    index = build_index(relay, str(tmp_path / "index"))
    behind = SourcePlaces().end_of(relay, index, index.end)
    assert behind is not None and behind.position == end


def moved(event: bytes, above: int) -> bytes:
    """An event as it would be so many bytes further on in its file."""
    end = (int.from_bytes(event[13:17], "little") + above) % (1 << 32)
    data = event[:13] + struct.pack("<I", end) + event[17:-4]
    return data + zlib.crc32(data).to_bytes(4, "little")


def test_unwrapped_is_the_nearest():
    assert unwrapped(100, 200) == 100
    assert unwrapped(100, (1 << 32) + 90) == (1 << 32) + 100
    assert unwrapped((1 << 32) - 5, 0) == (1 << 32) - 5


@pytest.mark.parametrize("again", [False, True])
def test_another_file_of_the_same_name_is_refused(log, tmp_path, again):
    """Behind RESET; not what is the same file, whether the receiver was started again or not."""
    folder = tmp_path / "relay"
    files = sorted(log.folder.iterdir())
    with RelayWriter(folder, 9) as writer:
        receive_at(writer, files)
        if not again:
            receive_at(writer, files)
            refused(writer, tmp_path)
    with RelayWriter(folder, 9) as writer:
        receive_at(writer, files)
        refused(writer, tmp_path)
        assert writer.received == GtidSet()


def test_stopped_between_a_rotate_and_the_next_file(log, tmp_path):
    """Scenario 114: what described the file before says nothing about the next one."""
    log.anonymous = False
    for _ in range(2):
        log.transaction(insert(A, (9, "x")))
        log.rotate()
    folder, files = tmp_path / "relay", sorted(log.folder.iterdir())
    for until in range(1, len(files) + 1):
        with RelayWriter(folder, 9) as writer:
            receive_at(writer, files[:until])
            assert writer.source_file == files[min(until, len(files) - 1)].name
    places, relay = SourcePlaces(), open_log(str(folder))
    index = build_index(relay, str(tmp_path / "index"))
    began = {places.end_of(relay, index, int(end)).began for end in index.records["end"][-2:]}  # type: ignore[union-attr]
    assert began == {1_700_000_001, 1_700_000_002}


def refused(writer: RelayWriter, tmp_path: Path) -> None:
    other = LogWriter(tmp_path / "other", gno=50)
    other.rotate()
    with pytest.raises(SourceError, match="another file than the one of that name"):
        receive_at(writer, sorted(other.folder.iterdir()))


def test_a_place_of_another_server_is_of_another_log():
    """Whose files have names of the same stem; of the same file also when it was begun tells."""
    place = SourcePlace("bin.000009", 500, 1, 1)
    assert place.is_of_log(SourcePlace("bin.000010", 4, 9, 1))
    assert not place.is_of_log(SourcePlace("bin.000010", 4, 9, 2))
    assert not place.is_of_log(SourcePlace("other.000010", 4, 9, 1))
    assert not place.is_of_log(SourcePlace("bin.000009", 4, 2, 1))
