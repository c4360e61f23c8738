"""Transactions over several files of a replica's relay log, cut between any two events.

Scenario 58: r/rpl_gtid_transaction_split_across_relay_logs.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spark_repl import read_changes
from spark_repl.binlog.event_types import EventType
from spark_repl.binlog.events.transaction import Kind
from spark_repl.decode import spans
from spark_repl.errors import LogError
from spark_repl.gtid import GtidSet
from spark_repl.receiver.own_events import with_checksum
from spark_repl.relay.index import TransactionIndex, build_index
from spark_repl.relay.log import open_log
from spark_repl.relay.log_inspection import dump, verify_log
from spark_repl.relay.record import gtid_text
from spark_repl.relay.split_transactions import Piece, is_split, open_pieces, pieces_of
from tests.support.binlog_writer import LogWriter, Table, Xid, delete, insert, update
from tests.support.relay_split import (
    anonymous,
    cut_places,
    description,
    relayed,
    source_events,
    write_file,
    write_rotated,
)
from tests.unit.relay.test_source_places import moved

A = Table("a")
ONE: Xid = (b"one", b"", 1)
TWO: Xid = (b"two", b"", 1)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A transaction of every kind."""
    made = LogWriter(tmp_path_factory.mktemp("log"))
    made.ddl(A.create)
    made.transaction(insert(A, (1, "one"), (2, "two")), update(A, ((1, "one"), (1, "uno"))))
    made.transaction(insert(A, (3, "packed")), delete(A, (2, "two")), compressed=True)
    made.xa_prepare(ONE, insert(A, (4, "branch")))
    made.xa_prepare(TWO, insert(A, (5, "gone")), compressed=True)
    made.xa_end("COMMIT", ONE)
    made.xa_end("ROLLBACK", TWO)
    made.transaction(insert(A, (6, "asked")), query="INSERT INTO a VALUES (6, 'asked')")
    return made.folder


def index_of(folder: Path, store: Path, known: TransactionIndex | None = None) -> TransactionIndex:
    return build_index(open_log(str(folder)), str(store), previous=known)


def told(index: TransactionIndex) -> list[Any]:
    """What an index says of its transactions, but for where they lie."""
    stamps = ("last_committed", "sequence_number", "commit_time")
    records, names = index.records, ("kind", "flags", "uncompressed", "length", "row_events")
    columns = [gtid_text(records), *(records[name].tolist() for name in names + stamps)]
    return list(zip(*columns, strict=True))


def changed(folder: Path) -> list[Any]:
    batches = [batch.drop_columns(["position"]) for batch in read_changes(str(folder))]
    rows = [row for batch in batches for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: (row["gtid"], str(row)))


def test_a_transaction_may_be_split_between_any_two_events(log: Path, tmp_path: Path) -> None:
    # Scenario 58: a transaction that spans relay logs.
    whole = relayed(log, tmp_path / "whole", [])
    want, rows = told(index_of(whole, tmp_path / "i")), changed(whole)
    assert len(want) == 8 and len(rows) == 7
    places = list(cut_places(log))
    assert len(places) > 20
    for cut in places:
        folder = relayed(log, tmp_path / str(cut), [cut])
        index = index_of(folder, tmp_path / f"i{cut}")
        assert told(index) == want, cut
        assert int(is_split(index.records).sum()) == 1 and index.tail is None
        assert (np.diff(index.records["position"]) > 0).all()
        assert changed(folder) == rows, cut


def test_every_event_in_a_file_of_its_own(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = relayed(log, tmp_path / "whole", [])
    folder = relayed(log, tmp_path / "cut", range(1, len(source_events(log))))
    index = index_of(folder, tmp_path / "i")
    assert told(index) == told(index_of(whole, tmp_path / "j"))
    assert is_split(index.records).all()
    relay = open_log(str(folder))
    for record in index.records:
        pieces = pieces_of(relay, record, 0)
        assert len(pieces) > 1 and sum(p.size for p in pieces) == record["length"]
        # A slice takes the transaction whole or not at all.
        position, end = int(record["position"]), int(record["end"])
        assert len(index.slice(position, end)) == 1 and not len(index.slice(position, end - 1))
        assert index.before(end)["end"] == end and not len(index.slice(position + 1, end))
    assert changed(folder) == changed(whole)
    monkeypatch.setattr(spans, "_SLICE_BYTES", 64)  # each is larger than memory may be
    assert changed(folder) == changed(whole)


def test_an_index_that_grows_with_its_files(log: Path, tmp_path: Path) -> None:
    """A look behind each event, at a file that is there without one, and by a stored index."""
    events, source, folder = source_events(log), description(log), tmp_path / "relay"
    whole = index_of(relayed(log, tmp_path / "whole", []), tmp_path / "w")
    known: TransactionIndex | None = None
    for number, end in itertools.product(range(1, len(events) // 3 + 2), range(4)):
        part = events[3 * (number - 1) : 3 * number]
        write_file(folder, number, source, part[:end], rotated=end == 3)
        known = index_of(folder, tmp_path / "grown", known)
        done = told(known)
        assert done == told(whole)[: len(done)]
        assert told(index_of(folder, tmp_path / "stored")) == done
        assert told(index_of(folder, tmp_path / f"new-{number}-{end}")) == done
        if known.tail:
            assert known.end <= known.tail.number << 40 | known.tail.offset
    assert known is not None and told(known) == told(whole) and known.tail is None


def test_a_transaction_sent_again_counts_once(log: Path, tmp_path: Path) -> None:
    """With SOURCE_AUTO_POSITION the source sends a transaction again from its beginning."""
    events, source = source_events(log), description(log)
    whole = relayed(log, tmp_path / "whole", [])
    want, rows = told(index_of(whole, tmp_path / "w")), changed(whole)
    begins = [i for i, event in enumerate(events) if event[4] == EventType.GTID]
    for cut in cut_places(log):
        begin = max(i for i in begins if i < cut)
        folder = tmp_path / str(cut)
        write_file(folder, 1, source, events[:cut])
        write_file(folder, 2, source, [])  # connected, and stopped again
        write_file(folder, 3, source, events[begin : cut + 1])
        write_file(folder, 4, source, events[begin:], rotated=False)
        if cut + 1 in begins or cut + 1 == len(events):
            continue  # the third file has it whole, and the fourth again
        index = index_of(folder, tmp_path / f"i{cut}")
        assert told(index) == want and not is_split(index.records).any(), cut
        assert changed(folder) == rows


@pytest.mark.parametrize("torn", [0, 1, 18, 19, 30])
def test_an_event_that_is_cut_at_a_files_end(log: Path, tmp_path: Path, torn: int) -> None:
    """A replica that was killed leaves part of an event; it goes on with that one, or again."""
    events, source = source_events(log), description(log)
    want = told(index_of(relayed(log, tmp_path / "whole", []), tmp_path / "w"))
    (cut, begin), folder = (5, 2), tmp_path / "relay"
    for number, first in enumerate((cut, begin)):
        folder = tmp_path / f"relay{number}"
        write_file(folder, 1, source, [*events[:cut], events[cut][:torn]], rotated=False)
        write_file(folder, 2, source, events[first:], rotated=False)
        assert told(index_of(folder, tmp_path / f"i{number}")) == want
        assert changed(folder) == changed(log)


def test_a_transaction_around_4_gib_of_a_sources_file(log: Path, tmp_path: Path) -> None:
    """What follows has an end_log_pos that has begun again."""
    events, source, folder = source_events(log), description(log), tmp_path / "relay"
    want = told(index_of(relayed(log, tmp_path / "whole", []), tmp_path / "w"))
    up = (1 << 32) - int.from_bytes(events[4][13:17], "little") + 5
    later = [moved(event, up) for event in events]
    write_file(folder, 1, source, later[:4])
    write_file(folder, 2, source, later[4:], rotated=False)
    index = index_of(folder, tmp_path / "i")
    assert told(index) == want and is_split(index.records).any()


def test_other_checksums_in_mid_transaction_are_refused(log: Path, tmp_path: Path) -> None:
    """Their bytes would be taken for those of rows."""
    events, source, folder = source_events(log), description(log), tmp_path / "relay"
    write_file(folder, 1, source, events[:5])
    plain = with_checksum(source[:-5] + b"\0")
    write_file(folder, 2, plain, [event[:-4] for event in events[5:]], rotated=False)
    with pytest.raises(LogError, match="other checksums") as found:
        index_of(folder, tmp_path / "i")
    assert found.value.file == "relay.000002" and found.value.hint


def test_what_is_missing_between_two_files_is_refused(log: Path, tmp_path: Path) -> None:
    events, source = source_events(log), description(log)
    for name, first in (("missing", 7), ("twice", 5)):
        folder = tmp_path / name
        write_file(folder, 1, source, events[:6])
        write_file(folder, 2, source, events[first:], rotated=False)
        with pytest.raises(LogError, match="events are missing, or were received twice") as found:
            index_of(folder, tmp_path / "i")
        assert found.value.file == "relay.000002" and found.value.hint
        index = build_index(open_log(str(folder)), str(tmp_path / "j"), up_to_damage=True)
        assert index.damage and len(index) == 1


def test_another_transaction_can_not_begin_inside(log: Path, tmp_path: Path) -> None:
    events, source = source_events(log), description(log)
    begin = [i for i, event in enumerate(events) if event[4] == EventType.GTID][2]
    folder = tmp_path / "relay"
    write_file(folder, 1, source, events[:4])
    write_file(folder, 2, source, [events[4], *events[begin:]], rotated=False)
    with pytest.raises(LogError, match=r"begins while another is open"):
        index_of(folder, tmp_path / "i")


def test_a_sources_own_file_is_not_gone_on_with(log: Path, tmp_path: Path) -> None:
    """Only a replica's files are cut inside of transactions."""
    made = LogWriter(tmp_path / "log")
    made.transaction(insert(A, (1, "cut")), commit=False)
    made.rotate()
    made.transaction(insert(A, (2, "two")))
    with pytest.raises(LogError, match=r"can't stand here|it is not the log's last file"):
        index_of(made.folder, tmp_path / "i")


def test_a_stored_index_is_of_what_was_open_before(log: Path, tmp_path: Path) -> None:
    """The second file stays as it is; what the first one leaves open does not."""
    events, source, folder = source_events(log), description(log), tmp_path / "relay"
    write_file(folder, 1, source, events[:5])
    write_file(folder, 2, source, events[5:], rotated=False)
    want = told(index_of(folder, tmp_path / "i"))
    write_file(folder, 1, source, [*events[:5], *events[5:7]])
    with pytest.raises(LogError, match="received twice"):
        index_of(folder, tmp_path / "i")
    write_file(folder, 1, source, events[:5])
    assert told(index_of(folder, tmp_path / "i")) == want


def test_a_log_that_begins_inside_of_a_transaction(log: Path, tmp_path: Path) -> None:
    """The files before were purged: the rest is passed over, and how far it goes is told."""
    events, source, folder = source_events(log), description(log), tmp_path / "relay"
    relayed(log, folder, [4, 6])
    whole = index_of(folder, tmp_path / "w")
    second = whole.records[1]
    assert is_split(second) and whole.lost_to == 0
    (folder / "relay.000001").unlink()
    for store in ("w", "x"):  # with and without what was stored before
        index = index_of(folder, tmp_path / store)
        assert told(index) == told(whole)[2:] and index.lost_to == int(second["end"])
    for known in (index, whole, None):  # of what a look before had, or what was stored
        assert index_of(folder, tmp_path / "w", known).lost_to == int(second["end"])
    write_file(tmp_path / "short", 3, source, events[6:7], rotated=False)
    short = index_of(tmp_path / "short", tmp_path / "y")
    assert not len(short) and short.lost_to > 0


def test_a_transaction_received_twice_counts_once(log: Path, tmp_path: Path) -> None:
    """relay_log_recovery=ON fetches what was received and not applied again, into new files."""
    events, source, folder = source_events(log), description(log), tmp_path / "relay"
    rows = changed(log)
    half = len(events) // 2
    write_file(folder, 1, source, events[:half])
    write_file(folder, 2, source, [], previous=GtidSet())
    write_file(folder, 3, source, events[: half + 3])
    held = GtidSet.parse(f"{LogWriter(tmp_path / 'x').source}:1-4")
    write_file(folder, 4, source, events[half + 3 :], rotated=False, previous=held)
    known = None
    for _ in range(2):
        known = index_of(folder, tmp_path / "i", known)
        kinds = known.records["kind"].tolist()
        assert kinds.count(Kind.EMPTY) == len(kinds) - 8 > 2
        assert changed(folder) == rows
    assert told(index_of(folder, tmp_path / "i")) == told(known) if known else False


def test_what_was_purged_meanwhile_is_not_repeated(log: Path, tmp_path: Path) -> None:
    """An applier that has not applied it yet needs the second one, which a stored index has."""
    events, source, folder = source_events(log), description(log), tmp_path / "relay"
    write_file(folder, 1, source, events)
    last = write_file(folder, 2, source, events[:2], rotated=False)
    known = index_of(folder, tmp_path / "i")
    with last.open("ab") as file:
        file.write(b"".join(events[2:]))
    known = index_of(folder, tmp_path / "i", known)
    assert (known.records["kind"] == Kind.EMPTY).sum() == 8 == len(known) / 2
    (folder / "relay.000001").unlink()
    assert not (index_of(folder, tmp_path / "i").records["kind"] == Kind.EMPTY).any()


def test_without_gtids_the_place_at_the_source_says_what_was_received_twice(
    tmp_path: Path,
) -> None:
    made = LogWriter(tmp_path / "log")
    made.ddl(A.create)
    for key in range(6):
        made.transaction(insert(A, (key, "one")), compressed=key == 4)
        if key == 2:
            made.rotate()
    events, source, folder = (
        source_events(made.folder),
        description(made.folder),
        tmp_path / "relay",
    )
    events = [anonymous(event) for event in events]
    whole = tmp_path / "whole"
    write_file(whole, 1, source, events, rotated=False)
    rows = changed(whole)
    assert len(rows) == 6
    begins = [i for i, event in enumerate(events) if event[4] == EventType.ANONYMOUS_GTID]
    for cut in begins[1:]:
        write_file(folder, 1, source, events[:cut])
        write_file(folder, 2, source, [])
        write_file(folder, 3, source, events[: begins[1]], place=4)
        write_rotated(folder, 4, source, events[begins[1] : cut])
        write_rotated(folder, 5, source, events[cut:], rotated=False)
        index = index_of(folder, tmp_path / f"i{cut}")
        assert len(index) == len(begins) + begins.index(cut)
        assert (index.records["kind"] == Kind.EMPTY).sum() == begins.index(cut)
        assert changed(folder) == rows
        assert told(index_of(folder, tmp_path / f"i{cut}", index)) == told(index)
    events = list(itertools.takewhile(lambda event: event[4] != EventType.ROTATE, events))
    end = int.from_bytes(events[-1][13:17], "little")
    write_file(folder, 1, source, events)
    for number in range(3, 6):
        (folder / f"relay.{number:06d}").unlink()
    write_file(folder, 2, source, [], rotated=False, place=end)  # connected again, nothing twice
    assert not (index_of(folder, tmp_path / "last").records["kind"] == Kind.EMPTY).any()


def test_without_gtids_a_replica_that_fell_back_twice(tmp_path: Path) -> None:
    """The second time further: the place that it had reached before the first counts."""
    made, folder = LogWriter(tmp_path / "log"), tmp_path / "relay"
    for key in range(7):
        made.transaction(insert(A, (key, "one")))
    events, source = [anonymous(e) for e in source_events(made.folder)], description(made.folder)
    each = len(events) // 7
    write_file(folder, 1, source, events[: 6 * each])
    for number, (first, last) in ((2, (3, 4)), (3, (1, 7))):
        sent = events[first * each : last * each]
        write_file(folder, number, source, sent, rotated=number < 3, place=made.spans[first][1])
    kinds = index_of(folder, tmp_path / "i").records["kind"]
    assert (kinds == Kind.EMPTY).nonzero()[0].tolist() == [6, *range(7, 12)]


def test_verify_and_dump_read_a_split_transaction(log: Path, tmp_path: Path) -> None:
    folder = relayed(log, tmp_path / "relay", [5, 6, 9])
    checks = list(verify_log(open_log(str(folder))))
    assert all(check.ok for check in checks)
    assert checks[0].note and checks[0].note.startswith("a transaction is open at its end")
    assert sum(check.transactions for check in checks) == 8
    kinds = [line.type for line in dump(open_log(str(folder)))]
    want = [line.type for line in dump(open_log(str(relayed(log, tmp_path / "w", []))))]
    heads = ("FORMAT_DESCRIPTION", "PREVIOUS_GTIDS", "ROTATE")
    assert [k for k in kinds if k not in heads] == [k for k in want if k not in heads]
    last = tmp_path / "relay" / "relay.000004"
    last.write_bytes(last.read_bytes()[:-30])
    (cut,) = [check for check in verify_log(open_log(str(folder))) if not check.ok]
    assert cut.file == "relay.000004"


def test_pieces_read_as_one_file(tmp_path: Path) -> None:
    data, pieces = bytes(range(256)) * 40, []
    for number, (begin, end) in enumerate(((0, 1), (1, 1000), (1000, 9000), (9000, 10240))):
        path = tmp_path / str(number)
        path.write_bytes(b"before" + data[begin:end] + b"behind")
        pieces.append(Piece(str(path), 6, 6 + end - begin))
    with open_pieces(pieces) as file:
        assert file.read() == data
        for at, size in ((0, 10), (998, 5), (1, 9999), (9001, 5000), (10240, 1)):
            file.seek(at)
            assert file.read(size) == data[at : at + size]
            assert file.tell() == min(at + size, len(data))
        file.seek(-3, 2)
        assert file.read() == data[-3:]
