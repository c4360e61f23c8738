"""The packets of a dump connection become events in a row: bytes in, bytes out, no socket.

A source sends each event in a packet of its own (split at 16 MB), behind an OK byte and, with
semi-synchronous replication, two more bytes (mysql.md 1.8). ``PacketSplitter`` takes the stream
cut anywhere, checks sequence numbers, lengths and each event's CRC32, and walks the grammar of
transactions, so that whoever writes the events knows where whole transactions end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numba import njit

from ..binlog.crc import crc32_update
from ..binlog.event import EventType, type_name
from ..binlog.grammar import COLUMNS, END, GNO, START, read_uint
from ..binlog.scan import (
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
from ..errors import SourceLostError

PACKET_MAX = 0xFFFFFF
INPUT_BYTES = 1 << 20
_HEADER, _CRC = 19, 4
_TRANSACTIONS = 1 << 14
# Entries of the state array behind those of the grammar.
(
    _IN, _OUT, _PHASE, _INSIDE, _START, _EVENT_LEFT, _PACKET_LEFT, _MORE, _SEQUENCE, _TYPE,
    _SUM, _WANT, _SEMI_SYNC, _ACK, _COUNT, _END_LOG_POS,
) = range(STATE_ENTRIES, STATE_ENTRIES + 16)  # fmt: skip


# Why the kernel came back.
_OK = -1
"""it does not: goes on"""
_NEED = 0
"""all input is used but for the beginning of a packet"""
_FULL = 1
"""the output or the arrays are full"""
_SPECIAL = 2
"""an event that says something about the stream: out[_START:_OUT]"""
_REPLY = 3
"""an error or EOF packet at _IN"""
_BAD_SEQUENCE, _BAD_PACKET, _BAD_CHECKSUM, _BAD_GRAMMAR = 4, 5, 6, 7


@dataclass(frozen=True, slots=True)
class Batch:
    """Events in a row, and the transactions that end in them."""

    data: memoryview
    """valid until the splitter is used again"""
    ends: np.ndarray
    """int64[n], ascending: offsets in ``data`` behind whole transactions"""
    uuids: np.ndarray
    """uint8[n, 16]"""
    gnos: np.ndarray
    """int64[n]; 0: anonymous"""
    tags: np.ndarray
    """S32[n]"""
    positions: np.ndarray
    """int64[n]: the source's positions behind them, modulo 2**32"""
    ack: bool
    """the source waits for an acknowledgement of a transaction that ends here"""


@dataclass(frozen=True, slots=True)
class Special:
    """A ROTATE, FORMAT_DESCRIPTION, PREVIOUS_GTIDS or HEARTBEAT event; it is in no Batch."""

    event: bytes
    inside: bool
    """whether it came inside of a transaction"""

    @property
    def type(self) -> int:
        return self.event[4]


@dataclass(frozen=True, slots=True)
class Reply:
    """The source's last word: an error packet or EOF, without the packet header."""

    payload: bytes


class PacketSplitter:
    """Feed what a socket gives into ``space()``, tell ``received(n)``, then take ``take()``.

    ``checksum`` says whether events carry a CRC32: whoever reads the FORMAT_DESCRIPTION events
    sets it. ``sequence``: of the first packet (1 behind a command).
    """

    def __init__(self, *, semi_sync: bool = False, sequence: int = 1) -> None:
        self._input = np.zeros(INPUT_BYTES, np.uint8)
        self._out = np.zeros(INPUT_BYTES + 4096, np.uint8)
        self._spare = np.zeros_like(self._out)
        self._have = 0
        self._state = np.zeros(STATE_ENTRIES + 16, np.int64)
        self._state[_SEMI_SYNC] = semi_sync
        self._state[_SEQUENCE] = sequence
        self._numbers = np.zeros((_TRANSACTIONS + 1, COLUMNS), np.int64)
        self._uuids = np.zeros((_TRANSACTIONS + 1, 16), np.uint8)
        self._tags = np.zeros((_TRANSACTIONS + 1, 32), np.uint8)

    @property
    def checksum(self) -> bool:
        return bool(self._state[STATE_CHECKSUM])

    @checksum.setter
    def checksum(self, value: bool) -> None:
        self._state[STATE_CHECKSUM] = value

    @property
    def inside(self) -> bool:
        """Whether the last event lies inside of a transaction."""
        return bool(self._state[_PHASE] != OUTSIDE)

    def forget_transaction(self) -> None:
        """The open transaction is dropped: the source will not go on with it."""
        self._state[_PHASE] = OUTSIDE

    def space(self) -> memoryview:
        """Where the next bytes of the stream go; never empty."""
        used = int(self._state[_IN])
        if used:
            left = self._have - used
            self._input[:left] = self._input[used : self._have].copy()
            self._have, self._state[_IN] = left, 0
        if self._have == len(self._input):
            self._input = np.concatenate((self._input, np.zeros_like(self._input)))
        return self._input.data[self._have :]

    def received(self, count: int) -> None:
        self._have += count

    def take(self) -> Iterator[Batch | Special | Reply]:
        """What the bytes received so far hold, in order. SourceLostError: it is broken."""
        state = self._state
        while True:
            code = _split(
                self._input, self._have, self._out, state, self._numbers, self._uuids, self._tags
            )
            held = bool(state[_INSIDE]) and not _streams(int(state[_TYPE]))
            whole = int(state[_START]) if held or code == _SPECIAL else int(state[_OUT])
            if whole:
                yield self._batch(whole)
            if code == _SPECIAL:
                event = self._out[: int(state[_OUT])].tobytes()
                state[_OUT] = 0
                yield Special(event, self.inside)
            elif code == _FULL:
                if whole == 0:  # an event that must be held as one
                    self._out = np.concatenate((self._out, np.zeros_like(self._out)))
            elif code == _REPLY:
                yield self._reply()
                return
            elif code == _NEED:
                return
            else:
                raise _broken(code, state)

    def _batch(self, whole: int) -> Batch:
        """Hands out out[:whole]; what is held stays, at the front of the next output."""
        state, out = self._state, self._out
        n = int(state[_COUNT])
        numbers = self._numbers[: n + 1]
        batch = Batch(
            out.data[:whole], numbers[:n, END].copy(), self._uuids[:n].copy(),
            numbers[:n, GNO].copy(), self._tags[:n].copy().view("S32").reshape(-1),
            numbers[:n, START].copy(), bool(state[_ACK]),
        )  # fmt: skip
        rest = int(state[_OUT]) - whole
        if len(self._spare) < len(out):
            self._spare = np.zeros_like(out)
        self._spare[:rest] = out[whole : whole + rest]
        self._out, self._spare = self._spare, out
        for array in (self._numbers, self._uuids, self._tags):
            array[0] = array[n].copy()
        state[_START] -= whole
        state[_OUT], state[_COUNT], state[_ACK] = rest, 0, 0
        return batch

    def _reply(self) -> Reply:
        at = int(self._state[_IN])
        length = int.from_bytes(self._input[at : at + 3].tobytes(), "little")
        self._state[_IN] = at + 4 + length
        return Reply(self._input[at + 4 : at + 4 + length].tobytes())


def _streams(kind: int) -> bool:
    return bool(_is_streamed(kind))


def _broken(code: int, state: np.ndarray) -> SourceLostError:
    name = type_name(int(state[_TYPE]))
    said = {
        _BAD_SEQUENCE: "packets out of order: the connection is broken",
        _BAD_PACKET: "a packet that is no event: the connection is broken",
        _BAD_CHECKSUM: "Replication event checksum verification failed while reading from"
        f" network (a {name} event)",
        _BAD_GRAMMAR: f"a {name} event can't stand here: the source's log is damaged, or of"
        " a version that is not known",
    }[code]
    return SourceLostError(
        said, hint="it is fetched again; if it comes back, check the source's log"
    )


@njit(cache=True, nogil=True)
def _is_streamed(kind: int) -> bool:
    """Events whose bodies the grammar does not read: they pass through in pieces."""
    return (
        kind == EventType.TABLE_MAP
        or 23 <= kind <= 25
        or 29 <= kind <= 32
        or kind == EventType.PARTIAL_UPDATE_ROWS
        or kind == EventType.TRANSACTION_PAYLOAD
    )


@njit(cache=True, nogil=True)
def _is_special(kind: int) -> bool:
    return (
        kind == EventType.ROTATE
        or kind == EventType.FORMAT_DESCRIPTION
        or kind == EventType.PREVIOUS_GTIDS
        or kind == EventType.HEARTBEAT
        or kind == EventType.HEARTBEAT_V2
    )


@njit(cache=True, nogil=True)
def _split(
    data: np.ndarray,
    have: int,
    out: np.ndarray,
    state: np.ndarray,
    numbers: np.ndarray,
    uuids: np.ndarray,
    tags: np.ndarray,
) -> int:
    while True:
        if not state[_INSIDE] and (
            state[_COUNT] == numbers.shape[0] - 1 or out.size - state[_OUT] < _HEADER
        ):
            return _FULL
        if state[_PACKET_LEFT] == 0 and (not state[_INSIDE] or state[_MORE]):
            code = _begin_packet(data, have, state)
            if code != _OK:
                return code
        code = _copy(data, have, out, state)
        if code != _OK:
            return code
        if state[_EVENT_LEFT] == 0 and not state[_MORE]:
            state[_INSIDE] = 0
            code = _finish_event(out, state, numbers, uuids, tags)
            if code != _OK:
                return code


@njit(cache=True, nogil=True)
def _begin_packet(data: np.ndarray, have: int, state: np.ndarray) -> int:
    at = state[_IN]
    if have - at < 4:
        return _NEED
    length = read_uint(data, at, 3)
    if not state[_INSIDE]:
        prefix = 3 if state[_SEMI_SYNC] else 1
        if length == 0:
            return _BAD_PACKET
        if have - at < 4 + min(length, prefix + _HEADER):
            return _NEED
        if data[at + 4] == 0xFF or (data[at + 4] == 0xFE and length < 9):
            return _NEED if have - at < 4 + length else _REPLY
    if data[at + 3] != state[_SEQUENCE]:
        return _BAD_SEQUENCE
    state[_SEQUENCE] = (state[_SEQUENCE] + 1) & 0xFF
    if not state[_INSIDE]:
        return _begin_event(data, at, length, prefix, state)
    if length != min(state[_EVENT_LEFT], PACKET_MAX):
        return _BAD_PACKET
    state[_IN] = at + 4
    state[_PACKET_LEFT] = length
    state[_MORE] = length == PACKET_MAX
    return _OK


@njit(cache=True, nogil=True)
def _begin_event(data: np.ndarray, at: int, length: int, prefix: int, state: np.ndarray) -> int:
    event = at + 4 + prefix
    if length < prefix + _HEADER or data[at + 4] != 0:
        return _BAD_PACKET
    if prefix == 3:
        if data[at + 5] != 0xEF:
            return _BAD_PACKET
        state[_ACK] |= data[at + 6] == 1
    size = read_uint(data, event + 9, 4)
    state[_TYPE] = data[event + 4]
    if size < _HEADER + _CRC * state[STATE_CHECKSUM]:
        return _BAD_PACKET
    if size + prefix != length and (length < PACKET_MAX or size + prefix < length):
        return _BAD_PACKET
    state[_IN] = event
    state[_END_LOG_POS] = read_uint(data, event + 13, 4)
    state[_INSIDE] = 1
    state[_START] = state[_OUT]
    state[_EVENT_LEFT] = size
    state[_PACKET_LEFT] = length - prefix
    state[_MORE] = length == PACKET_MAX
    state[_SUM] = 0
    state[_WANT] = 0
    return _OK


@njit(cache=True, nogil=True)
def _copy(data: np.ndarray, have: int, out: np.ndarray, state: np.ndarray) -> int:
    """Copies what is there of the packet, and carries the checksum on."""
    at = state[_IN]
    to = state[_OUT]
    count = min(state[_PACKET_LEFT], have - at)
    if state[_PACKET_LEFT] and count == 0:
        return _NEED
    room = out.size - to
    if count > room:
        count = room
        if count == 0:
            return _FULL
    out[to : to + count] = data[at : at + count]
    if state[STATE_CHECKSUM]:
        summed = min(count, max(0, state[_EVENT_LEFT] - _CRC))
        state[_SUM] = crc32_update(state[_SUM], out, to, to + summed)
        for i in range(to + summed, to + count):
            state[_WANT] = state[_WANT] >> 8 | np.int64(out[i]) << 24
    state[_IN] += count
    state[_OUT] += count
    state[_PACKET_LEFT] -= count
    state[_EVENT_LEFT] -= count
    return _OK


@njit(cache=True, nogil=True)
def _finish_event(
    out: np.ndarray, state: np.ndarray, numbers: np.ndarray, uuids: np.ndarray, tags: np.ndarray
) -> int:
    kind = state[_TYPE]
    if _is_special(kind):  # made on the way, they may differ in checksums: see relay/dump
        return _SPECIAL
    if state[STATE_CHECKSUM] and state[_SUM] != state[_WANT]:
        return _BAD_CHECKSUM
    n = state[_COUNT]
    phase = state[_PHASE]
    start = state[_START]
    if _is_streamed(kind):
        phase = _streamed_step(kind, phase)
    else:
        end = state[_OUT] - _CRC * state[STATE_CHECKSUM]
        begins = is_gtid(kind)
        if begins and phase != OUTSIDE:
            return _BAD_GRAMMAR
        opens = begins or kind == EventType.QUERY or kind == EventType.INCIDENT
        if phase == OUTSIDE and opens:
            if not open_row(out, start, end, state, numbers[n], uuids[n], tags[n]):
                return _BAD_GRAMMAR
            phase = HEADED
        if not begins:
            phase = step(out, start, end, state[_OUT] - start, phase, state, numbers[n])
    if phase < 0:
        return _BAD_GRAMMAR
    if phase == DONE:
        numbers[n, END] = state[_OUT]
        numbers[n, START] = state[_END_LOG_POS]
        state[_COUNT] += 1
        phase = OUTSIDE
    state[_PHASE] = phase
    return _OK


@njit(cache=True, nogil=True)
def _streamed_step(kind: int, phase: int) -> int:
    """The phase behind an event that passed in pieces; -1 when it can't stand there."""
    if kind == EventType.TRANSACTION_PAYLOAD:
        return DONE if phase == HEADED else -1
    if kind == EventType.ROWS_QUERY:
        return phase
    return BEGUN if phase == BEGUN else -1
