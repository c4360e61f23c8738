"""The kind of a compressed transaction, determined by its first two events, or by all events of an
XA branch.

Small payloads are examined many at a time. Of a large payload only the first zstd block is
decompressed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import zstandard

from ..binlog.event_types import HEADER_LENGTH, EventType
from ..binlog.events.event import parse_header, parse_query, parse_xa_prepare
from ..binlog.events.payload import NONE, Payload, View, decompress_all
from ..binlog.events.payload_bodies import head_at, small_frames
from ..binlog.events.transaction import Kind
from ..binlog.events.windows import read_exactly, windows
from ..binlog.kernels.jit import Bytes, Ints, jit, number
from ..errors import DecodeError, LogError

# Looked up once: an enumeration's members cost a microsecond each time.
_QUERY, _XID = int(EventType.QUERY), int(EventType.XID)
_XA_PREPARE, _TABLE_MAP = int(EventType.XA_PREPARE), int(EventType.TABLE_MAP)
# The end of a Query's database, and its statement.
_BEGIN = np.frombuffer(b"\0BEGIN", np.uint8)
# Enough for BEGIN with all its status variables and the header of the event behind it.
_HEAD_BYTES = 2048
# Up to here one call for everything is quicker than a stream for the head.
_SMALL_BYTES = 1 << 15
# Payloads looked at in one call: 16 MB of small ones at most.
_TOGETHER = 512
# Bytes read at a time of a branch that may end with XA PREPARE.
_WINDOW_BYTES = 1 << 20


def are_usual(buf: Bytes, bodies: Ints, heads: Ints) -> npt.NDArray[np.bool_]:
    """Return which payloads are small and certainly hold rows, after BEGIN and a TABLE_MAP,
    bool[n].

    ``classify`` determines the kind of the others. bodies, heads: as in
    ``binlog.events.payload_bodies``.
    """
    fits, places = small_frames(buf, bodies, heads, _SMALL_BYTES)
    small = np.flatnonzero(fits)
    usual = np.zeros(len(bodies), np.bool_)
    for first in range(0, len(small), _TOGETHER):
        some = small[first : first + _TOGETHER]
        sizes = heads[some, 2]
        events = decompress_all(buf, places[some], sizes)
        if events is not None:
            edges = np.concatenate(([0], np.cumsum(sizes)))
            begin_usual(np.frombuffer(events, np.uint8), edges, _BEGIN, some, usual)
    return usual


@jit
def begin_usual(
    events: Bytes, edges: Ints, begin: Bytes, which: Ints, usual: npt.NDArray[np.bool_]
) -> None:
    """Mark the payloads that begin with BEGIN and a TABLE_MAP.

    ``events``: their events end to end. ``edges``: where each payload's events begin, and the end.
    ``which``: their places in ``usual``.
    """
    for i in range(which.size):
        at, end = edges[i], edges[i + 1]
        length = number(events, at + 9, 4) if at + HEADER_LENGTH <= end else 0
        last = at + length - begin.size
        if last < at + HEADER_LENGTH or at + length + 5 > end:
            continue
        same = events[at + 4] == _QUERY and events[at + length + 4] == _TABLE_MAP
        for k in range(begin.size):
            same = same and events[last + k] == begin[k]
        usual[which[i]] = same


def classify(
    body: memoryview, reader: zstandard.ZstdDecompressor, fields: list[int]
) -> tuple[Kind, int]:
    """Return (kind, bytes of the events inside) of a TRANSACTION_PAYLOAD body without its checksum.

    ``reader``: a decompressor, shared by calls of one thread. ``fields``: the payload's row of
    payload_heads.
    """
    try:
        head = head_at(fields, bytes(body[:_HEAD_BYTES]))
        at, size = head.length, head.uncompressed
        if head.compression == NONE:
            events = bytes(body[at : at + _HEAD_BYTES])
        elif size <= _SMALL_BYTES:
            events = reader.decompress(body[at:], max_output_size=size)
        else:
            events = reader.stream_reader(body[at:]).read(_HEAD_BYTES)
        if len(events) < HEADER_LENGTH:
            raise DecodeError("there is no event in it")
        kind = Kind.ROWS if _is_usual(events) else _kind(events, body)
    except (MemoryError, DecodeError, zstandard.ZstdError) as e:
        raise LogError(f"a TRANSACTION_PAYLOAD event is damaged: {e}") from e
    return kind, size


def _is_usual(head: bytes) -> bool:
    """Return whether the first events are BEGIN and a TABLE_MAP, without parsing them."""
    edges, usual = np.array([0, len(head)]), np.zeros(1, np.bool_)
    begin_usual(np.frombuffer(head, np.uint8), edges, _BEGIN, edges[:1], usual)
    return bool(usual[0])


def _kind(head: bytes, body: memoryview) -> Kind:
    begin = parse_header(head)
    if begin.type != _QUERY:
        raise LogError(f"a compressed transaction begins with a {begin.name} event")
    first = parse_query(head[HEADER_LENGTH : begin.length]).statement
    if first.startswith(b"XA START"):
        return _xa_kind(first, Payload(View(body), len(body)))
    second = head[begin.length :]
    if len(second) < HEADER_LENGTH:
        return Kind.ROWS
    header = parse_header(second)
    if header.type == _XID:
        return Kind.EMPTY
    if header.type != _QUERY:
        return Kind.ROWS
    if header.length > len(second):
        events = Payload(View(body), len(body))
        second = read_exactly(events, begin.length + header.length)[begin.length :]
    return _statement_kind(parse_query(second[HEADER_LENGTH : header.length]).statement)


def _statement_kind(statement: bytes) -> Kind:
    text = statement.upper()
    if text == b"COMMIT":
        return Kind.EMPTY
    if text.startswith(b"CREATE") and b") START TRANSACTION" in text:
        return Kind.DDL_ROWS
    return Kind.ROWS if text.startswith(b"SAVEPOINT") else Kind.STATEMENT


def _xa_kind(start: bytes, payload: Payload) -> Kind:
    events, statements = b"", list[bytes]()
    for window in windows(payload, payload.uncompressed, _WINDOW_BYTES):
        events = window.tobytes()
        last = _last_event(events, statements)
    header, body = parse_header(events, last), events[last + HEADER_LENGTH :]
    *inner, end = statements[1:] or [b""]
    if header.type == _QUERY and b"ROLLBACK" in end:
        return Kind.ROLLBACK
    if header.type != _XA_PREPARE:
        raise LogError(f"XAER_RMFAIL: a compressed XA transaction ends with a {header.name} event")
    prepared = parse_xa_prepare(body)
    if start.replace(b" ", b"").lower() != f"XASTART{prepared}".encode().lower():
        raise LogError("a compressed transaction's XA_PREPARE event holds an invalid XID")
    for statement in (*inner, end):
        if statement.startswith((b"BEGIN", b"XA START", b"XA COMMIT")):
            raise LogError(f"{statement[:9].decode()} stands inside a compressed XA transaction")
        if statement and not statement.startswith((b"SAVEPOINT", b"XA END")):
            return Kind.STATEMENT
    return Kind.XA_ONE_PHASE if prepared.one_phase else Kind.XA_PREPARE


def _last_event(events: bytes, statements: list[bytes]) -> int:
    """Return the offset of the last event; add the statements of all events."""
    at = last = 0
    while at < len(events):
        header, last = parse_header(events, at), at
        if header.length < HEADER_LENGTH:
            raise LogError("a compressed transaction holds bytes that are no event")
        at += header.length
        if header.type == _QUERY:
            statements.append(parse_query(events[last + HEADER_LENGTH : at]).statement.upper())
    return last
