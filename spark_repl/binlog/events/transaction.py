"""A transaction of the log, and the result of a scan for transactions. No kernels, quick to import.

Rows of ``numbers`` are int64[11], one per transaction, with the columns named here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np


class Kind(IntEnum):
    """The kind of a transaction, as far as its first and last events show it."""

    ROWS = 0
    """BEGIN … XID or COMMIT with row events (or compressed)"""
    EMPTY = 1
    QUERY = 2
    """one statement: DDL, account management"""
    ROLLBACK = 3
    """ended by ROLLBACK"""
    XA_PREPARE = 4
    XA_ONE_PHASE = 5
    XA_COMMIT = 6
    XA_ROLLBACK = 7
    STATEMENT = 8
    """changes rows by statements, or rolls a part of itself back (ROLLBACK TO)"""
    INCIDENT = 9
    DDL_ROWS = 10
    """CREATE TABLE … START TRANSACTION, then rows"""


class Flag(IntEnum):
    COMPRESSED = 1
    ANONYMOUS = 2
    CHECKSUM = 4
    ROLLBACK_TO = 8
    """contains a ROLLBACK TO SAVEPOINT: not all row events before it are valid"""


# Columns of the int64 array.
START, END, ROW_EVENTS, KIND, FLAGS, LAST_COMMITTED, SEQUENCE_NUMBER, COMMIT_TIME, GNO = range(9)
QUERY_OFFSET, PAYLOAD_OFFSET = 9, 10
COLUMNS = 11


class Stop(IntEnum):
    """The reason why the scan ended."""

    END = 0
    """at the end of the bytes, between transactions"""
    FULL = 1
    """the arrays are full; the scan continues at ``resume``"""
    OPEN = 2
    """at the end of the bytes, inside a transaction"""
    CUT = 3
    """the last event runs beyond the end of the bytes"""
    NO_EVENT = 4
    """bytes that are no event header: a length below 19"""
    UNKNOWN_EVENT = 5
    UNEXPECTED_EVENT = 6
    """an event that is not allowed at this place"""
    MALFORMED_EVENT = 7
    """an event too short for its required fields"""


class Transactions(NamedTuple):
    """Transactions [n], or arrays that are to be filled with them."""

    numbers: np.ndarray
    """int64[n, 11], columns START … PAYLOAD_OFFSET (0 if there is none)"""
    uuids: np.ndarray
    """uint8[n, 16]"""
    tags: np.ndarray
    """uint8[n, 32], padded with zeros"""

    @classmethod
    def room(cls, count: int) -> Transactions:
        numbers = np.zeros((count, COLUMNS), np.int64)
        return cls(numbers, np.zeros((count, 16), np.uint8), np.zeros((count, 32), np.uint8))


@dataclass(frozen=True)
class Scan:
    """Transactions of one range of a file; offsets count from the buffer's beginning."""

    numbers: np.ndarray
    uuids: np.ndarray
    tags: np.ndarray
    """numbers, uuids and tags as in ``Transactions``"""
    stop: Stop
    resume: int
    """offset at which the next scan begins: after the last complete transaction and the events
    outside any transaction that follow it"""
    bad: int
    """offset of the event that stopped the scan"""
    checksum: bool
    """whether the events at ``resume`` carry a CRC32"""
    closed: bool
    """whether the last event before ``resume`` is ROTATE or STOP"""
