"""The scan for transactions in the bytes of one log file. It reads only headers and control events.

The grammar is defined in the MySQL source, sql/rpl_trx_boundary_parser.cc. This module does not
read rows and does not verify checksums: the decoder of a span does both. It returns only whole
transactions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..event_types import CRC_LENGTH, HEADER_LENGTH, EventFlag, EventType
from ..kernels.jit import Int, jit, u8, u32
from .grammar import (
    begins_again,
    inner_query,
    is_begin,
    is_rows,
    is_xa_start,
    query_text,
    read_gtid,
    read_tagged_gtid,
    single_query,
)
from .transaction import (
    COLUMNS,
    COMMIT_TIME,
    END,
    FLAGS,
    KIND,
    PAYLOAD_OFFSET,
    QUERY_OFFSET,
    ROW_EVENTS,
    START,
    Flag,
    Kind,
    Scan,
    Stop,
    Transactions,
)

CHUNK_TRANSACTIONS = 1 << 15
# Entries of the state array.
_POS, _RESUME, _CHECKSUM, _INTERRUPTED, _RELAY, _CLOSED = range(6)
# numba does not support IntFlag.
_RELAY_LOG, _IGNORABLE = int(EventFlag.RELAY_LOG), int(EventFlag.IGNORABLE)
_MICROSECONDS = 1_000_000
# Phases of a transaction.
_OUTSIDE, _HEADED, _BEGUN = range(3)
_DONE = 3
"""the event ended the transaction"""
_REFUSED = -1
"""minus a Stop: the event is not allowed in this phase"""


def scan(buf: np.ndarray, start: int, checksum: bool, *, relay: bool = False) -> Scan:
    """Scan uint8 ``buf`` from ``start``, an offset outside any transaction.

    ``relay``: a replica wrote the file, so a transaction may contain the replica's own events.
    """
    parts: list[Transactions] = []
    state = np.array([start, start, checksum, 0, relay, 0], np.int64)
    scratch = np.zeros(COLUMNS, np.int64)
    stop = Stop.FULL
    while stop == Stop.FULL:
        transactions = Transactions.room(CHUNK_TRANSACTIONS)
        n, code = _scan(buf, state, scratch, transactions)
        stop = Stop(int(code))
        parts.append(Transactions(*(column[:n] for column in transactions)))
    numbers, uuids, tags = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Scan(
        numbers, uuids, tags, stop,
        int(state[_RESUME]), int(state[_POS]), bool(state[_CHECKSUM]), bool(state[_CLOSED]),
    )  # fmt: skip


@jit
def _scan(
    buf: np.ndarray, state: np.ndarray, scratch: np.ndarray, transactions: Transactions
) -> tuple[int, Int]:
    """Scan until ``transactions`` is full or an event stops the scan. Return (number of
    transactions, Stop). ``state`` is read and written; the names with an underscore are its
    entries. ``scratch`` receives the row of an event outside any transaction; it is never read."""
    size = buf.size
    pos = state[_RESUME]
    n = 0
    phase = _OUTSIDE
    while True:
        state[_POS] = pos
        if phase == _OUTSIDE:
            state[_RESUME] = pos
            if n == transactions.numbers.shape[0]:
                return n, Stop.FULL
        if pos == size:
            return n, (Stop.END if phase == _OUTSIDE else Stop.OPEN)
        length = _length(buf, pos, CRC_LENGTH * state[_CHECKSUM])
        if length < 0:
            return n, -length
        end = pos + length - CRC_LENGTH * state[_CHECKSUM]
        kind = u8(buf, pos + 4)
        begins = _is_gtid(kind)
        if begins and phase != _OUTSIDE:
            # A receiver that lost its connection receives the transaction again from its beginning.
            if not state[_INTERRUPTED]:
                return n, Stop.UNEXPECTED_EVENT
            phase = _OUTSIDE
        if phase == _OUTSIDE and (begins or kind == EventType.QUERY or kind == EventType.INCIDENT):
            if not _head(buf, pos, end, state, transactions, n):
                return n, Stop.MALFORMED_EVENT
            phase = _HEADED
        if not begins:
            row = scratch if phase == _OUTSIDE else transactions.numbers[n]
            phase = _step(buf, pos, end, length, phase, state, row)
            if phase <= _REFUSED:
                return n, -phase
            if phase == _DONE:
                row[END] = pos + length
                n += 1
                phase = _OUTSIDE
        if phase == _OUTSIDE:
            ends = kind == EventType.STOP or kind == EventType.ROTATE
            # In a replica's file the source's ROTATE does not end the file; the replica's own is
            # marked RELAY_LOG.
            state[_CLOSED] = ends and (not state[_RELAY] or buf[pos + 17] & _RELAY_LOG)
        pos += length


@jit
def _is_gtid(kind: Int) -> bool:
    return (
        kind == EventType.GTID or kind == EventType.ANONYMOUS_GTID or kind == EventType.GTID_TAGGED
    )


@jit
def _head(
    buf: np.ndarray, pos: int, end: int, state: np.ndarray, transactions: Transactions, n: int
) -> Any:
    """Begin transaction ``n`` with its first event, which before 5.7 may be a Query. Return False
    if the event is malformed."""
    row, uuid, tag = transactions.numbers[n], transactions.uuids[n], transactions.tags[n]
    kind = buf[pos + 4]
    row[:] = 0
    uuid[:] = 0
    tag[:] = 0
    row[START] = pos
    row[KIND] = Kind.EMPTY
    row[FLAGS] = Flag.CHECKSUM if state[_CHECKSUM] else 0
    row[COMMIT_TIME] = u32(buf, pos) * _MICROSECONDS
    state[_INTERRUPTED] = 0
    if kind != EventType.GTID and kind != EventType.GTID_TAGGED:
        row[FLAGS] |= Flag.ANONYMOUS
    if kind == EventType.GTID_TAGGED:
        return read_tagged_gtid(buf, pos + HEADER_LENGTH, end, row, uuid, tag)
    if kind == EventType.GTID or kind == EventType.ANONYMOUS_GTID:
        return read_gtid(buf, pos + HEADER_LENGTH, end, row, uuid)
    return True


@jit
def _length(buf: np.ndarray, pos: int, tail: int) -> Int:
    """Return the bytes of the event at ``pos``, whose body is followed by ``tail`` bytes. Return a
    negated Stop if the event is not whole."""
    if pos + HEADER_LENGTH > buf.size:
        return -Stop.CUT
    length = u32(buf, pos + 9)
    if length < HEADER_LENGTH:
        return -Stop.NO_EVENT
    if pos + length > buf.size:
        return -Stop.CUT
    return length if length - tail >= HEADER_LENGTH else -Stop.MALFORMED_EVENT


@jit
def _step(
    buf: np.ndarray, pos: int, end: int, length: Int, phase: int, state: np.ndarray, row: np.ndarray
) -> int:
    """Return the phase after an event that is not a GTID event; _DONE at the transaction's end."""
    kind = u8(buf, pos + 4)
    if is_rows(kind):
        if phase != _BEGUN:
            return -Stop.UNEXPECTED_EVENT
        row[ROW_EVENTS] += 1
        if row[KIND] == Kind.EMPTY:
            row[KIND] = Kind.ROWS
        return phase
    if kind == EventType.TABLE_MAP:
        return phase if phase == _BEGUN else -Stop.UNEXPECTED_EVENT
    if kind == EventType.QUERY:
        return _query(buf, pos, end, phase, row)
    if kind == EventType.XID:
        return _DONE if phase == _BEGUN else -Stop.UNEXPECTED_EVENT
    if kind == EventType.XA_PREPARE:
        if phase != _BEGUN:
            return -Stop.UNEXPECTED_EVENT
        if end <= pos + HEADER_LENGTH:
            return -Stop.MALFORMED_EVENT
        if row[KIND] != Kind.STATEMENT:
            row[KIND] = Kind.XA_ONE_PHASE if buf[pos + HEADER_LENGTH] else Kind.XA_PREPARE
        return _DONE
    if kind == EventType.TRANSACTION_PAYLOAD:
        if phase != _HEADED:
            return -Stop.UNEXPECTED_EVENT
        row[FLAGS] |= Flag.COMPRESSED
        row[ROW_EVENTS] = -1
        row[PAYLOAD_OFFSET] = pos
        row[KIND] = Kind.ROWS
        return _DONE
    if kind == EventType.INCIDENT:
        row[KIND] = Kind.INCIDENT
        row[QUERY_OFFSET] = pos
        return _DONE
    if (
        EventType.APPEND_BLOCK <= kind <= EventType.DELETE_FILE
        or kind == EventType.BEGIN_LOAD_QUERY
        or kind == EventType.EXECUTE_LOAD_QUERY
    ):
        return _load_data(kind, phase, row)
    return _control(buf, pos, length, phase, state)


@jit
def _query(buf: np.ndarray, pos: int, end: int, phase: int, row: np.ndarray) -> int:
    at = query_text(buf, pos, end)
    if at < 0:
        return -Stop.MALFORMED_EVENT
    if phase == _BEGUN:
        if begins_again(buf, at, end):
            return -Stop.UNEXPECTED_EVENT
        return _DONE if inner_query(buf, at, end, pos, row) else phase
    if is_begin(buf, at, end):
        return _BEGUN
    if is_xa_start(buf, at, end):
        row[QUERY_OFFSET] = pos
        return _BEGUN
    single_query(buf, at, end, pos, row)
    return _DONE


@jit
def _load_data(kind: Int, phase: int, row: np.ndarray) -> int:
    """Return the phase after an event of LOAD DATA in statement format."""
    if phase == _OUTSIDE:
        return -Stop.UNEXPECTED_EVENT
    row[KIND] = Kind.STATEMENT
    return _DONE if phase == _HEADED and kind == EventType.EXECUTE_LOAD_QUERY else phase


@jit
def _control(buf: np.ndarray, pos: int, length: Int, phase: int, state: np.ndarray) -> int:
    """Return the phase after an event that the grammar of transactions does not use."""
    kind = buf[pos + 4]
    if kind == EventType.FORMAT_DESCRIPTION:
        if length < HEADER_LENGTH + 57 + 1 + CRC_LENGTH:
            return -Stop.MALFORMED_EVENT
        # After the head of the file only a relay log has one: the source's, after a new connection.
        state[_CHECKSUM] = buf[pos + length - CRC_LENGTH - 1] == 1
        state[_INTERRUPTED] = 1
        return phase
    if kind == EventType.STOP or kind == EventType.ROTATE:
        # A replica writes its own inside a transaction; a MySQL source never does.
        return phase if phase == _OUTSIDE or state[_RELAY] else -Stop.UNEXPECTED_EVENT
    passes = (
        kind == EventType.INTVAR
        or kind == EventType.RAND
        or kind == EventType.USER_VAR
        or EventType.HEARTBEAT <= kind <= EventType.ROWS_QUERY
        or EventType.PREVIOUS_GTIDS <= kind <= EventType.VIEW_CHANGE
        or kind == EventType.HEARTBEAT_V2
    )
    return phase if passes or buf[pos + 17] & _IGNORABLE else -Stop.UNKNOWN_EVENT


# The receiver applies this grammar to events as they arrive (receiver/packet).
is_gtid, open_row, step = _is_gtid, _head, _step
OUTSIDE, HEADED, BEGUN, DONE = _OUTSIDE, _HEADED, _BEGUN, _DONE
STATE_CHECKSUM, STATE_ENTRIES = _CHECKSUM, 6
