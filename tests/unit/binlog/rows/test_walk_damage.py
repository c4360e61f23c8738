"""Damaged input: always a DecodeError with its place, or rows; never a crash or a lost event."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

from spark_repl.binlog.events.payload import decompress, head_of
from spark_repl.binlog.events.table_map import parse_table_map
from spark_repl.binlog.rows.walk import walk
from spark_repl.binlog.types.forms import Forms
from spark_repl.errors import DecodeError
from tests.support.decoder_log import payloads, read_log

LOG = Path(__file__).parents[3] / "fixtures" / "all_types" / "binlog.000001"


def event(kind: int, body: bytes, flags: int = 0) -> bytes:
    return struct.pack("<IBIIIH", 1, kind, 1, 19 + len(body), 0, flags) + body


def walk_events(*events: bytes) -> Any:
    data = np.frombuffer(b"".join(events), np.uint8)
    return walk(data, np.array([0]), np.array([len(data)]), np.array([1 << 40 | 77]), False)


def small_table() -> bytes:
    """TABLE_MAP body of d.t (id INT NOT NULL, v VARCHAR(10)), key id."""
    columns = bytes((2, 3, 15, 2, 10, 0, 2))
    names = b"\x04\x05\x02id\x01v" + b"\x08\x01\x00" + b"\x02\x01\xff"
    return struct.pack("<Q", 5) + b"\x01d\0\x01t\0" + columns + names.replace(b"\xff", b"\x2d")


def rows(kind: int, body: bytes, table: int = 5, present: bytes = b"\xff", width: int = 2) -> bytes:
    head = table.to_bytes(6, "little") + b"\0\0" + (b"\x02\0" if kind >= 30 else b"")
    return event(kind, head + bytes((width,)) + present + body)


ROW = b"\0" + (7).to_bytes(4, "little") + b"\x03abc"


def test_row_events_of_versions_1_and_2_are_read() -> None:
    for kind in (23, 30):
        (images,) = walk_events(event(19, small_table()), rows(kind, ROW + ROW))
        assert images.decode(np.arange(2)).to_pylist() == [{"id": 7, "v": "abc"}] * 2
        assert images.transaction.tolist() == [0, 0]


def test_same_definition_under_another_table_id_is_one_table() -> None:
    other = struct.pack("<Q", 9) + small_table()[8:]
    events = (event(19, small_table()), rows(30, ROW), event(19, other), rows(32, ROW, table=9))
    (images,) = walk_events(*events)
    assert images.flags.tolist() == [2, 1]


@pytest.mark.parametrize("extra", [b"", b"\x01\x07\x00", b"\x00\x05\x01abc", b"\x01\1\0\x01\2\0"])
def test_extra_row_info_is_passed_over(extra: bytes) -> None:
    """Partition numbers, NDB's own."""
    head = (5).to_bytes(6, "little") + b"\0\0" + struct.pack("<H", 2 + len(extra)) + extra
    (images,) = walk_events(event(19, small_table()), event(30, head + b"\x02\xff" + ROW))
    assert images.decode(np.arange(1)).to_pylist() == [{"id": 7, "v": "abc"}]


def test_an_incident_has_mysqls_number() -> None:
    # Scenario 127: 13119.
    with pytest.raises(DecodeError) as caught:
        walk_events(event(26, b"\1\0\0"))
    assert caught.value.number == 13119


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ((rows(30, ROW),), "no TABLE_MAP"),
        ((event(19, small_table()), rows(30, ROW, table=6)), "no TABLE_MAP"),
        ((event(19, small_table()), rows(30, ROW[:-1])), "ends inside its data"),
        ((event(19, small_table()), rows(30, ROW + b"\0")), "ends inside its data"),
        ((event(19, small_table()), rows(31, ROW, present=b"\xff\xff")), "ends inside its data"),
        ((event(19, small_table()), rows(30, ROW, present=b"\x02")), "columns that identify"),
        ((event(19, small_table()), rows(30, ROW, width=3)), "another number of columns"),
        ((event(39, b""),), "ends inside its data"),
        ((event(162, b""),), "MariaDB"),
        ((event(26, b"\1\0\0"),), "incident"),
        ((event(77, b""),), "unknown event without the ignorable flag"),
        ((event(16, b"12345678")[:-1],), "reaches beyond the transaction's end"),
        ((event(19, small_table()[:14]), rows(30, ROW)), "is cut"),
        ((event(19, small_table()[:21]), rows(30, ROW)), "binlog_row_metadata=FULL"),
        (
            (event(19, small_table().replace(b"\x03\x0f", b"\x03\x14")), rows(30, ROW)),
            "the wire type 20",
        ),
    ],
)
def test_damaged_events_are_named(events: tuple[bytes, ...], words: str) -> None:
    # Scenario 150: a multi-valued index's array is named, where an old server logs it.
    with pytest.raises(DecodeError) as caught:
        walk_events(*events)
    assert words in f"{caught.value} {caught.value.hint}"
    assert caught.value.position == "000001:77"


def test_ignorable_and_empty_statement_events_pass() -> None:
    # Scenario 160: an unknown event with the ignorable flag.
    assert walk_events(event(77, b"", 0x80), rows(30, b"", table=0xFFFFFF)) == []


def test_invalid_utf8_is_an_error() -> None:
    (images,) = walk_events(event(19, small_table()), rows(30, ROW[:-1] + b"\xff"))
    with pytest.raises(DecodeError, match="column v: bytes ff are not text"):
        images.decode(np.arange(1))


def test_every_flipped_byte_breaks_a_checksum() -> None:
    buffer, starts, ends, positions = read_log(LOG, compressed=False)
    middle = len(starts) // 2
    span = starts[middle : middle + 1], ends[middle : middle + 1], positions[middle : middle + 1]
    for at in range(int(span[0][0]), int(span[1][0]), 7):
        copy = buffer.copy()
        copy[at] ^= 1
        with pytest.raises(DecodeError) as caught:
            walk(copy, *span, True)
        assert caught.value.position is not None


def without_checksums(events: bytes) -> bytes:
    out, at = b"", 0
    while at < len(events):
        size = struct.unpack_from("<I", events, at + 9)[0]
        out += events[at : at + 9] + struct.pack("<I", size - 4) + events[at + 13 : at + size - 4]
        at += size
    return out


def test_random_damage_without_checksums_is_rows_or_an_error() -> None:
    buffer, starts, ends, positions = read_log(LOG, compressed=False)
    data = buffer.tobytes()
    whole = [without_checksums(data[a:b]) for a, b in zip(starts, ends, strict=True)]
    random = np.random.default_rng(1)
    decoded = refused = 0
    for _ in range(400):
        piece = np.frombuffer(whole[random.integers(len(whole))], np.uint8).copy()
        damage = random.integers(1, 4)
        piece[random.integers(piece.size, size=damage)] = random.integers(256, size=damage)
        try:
            for images in walk(piece, np.array([0]), np.array([piece.size]), positions[:1], False):
                images.key()
                decoded += images.decode(np.arange(len(images.flags)), Forms("null")).num_rows
        except DecodeError:
            refused += 1
    assert decoded > 100
    assert refused > 50


def test_a_table_map_cut_anywhere_is_a_decode_error() -> None:
    # Scenario 143: optional metadata cut anywhere.
    whole = small_table()
    assert parse_table_map(whole).primary_key == (0,)
    for size in range(len(whole)):
        try:
            parse_table_map(whole[:size])
        except DecodeError:
            continue


def test_a_year_has_a_bit_of_signedness() -> None:
    """Scenario 144: among the numbers' bits, highest first: INT, YEAR, INT."""
    names = b"\x04\x07\x02id\x01y\x01n"
    for bits, unsigned in ((0x40, [False, True, False]), (0x60, [False, True, True])):
        body = struct.pack("<Q", 5) + b"\x01d\0\x01t\0" + bytes((3, 3, 13, 3, 0, 0)) + names
        found = parse_table_map(body + bytes((1, 1, bits)))
        assert [column.unsigned for column in found.columns] == unsigned


def test_which_document_is_a_diff() -> None:
    """Scenarios 138, 141: a bit for each JSON column of the table, in their order."""
    table = struct.pack("<Q", 5) + b"\x01d\0\x01t\0" + bytes((3, 3, 245, 245, 2, 4, 4, 6))
    table += b"\x04\x07\x02id\x01a\x01b" + b"\x08\x01\x00"
    one, diff = bytes.fromhex("0201000700050100"), b"\0\x04$[0]\x03\x05\x07\x00"  # [1]; [0] is 7
    sized = [len(data).to_bytes(4, "little") + data for data in (one, diff)]
    before = b"\0" + (9).to_bytes(4, "little") + sized[0] * 2
    head = (5).to_bytes(6, "little") + b"\0\0\x02\x00\x03\xff\xff"
    for bits, want in ((1, ("[7]", "[1]")), (2, ("[1]", "[7]")), (3, ("[7]", "[7]"))):
        documents = b"".join(sized[bits >> i & 1] for i in range(2))
        after = bytes((1, bits)) + before[:5] + documents
        (images,) = walk_events(event(19, table), event(39, head + before + after))
        (row,) = images.decode(np.arange(len(images.flags))).to_pylist()
        assert (row["a"], row["b"]) == want


def test_a_damaged_compressed_payload_is_a_decode_error() -> None:
    events = b"x" * 1000
    packed = zstandard.compress(events)

    def body(data: bytes, size: int = 1000, kind: bytes = b"\0") -> bytes:
        sizes = b"\x03\x03\xfc" + size.to_bytes(2, "little") + b"\x01\x01" + bytes((len(data),))
        return b"\x02\x01" + kind + sizes + b"\0" + data

    assert decompress(body(packed)) == events
    assert head_of(body(packed)).uncompressed == 1000
    for bad in (
        body(packed, 999),
        body(packed, 1001),
        body(packed[:-3]),
        body(packed, 1000, b"\7"),
    ):
        with pytest.raises(DecodeError):
            decompress(bad)
    for size in range(len(body(packed))):
        with pytest.raises(DecodeError):
            decompress(body(packed)[:size])


def test_a_servers_compressed_payload_is_read() -> None:
    (events,) = payloads(LOG.read_bytes())
    assert zlib.crc32(events) and events[4] == 2


def test_tables_of_the_servers_own_need_no_names() -> None:
    """Of a log with binlog_row_metadata=MINIMAL: they are left out."""
    body = bytes(8) + b"\x05mysql\0\x01x\0" + b"\x01\x03\0\0"  # a column, INT
    assert parse_table_map(body).columns == ()
    with pytest.raises(DecodeError, match="names no columns"):
        parse_table_map(body.replace(b"mysql", b"other"))
