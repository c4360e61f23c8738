"""The compiled part of the packet splitter: packets in, consecutive events out, state in an
array."""

from __future__ import annotations

import numpy as np

from ..binlog.event_types import CRC_LENGTH, HEADER_LENGTH, EventType
from ..binlog.events.grammar import is_rows, read_uint
from ..binlog.events.scan import (
    BEGUN,
    DONE,
    HEADED,
    OUTSIDE,
    STATE_CHECKSUM,
    STATE_ENTRIES,
    is_gtid,
    open_row,
    step,
)
from ..binlog.events.transaction import END, START, Transactions
from ..binlog.kernels.crc import crc32_update
from ..binlog.kernels.jit import copy, jit

PACKET_MAX = 0xFFFFFF
# Entries of the state array after the grammar's own.
(
    AT_IN, AT_OUT, AT_PHASE, AT_INSIDE, AT_START, AT_EVENT_LEFT, AT_PACKET_LEFT, AT_MORE,
    AT_SEQUENCE, AT_TYPE,
    AT_SUM, AT_WANT, AT_SEMI_SYNC, AT_ASKS, AT_ACK, AT_COUNT, AT_END_LOG_POS,
) = range(STATE_ENTRIES, STATE_ENTRIES + 17)  # fmt: skip
ENTRIES = STATE_ENTRIES + 17


# Why the kernel returned.
OK = -1
"""it did not return: continue"""
NEED = 0
"""all input is used but for the beginning of a packet"""
FULL = 1
"""the output or the arrays are full"""
SPECIAL = 2
"""an event about the stream itself: out[AT_START:AT_OUT]"""
REPLY = 3
"""an error or EOF packet at AT_IN"""
BAD_SEQUENCE, BAD_PACKET, BAD_CHECKSUM, BAD_GRAMMAR = 4, 5, 6, 7


@jit
def is_streamed(kind: int) -> bool:
    """Return whether the grammar does not read the event's body: it passes through in pieces."""
    return (
        kind == EventType.TABLE_MAP
        or kind == EventType.ROWS_QUERY
        or is_rows(kind)
        or kind == EventType.TRANSACTION_PAYLOAD
    )


@jit
def _is_special(kind: int) -> bool:
    return (
        kind == EventType.ROTATE
        or kind == EventType.FORMAT_DESCRIPTION
        or kind == EventType.PREVIOUS_GTIDS
        or kind == EventType.HEARTBEAT
        or kind == EventType.HEARTBEAT_V2
    )


@jit
def split(
    data: np.ndarray, have: int, out: np.ndarray, state: np.ndarray, transactions: Transactions
) -> int:
    while True:
        if not state[AT_INSIDE] and (
            state[AT_COUNT] == transactions.numbers.shape[0] - 1
            or out.size - state[AT_OUT] < HEADER_LENGTH
        ):
            return FULL
        if state[AT_PACKET_LEFT] == 0 and (not state[AT_INSIDE] or state[AT_MORE]):
            code = _begin_packet(data, have, state)
            if code != OK:
                return code
        code = _copy(data, have, out, state)
        if code != OK:
            return code
        if state[AT_EVENT_LEFT] == 0 and not state[AT_MORE]:
            state[AT_INSIDE] = 0
            code = _finish_event(out, state, transactions)
            if code != OK:
                return code


@jit
def _begin_packet(data: np.ndarray, have: int, state: np.ndarray) -> int:
    at = state[AT_IN]
    if have - at < 4:
        return NEED
    length = read_uint(data, at, 3)
    if not state[AT_INSIDE]:
        prefix = 3 if state[AT_SEMI_SYNC] else 1
        if length == 0:
            return BAD_PACKET
        if have - at < 4 + min(length, prefix + HEADER_LENGTH):
            return NEED
        if data[at + 4] == 0xFF or (data[at + 4] == 0xFE and length < 9):
            return NEED if have - at < 4 + length else REPLY
    if state[AT_SEMI_SYNC] and not state[AT_INSIDE]:
        state[AT_SEQUENCE] = data[at + 3]  # the source starts to count at each acknowledgement
    if data[at + 3] != state[AT_SEQUENCE]:
        return BAD_SEQUENCE
    state[AT_SEQUENCE] = (state[AT_SEQUENCE] + 1) & 0xFF
    if not state[AT_INSIDE]:
        return _begin_event(data, at, length, prefix, state)
    if length != min(state[AT_EVENT_LEFT], PACKET_MAX):
        return BAD_PACKET
    state[AT_IN] = at + 4
    state[AT_PACKET_LEFT] = length
    state[AT_MORE] = length == PACKET_MAX
    return OK


@jit
def _begin_event(data: np.ndarray, at: int, length: int, prefix: int, state: np.ndarray) -> int:
    event = at + 4 + prefix
    if length < prefix + HEADER_LENGTH or data[at + 4] != 0:
        return BAD_PACKET
    if prefix == 3:
        if data[at + 5] != 0xEF:
            return BAD_PACKET
        state[AT_ASKS] = data[at + 6] == 1  # for an acknowledgement of this event, once it is whole
    size = read_uint(data, event + 9, 4)
    state[AT_TYPE] = data[event + 4]
    if size < HEADER_LENGTH + CRC_LENGTH * state[STATE_CHECKSUM]:
        return BAD_PACKET
    if size + prefix != length and (length < PACKET_MAX or size + prefix < length):
        return BAD_PACKET
    state[AT_IN] = event
    state[AT_END_LOG_POS] = read_uint(data, event + 13, 4)
    state[AT_INSIDE] = 1
    state[AT_START] = state[AT_OUT]
    state[AT_EVENT_LEFT] = size
    state[AT_PACKET_LEFT] = length - prefix
    state[AT_MORE] = length == PACKET_MAX
    state[AT_SUM] = 0
    state[AT_WANT] = 0
    return OK


@jit
def _copy(data: np.ndarray, have: int, out: np.ndarray, state: np.ndarray) -> int:
    """Copy the available bytes of the packet to the output, and update the checksum."""
    at = state[AT_IN]
    to = state[AT_OUT]
    count = min(state[AT_PACKET_LEFT], have - at)
    if state[AT_PACKET_LEFT] and count == 0:
        return NEED
    room = out.size - to
    if count > room:
        count = room
        if count == 0:
            return FULL
    copy(data, at, count, out, to)
    if state[STATE_CHECKSUM]:
        summed = min(count, max(0, state[AT_EVENT_LEFT] - CRC_LENGTH))
        state[AT_SUM] = crc32_update(state[AT_SUM], out, to, to + summed)
        for i in range(to + summed, to + count):
            state[AT_WANT] = state[AT_WANT] >> 8 | np.int64(out[i]) << 24
    state[AT_IN] += count
    state[AT_OUT] += count
    state[AT_PACKET_LEFT] -= count
    state[AT_EVENT_LEFT] -= count
    return OK


@jit
def _finish_event(out: np.ndarray, state: np.ndarray, transactions: Transactions) -> int:
    kind = state[AT_TYPE]
    if _is_special(kind):  # artificial events may have other checksums: see source.dump
        return SPECIAL
    if state[STATE_CHECKSUM] and state[AT_SUM] != state[AT_WANT]:
        return BAD_CHECKSUM
    n = state[AT_COUNT]
    phase = state[AT_PHASE]
    start = state[AT_START]
    if is_streamed(kind):
        phase = _streamed_step(kind, phase)
    else:
        end = state[AT_OUT] - CRC_LENGTH * state[STATE_CHECKSUM]
        begins = is_gtid(kind)
        if begins and phase != OUTSIDE:
            return BAD_GRAMMAR
        opens = begins or kind == EventType.QUERY or kind == EventType.INCIDENT
        if phase == OUTSIDE and opens:
            if not open_row(out, start, end, state, transactions, n):
                return BAD_GRAMMAR
            phase = HEADED
        if not begins:
            phase = step(
                out, start, end, state[AT_OUT] - start, phase, state, transactions.numbers[n]
            )
    if phase < 0:
        return BAD_GRAMMAR
    if phase == DONE:
        transactions.numbers[n, END] = state[AT_OUT]
        transactions.numbers[n, START] = state[AT_END_LOG_POS]
        state[AT_COUNT] += 1
        phase = OUTSIDE
    state[AT_PHASE] = phase
    state[AT_ACK] |= state[AT_ASKS]
    return OK


@jit
def _streamed_step(kind: int, phase: int) -> int:
    """Return the phase after an event that passed in pieces; -1 if the event is invalid in
    ``phase``."""
    if kind == EventType.TRANSACTION_PAYLOAD:
        return DONE if phase == HEADED else -1
    if kind == EventType.ROWS_QUERY:
        return phase
    return BEGUN if phase == BEGUN else -1
