"""PacketSplitter: turns packets of a dump connection into runs of events; bytes in, bytes out.

A source sends each event in a packet of its own (split at 16 MB), after an OK byte and, with
semi-synchronous replication, two more bytes (MySQL source, plugin/semisync). ``PacketSplitter``
accepts the stream cut anywhere. It checks sequence numbers, lengths and each event's CRC32, and
follows the grammar of transactions, so that the writer of the events knows where whole transactions
end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..binlog.event_types import type_name
from ..binlog.events.scan import OUTSIDE, STATE_CHECKSUM
from ..binlog.events.transaction import END, GNO, START, Transactions
from ..errors import SourceLostError
from .packet_kernel import (
    AT_ACK,
    AT_COUNT,
    AT_IN,
    AT_INSIDE,
    AT_OUT,
    AT_PHASE,
    AT_SEMI_SYNC,
    AT_SEQUENCE,
    AT_START,
    AT_TYPE,
    BAD_CHECKSUM,
    BAD_GRAMMAR,
    BAD_PACKET,
    BAD_SEQUENCE,
    ENTRIES,
    FULL,
    NEED,
    REPLY,
    SPECIAL,
    is_streamed,
    split,
)

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
    ``take()``.

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

    def take(self) -> Iterator[EventRun | Special | Reply]:
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
