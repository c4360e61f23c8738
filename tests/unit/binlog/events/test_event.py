"""Events from their bytes: of real servers, and cut short at every place."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from spark_repl.binlog.events import event as ev
from spark_repl.errors import LogError

_TAGGED = bytes.fromhex(
    "0278000000"
    "02" + "aaee2502" + "08" * 13 + "04" + "0c" + "060a" + b"mytag".hex() + "0800"
    "0a04" + "0c7f1cf3b814244a06" + "10a104" + "12430f0b"
)
# The size field counts the whole body.
TAGGED = _TAGGED[:1] + bytes([len(_TAGGED) << 1]) + _TAGGED[2:]
UUID = bytes(range(16))


def gtid_body(*, gno: int = 7, until: int = 999) -> bytes:
    stamp = struct.pack("<Q", 1_700_000_000_000_000 | 1 << 55)[:7]
    original = struct.pack("<Q", 1_600_000_000_000_000)[:7]
    head = struct.pack("<B16sqBqq", 1, UUID, gno, 2, 3, 4) + stamp + original
    return (head + b"\xfc\x0a\x01" + struct.pack("<II", 90704 | 1 << 31, 80041))[:until]


def test_a_real_servers_tagged_gtid_is_parsed() -> None:
    # Scenario 113: a server's own bytes.
    gtid = ev.parse_gtid(ev.EventType.GTID_TAGGED, TAGGED)
    assert (gtid.tag, gtid.gno, gtid.last_committed, gtid.sequence_number) == ("mytag", 3, 0, 1)


def test_gtids_of_all_versions_are_parsed() -> None:
    full = ev.parse_gtid(33, gtid_body())
    assert (full.uuid, full.gno, full.last_committed, full.sequence_number) == (UUID, 7, 3, 4)
    assert full.immediate_commit_timestamp == 1_700_000_000_000_000
    assert full.original_commit_timestamp == 1_600_000_000_000_000
    assert full.transaction_length == 266
    assert (full.immediate_server_version, full.original_server_version) == (90704, 80041)
    assert str(full) == "00010203-0405-0607-0809-0a0b0c0d0e0f:7"
    of_57 = ev.parse_gtid(33, gtid_body(until=42))
    assert (of_57.sequence_number, of_57.immediate_commit_timestamp) == (4, 0)
    of_56 = ev.parse_gtid(33, gtid_body(until=25))
    assert (of_56.gno, of_56.sequence_number) == (7, 0)
    assert str(ev.parse_gtid(34, gtid_body(gno=0))) == "ANONYMOUS"


def query_body() -> bytes:
    status = bytes.fromhex("0000000000")
    return struct.pack("<IIBHH", 8, 1, 2, 0, len(status)) + status + b"db\0SELECT 1"


def test_small_events_are_parsed_to_their_fields() -> None:
    query = ev.parse_query(query_body())
    assert (query.thread_id, query.database, query.text) == (8, "db", "SELECT 1")
    assert query.status == bytes(5)
    rotate = ev.parse_rotate(struct.pack("<Q", 4) + b"binlog.000002")
    assert rotate == ev.Rotate(4, "binlog.000002")
    prepared = ev.parse_xa_prepare(bytes.fromhex("0007000000020000000200000061326271"))
    assert prepared == ev.XaPrepare(False, 7, b"a2", b"bq")
    assert str(prepared) == "X'6132',X'6271',7"
    assert ev.parse_incident(b"\x01\x00\x02no") == ev.Incident(1, "no")
    assert ev.type_name(33) == "GTID" and ev.type_name(99) == "UNKNOWN(99)"


def format_description(version: bytes = b"9.7.4", *, checksum: int = 1) -> bytes:
    body = struct.pack("<H50sIB", 4, version, 5, 19) + bytes(41) + bytes([checksum]) + bytes(4)
    return struct.pack("<IBIIIH", 1, 15, 620, 19 + len(body), 0, 1) + body


def test_a_format_description_names_server_and_checksum() -> None:
    found = ev.parse_format_description(format_description())
    assert (found.server_version, found.checksum, found.server_id) == ("9.7.4", True, 620)
    assert found.in_use and not found.is_mariadb and not found.is_relay_log
    assert not ev.parse_format_description(format_description(checksum=0)).checksum
    assert not ev.parse_format_description(format_description(b"5.5.62-log")).checksum
    assert ev.parse_format_description(format_description(b"10.11.6-MariaDB")).is_mariadb
    with pytest.raises(LogError, match="format 3"):
        ev.parse_format_description(format_description().replace(b"\x04\x009.7", b"\x03\x009.7"))


@pytest.mark.parametrize(
    ("parse", "body", "shortest"),
    [
        (lambda b: ev.parse_gtid(33, b), gtid_body(), 25),
        (lambda b: ev.parse_gtid(42, b), TAGGED, len(TAGGED)),
        (ev.parse_query, query_body(), len(query_body()) - 8),
        (ev.parse_xa_prepare, bytes.fromhex("0007000000020000000200000061326271"), 17),
        (ev.parse_rotate, bytes(8), 8),
        (ev.parse_format_description, format_description(), 80),
    ],
)
def test_a_cut_event_is_a_log_error(
    parse: Callable[[bytes], object], body: bytes, shortest: int
) -> None:
    for cut in range(shortest):
        with pytest.raises(LogError):
            parse(body[:cut])


def test_a_header_names_type_length_and_flags() -> None:
    header = ev.parse_header(format_description())
    assert (header.name, header.length, header.flags) == ("FORMAT_DESCRIPTION", 122, 1)
    with pytest.raises(LogError):
        ev.parse_header(bytes(18))
