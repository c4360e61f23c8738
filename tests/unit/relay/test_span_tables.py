"""Which tables the rows of a span of events are of."""

from __future__ import annotations

import io
import struct

import pytest
import zstandard

from spark_repl.binlog.event_types import EventType
from spark_repl.errors import DecodeError
from spark_repl.relay.span_tables import tables_of

NAMES = b"\x01t\0\x02\xc3\xa4\0"  # t.ä


def event(kind: int, body: bytes, crc: int = 4) -> bytes:
    length = 19 + len(body) + crc
    return struct.pack("<IBIIIH", 0, kind, 1, length, 0, 0) + body + bytes(crc)


def query(text: bytes, crc: int = 4) -> bytes:
    return event(EventType.QUERY, bytes(13) + b"\0" + text, crc)


def table_map(crc: int = 4) -> bytes:
    return event(EventType.TABLE_MAP, bytes(8) + NAMES + b"\x01\x03\0\0", crc)


def packed(inner: bytes) -> bytes:
    data = zstandard.compress(inner)
    sizes = (b"\xfe" + struct.pack("<Q", size) for size in (len(inner), len(data)))
    body = b"\x02\x01\0\x03\x09%b\x01\x09%b\0" % tuple(sizes) + data
    return event(EventType.TRANSACTION_PAYLOAD, body)


@pytest.mark.parametrize("begin", [b"BEGIN", b"XA START X'78',X'',1", b"SAVEPOINT `a`"])
def test_the_tables_of_a_spans_rows_are_named(begin: bytes) -> None:
    rows = event(EventType.WRITE_ROWS, bytes(40))
    events = query(begin) + table_map() + rows + query(b"XA END X'78',X'',1") + event(38, b"x")
    for part in (events, packed(query(begin, 0) + table_map(0))):
        assert tables_of(io.BytesIO(b"before" + part + table_map()), 6, 6 + len(part), 4) == {"t.ä"}
    assert tables_of(io.BytesIO(query(begin)), 0, len(query(begin)), 4) == frozenset()


@pytest.mark.parametrize("other", [b"SAVEPOINT", b"UPDATE t.a SET b = 'c'", b"BEGIN;"])
def test_statements_may_be_about_any(other: bytes) -> None:
    wanted = None if other != b"SAVEPOINT" else frozenset()
    for part in (query(other), packed(query(other, 0))):
        assert tables_of(io.BytesIO(part), 0, len(part), 4) == wanted
    text = event(EventType.ROWS_QUERY, b"\x05hello")
    assert tables_of(io.BytesIO(text), 0, len(text), 4) is None


@pytest.mark.parametrize("cut", [1, 20, 36])
def test_a_cut_span_is_an_error(cut: int) -> None:
    whole = table_map()
    with pytest.raises(DecodeError):
        tables_of(io.BytesIO(whole[:cut]), 0, len(whole), 4)
