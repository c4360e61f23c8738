"""PacketSplitter: turns packets of a dump connection into runs of events; bytes in, bytes out.

A source sends each event in a packet of its own (split at 16 MB), after an OK byte and, with
semi-synchronous replication, two more bytes (MySQL source, plugin/semisync). ``PacketSplitter``
accepts the stream cut anywhere. It checks sequence numbers, lengths and each event's CRC32, and
follows the grammar of transactions, so that the writer of the events knows where whole transactions
end.

The second half of this module is compiled: packets in, consecutive events out, state in an array.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..binlog.event_types import CRC_LENGTH, HEADER_LENGTH, EventType, type_name
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
from ..binlog.events.transaction import END, GNO, START, Transactions
from ..binlog.kernels.crc import crc32_update
from ..binlog.kernels.jit import copy, jit
from ..errors import SourceLostError

INPUT_BYTES = 1 << 20
_OUT_BYTES = INPUT_BYTES + 4096
_TRANSACTIONS = 1 << 14


@dataclass(frozen=True, slots=True)
class EventRun:
    """Consecutive events, and the transactions that end in them."""

    data: memoryview
    """valid until the splitter is used again"""
    ends: np.ndarray
    """int64[n], ascending: offsets in ``data`` of the ends of whole transactions"""
    uuids: np.ndarray
    """uint8[n, 16]"""
    gnos: np.ndarray
    """int64[n]; 0: anonymous"""
    tags: np.ndarray
    """S32[n]"""
    positions: np.ndarray
    """int64[n]: the source's positions of their ends, modulo 2**32"""
    ack: bool
    """the source waits for an acknowledgement of a transaction that ends here"""


@dataclass(frozen=True, slots=True)
class Special:
    """A ROTATE, FORMAT_DESCRIPTION, PREVIOUS_GTIDS or HEARTBEAT event; it is in no EventRun."""

    event: bytes
    inside: bool
    """whether it came inside of a transaction"""

    @property
    def type(self) -> int:
        return self.event[4]


@dataclass(frozen=True, slots=True)
class Reply:
    """The source's last reply: an error packet or EOF, without the packet header."""

    payload: bytes


class PacketSplitter:
    """Splits a stream: read into ``space()``, call ``received(count)``, then process the results of
    ``events``.

    ``checksum``: events have a CRC32; call ``described`` after each FORMAT_DESCRIPTION.
    ``sequence``: number of the first packet (1 after a command).
    """

    def __init__(self, *, semi_sync: bool = False, sequence: int = 1) -> None:
        self._input = np.zeros(INPUT_BYTES, np.uint8)
        self._out = np.zeros(_OUT_BYTES, np.uint8)
        self._spare = np.zeros_like(self._out)
        self._have = 0
        self._state = np.zeros(ENTRIES, np.int64)
        self._state[AT_SEMI_SYNC] = semi_sync
        self._state[AT_SEQUENCE] = sequence
        self._transactions = Transactions.room(_TRANSACTIONS + 1)

    @property
    def checksum(self) -> bool:
        return bool(self._state[STATE_CHECKSUM])

    def described(self, *, checksum: bool) -> None:
        """Set what a FORMAT_DESCRIPTION declares about the events after it."""
        self._state[STATE_CHECKSUM] = checksum

    @property
    def inside(self) -> bool:
        """Return whether the last event is inside a transaction."""
        return bool(self._state[AT_PHASE] != OUTSIDE)

    def forget_transaction(self) -> None:
        """Drop the open transaction: the source will not continue it."""
        self._state[AT_PHASE] = OUTSIDE

    def space(self) -> memoryview:
        """Return the buffer for the next bytes of the stream; never empty."""
        used = int(self._state[AT_IN])
        if used:
            left = self._have - used
            self._input[:left] = self._input[used : self._have].copy()
            self._have, self._state[AT_IN] = left, 0
        if self._have == len(self._input):
            self._input = np.concatenate((self._input, np.zeros_like(self._input)))
        return self._input.data[self._have :]

    def received(self, count: int) -> None:
        self._have += count

    def events(self) -> Iterator[EventRun | Special | Reply]:
        """Yield the events of the bytes received so far, in order. Raise SourceLostError if the
        stream is broken."""
        state = self._state
        while True:
            code = split(self._input, self._have, self._out, state, self._transactions)
            buffered = bool(state[AT_INSIDE]) and not is_streamed(int(state[AT_TYPE]))
            whole = int(state[AT_START]) if buffered or code == SPECIAL else int(state[AT_OUT])
            if whole:
                yield self._batch(whole)
            if code == SPECIAL:
                event = self._out[: int(state[AT_OUT])].tobytes()
                state[AT_OUT] = 0
                yield Special(event, self.inside)
            elif code == FULL:
                if whole == 0:  # an event that must be held as one
                    self._out = np.concatenate((self._out, np.zeros_like(self._out)))
            elif code == REPLY:
                yield self._reply()
                return
            elif code == NEED:
                return
            else:
                raise _broken(code, state)

    def _batch(self, whole: int) -> EventRun:
        """Return the first ``whole`` bytes of the output; the rest stays at the front of the next
        output."""
        state, out = self._state, self._out
        count = int(state[AT_COUNT])
        numbers, uuids, tags = (column[:count] for column in self._transactions)
        batch = EventRun(
            out.data[:whole], numbers[:, END].copy(), uuids.copy(), numbers[:, GNO].copy(),
            tags.copy().view("S32").reshape(-1), numbers[:, START].copy(), bool(state[AT_ACK]),
        )  # fmt: skip
        rest = int(state[AT_OUT]) - whole
        # After a large statement, replace its large buffer by one of the usual size.
        size = _OUT_BYTES if rest <= _OUT_BYTES // 2 else len(out)
        if len(self._spare) != size:
            self._spare = np.zeros(size, np.uint8)
        self._spare[:rest] = out[whole : whole + rest]
        self._out, self._spare = self._spare, out
        for column in self._transactions:
            column[0] = column[count].copy()
        state[AT_START] -= whole
        state[AT_OUT], state[AT_COUNT], state[AT_ACK] = rest, 0, 0
        return batch

    def _reply(self) -> Reply:
        at = int(self._state[AT_IN])
        length = int.from_bytes(self._input[at : at + 3].tobytes(), "little")
        self._state[AT_IN] = at + 4 + length
        return Reply(self._input[at + 4 : at + 4 + length].tobytes())


def _broken(code: int, state: np.ndarray) -> SourceLostError:
    name = type_name(int(state[AT_TYPE]))
    message = {
        BAD_SEQUENCE: "packets out of order: the connection is broken",
        BAD_PACKET: "a packet that is no event: the connection is broken",
        BAD_CHECKSUM: "Replication event checksum verification failed while reading from"
        f" network (a {name} event)",
        BAD_GRAMMAR: f"a {name} event can't stand here: the source's log is damaged, or of"
        " a version that is not known",
    }[code]
    return SourceLostError(
        message, hint="it is fetched again; if it comes back, check the source's log"
    )


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
    """Return whether the event's body is passed through in pieces, because the grammar does not
    need to read it."""
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
