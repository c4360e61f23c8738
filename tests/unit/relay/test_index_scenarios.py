"""MySQL's own scenarios of a log's bytes that no other test of the relay log holds.

Each test says which of MySQL's own it stands for (scenarios.py), and asserts what that does.
"""

from __future__ import annotations

import uuid
import zlib
from pathlib import Path

import pytest

from spark_repl.binlog.event_types import EventType
from spark_repl.binlog.events.event import parse_gtid
from spark_repl.binlog.events.transaction import Flag, Kind
from spark_repl.decode.read_changes import read_changes
from spark_repl.errors import LogError, StatementError
from spark_repl.gtid import write_varint
from spark_repl.position import RelayPosition
from spark_repl.relay.index import build_index
from spark_repl.relay.log import open_log
from spark_repl.relay.record import gtid_text
from tests.support.binlog_writer import SOURCE, LogWriter, Table, insert
from tests.support.dump_stream import events_of

A = Table("a")


def test_what_was_read_is_not_read_again(tmp_path: Path) -> None:
    """Scenario 99: a reader at the hot end goes on where it was, whatever lies before."""
    log = LogWriter(tmp_path / "log")
    log.ddl(A.create)
    log.transaction(insert(A, (1, "x")))
    known = build_index(open_log(str(log.folder)), str(tmp_path / "index"))
    _, start, end = log.spans[1]
    log.transaction(insert(A, (2, "x")))
    data = log.path.read_bytes()
    log.path.write_bytes(data[:start] + bytes(end - start) + data[end:])
    grown = build_index(open_log(str(log.folder)), str(tmp_path / "index"), previous=known)
    assert gtid_text(grown.records) == [log.gtid(number) for number in range(3)]


def tagged(gno: int, fields: bytes, last_required: int = 9) -> bytes:
    """The body of a GTID_TAGGED event with more ``fields`` than a server of today writes."""
    parts = b"\x02" + b"".join(write_varint(byte) for byte in uuid.UUID(SOURCE).bytes)
    parts += b"\x04" + write_varint(gno << 1) + b"\x06\x06tag" + b"\x08\x00\x0a" + write_varint(2)
    body = write_varint(last_required) + parts + fields
    return write_varint(1) + write_varint(len(body) + 2) + body


def with_gtid(log: LogWriter, body: bytes) -> None:
    """Its last transaction, a statement, has this GTID_TAGGED event instead of its own."""
    name, start, _ = log.spans[-1]
    path = log.folder / name
    first, statement = list(events_of(path))[-2:]
    length = (19 + len(body) + 4).to_bytes(4, "little")
    event = first[:4] + bytes([EventType.GTID_TAGGED]) + first[5:9] + length + first[13:19] + body
    event += zlib.crc32(event).to_bytes(4, "little")
    path.write_bytes(path.read_bytes()[:start] + event + statement)


FUTURE = write_varint(12) + write_varint(7)


@pytest.mark.parametrize("last_required", [9, 12])
def test_a_gtid_from_a_future_version_is_read_or_refused(
    tmp_path: Path, last_required: int
) -> None:
    """Scenario 113: a field that is not known is passed over, or stops by MySQL's words where it
    may not be."""
    log = LogWriter(tmp_path / "log")
    log.ddl(A.create)
    body = tagged(7, FUTURE, last_required)
    with_gtid(log, body)
    index = build_index(open_log(str(log.folder)), str(tmp_path / "index"), up_to_damage=True)
    if last_required == 9:
        assert gtid_text(index.records) == [f"{SOURCE}:tag:7"] and index.damage is None
        assert str(parse_gtid(EventType.GTID_TAGGED, body)) == f"{SOURCE}:tag:7"
        return
    assert index.damage is not None and "future server version" in index.damage.message
    assert index.damage.hint == "a newer version of spark_repl may know it"
    assert (index.damage.file, index.damage.position) == (log.path.name, str(log.spans[0][1]))
    with pytest.raises(LogError, match="appears to originate from a future server version"):
        parse_gtid(EventType.GTID_TAGGED, body)


def test_a_compressed_transaction_has_one_place(tmp_path: Path) -> None:
    """Scenarios 124, 125: the position moves behind the whole payload, and none of the events in it
    has another."""
    log = LogWriter(tmp_path / "log")
    log.ddl(A.create)
    log.transaction(insert(A, (1, "x")), insert(A, (2, "x")), compressed=True)
    log.transaction(insert(A, (3, "x")))
    whole = log.path.read_bytes()
    _, start, end = log.spans[1]
    folder = tmp_path / "cut"
    folder.mkdir()
    for size in (*range(start, end, 11), end - 1, end, len(whole)):
        (folder / log.path.name).write_bytes(whole[:size])
        index = build_index(open_log(str(folder)), str(tmp_path / "index"))
        places = [RelayPosition.unpack(int(place)).offset for place in index.records["end"]]
        assert places == [stop for _, _, stop in log.spans if stop <= size]
        assert index.end == RelayPosition(1, places[-1]).packed
    assert index.records["flags"][1] & Flag.COMPRESSED


def test_statements_in_a_compressed_transaction_are_refused(tmp_path: Path) -> None:
    """Scenario 130: they are seen in the payload, as beside it, and refused there
    (REQUIRE_ROW_FORMAT is not asked for: nothing else is applied)."""
    log = LogWriter(tmp_path / "log")
    log.ddl(A.create)
    for statement in ("", "INSERT INTO a VALUES (7, 'x')", "SAVEPOINT `s`"):
        log.transaction(insert(A, (1, "x")), statement=statement, compressed=True)
    index = build_index(open_log(str(log.folder)), str(tmp_path / "index"))
    assert index.records["kind"].tolist() == [Kind.QUERY, Kind.ROWS, Kind.STATEMENT, Kind.ROWS]
    changes = read_changes(str(log.folder))
    with pytest.raises(StatementError, match="changes rows by statements") as caught:
        list(changes)
    assert caught.value.gtid == log.gtid(2)
