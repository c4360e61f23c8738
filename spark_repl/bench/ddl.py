"""``bench ddl``: costs of statements, by the way they are carried out, on a log made for it.

A ``GeneratedLog`` is a binary log as a 9.7 server writes it, so that a benchmark needs no server.
It holds statements, and rows of one form.
"""

from __future__ import annotations

import itertools
import logging
import os
import struct
import tempfile
import time
import uuid
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from ..binlog.event_types import CRC_LENGTH, HEADER, HEADER_LENGTH, EventType
from ..binlog.events.event import MAGIC
from ..config import Config
from ..receiver.own_events import with_checksum
from ..sql.ddl_outcome import DdlOutcome
from .memory import Memory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_INSERT = 20_000  # rows a transaction
_WARM = 60  # statements
_SMALL = (
    "CREATE TABLE {t}_n (id INT PRIMARY KEY, v VARCHAR(40))",
    "ALTER TABLE {t} ADD COLUMN c INT",
    "ALTER TABLE {t} RENAME COLUMN c TO d",
    "RENAME TABLE {t} TO {t}_x",
    "ALTER TABLE {t}_x DROP COLUMN d",
    "RENAME TABLE {t}_x TO {t}",
    "ALTER TABLE {t} ALTER COLUMN v SET DEFAULT 'x'",
    "CREATE INDEX k ON {t} (v)",
    "DROP INDEX k ON {t}",
    "DROP TABLE {t}_n",
)


@dataclass(frozen=True)
class _Did:
    """A statement: when it ended, the way it was carried out, its seconds, and its text."""

    at: float
    way: str
    seconds: float
    text: str


@dataclass(frozen=True)
class DdlLoad:
    """A load: small ``statements`` over ``tables``, and the rewrite of a table with ``rows``
    rows."""

    statements: int
    tables: int
    rows: int


def bench_ddl(load: DdlLoad, workers: int) -> dict[str, Any]:
    """Apply a log of the load, after a small log of the same kind that warms the session up.

    ``per_s``: small statements per second, from the first to the last, including cuts and
    everything in between; ``ways``: for each way of applying a statement the number of statements,
    and the seconds of one; ``processor_s``: processor time of this process and the JVM together,
    for the small statements.
    """
    from ..runtime.spark_session import build_session

    spark = build_session(master=f"local[{workers}]", delta=False)
    with tempfile.TemporaryDirectory(prefix="spark-repl-bench-") as folder, Memory() as memory:
        small = DdlLoad(_WARM, 2, min(load.rows, _INSERT))
        _apply(spark, os.path.join(folder, "warm"), small)
        did = _apply(spark, os.path.join(folder, "timed"), load)
        return {**_figures(did, load.rows), "peak_pss_mib": memory.peak_mib}


def _apply(spark: SparkSession, folder: str, load: DdlLoad) -> list[tuple[_Did, float]]:
    """Return the applied statements, each with the processor seconds up to its end."""
    from ..apply.start.replica import Replica
    from ..runtime.spark_session import jvm_process

    log, target = Path(folder, "log"), os.path.join(folder, "target")
    _make(log, load)
    config = Config.from_mapping({"relay": {"path": str(log)}, "target": {"path": target}})
    with _listening(jvm_process(spark)) as did, Replica(spark, config) as replica:
        replica.apply()
    return did


def _make(folder: Path, load: DdlLoad) -> None:
    log, rows = GeneratedLog(folder), load.rows
    for number in range(load.tables):
        log.statement(f"CREATE TABLE t{number} (id INT PRIMARY KEY, v VARCHAR(40))")
    rounds = itertools.cycle(range(load.tables))
    small = (text.format(t=f"t{number}") for number in rounds for text in _SMALL)
    for text in itertools.islice(small, load.statements):
        log.statement(text)
    if rows:
        log.statement(f"CREATE TABLE filled ({ROWS_COLUMNS})")
        for first in range(0, rows, _INSERT):
            log.insert("filled", first, min(_INSERT, rows - first))
        log.statement("ALTER TABLE filled MODIFY a BIGINT NOT NULL")
    log.close()


class _Listener(logging.Filter):
    """Collects the applier's log record of each statement, and prints no more than usual."""

    def __init__(self, jvm: int) -> None:
        super().__init__()
        self.did: list[tuple[_Did, float]] = []
        self._process = jvm

    def filter(self, record: logging.LogRecord) -> bool:
        args = record.args
        if isinstance(args, tuple) and len(args) == 5 and isinstance(args[2], DdlOutcome):
            _, _, way, seconds, text = args
            did = _Did(record.created, str(way), float(str(seconds)), str(text))
            self.did.append((did, time.process_time() + _processor_s(self._process)))
        return record.levelno > logging.INFO


@contextmanager
def _listening(jvm: int) -> Iterator[list[tuple[_Did, float]]]:
    logger, listener = logging.getLogger("spark_repl.apply.group.group_committer"), _Listener(jvm)
    level = logger.level
    logger.addFilter(listener)
    logger.setLevel(logging.INFO)
    try:
        yield listener.did
    finally:
        logger.removeFilter(listener)
        logger.setLevel(level)


def _processor_s(process: int) -> float:
    """Return the processor seconds of a process; 0 if the system does not report them."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _figures(did: list[tuple[_Did, float]], rows: int) -> dict[str, Any]:
    filled = [one for one in did if " filled " in one[0].text]
    small = [one for one in did if one not in filled]
    (first, used), (last, used_last) = small[0], small[-1]
    ways: dict[str, list[float]] = {}
    for one, _ in small:
        ways.setdefault(f"{one.way}, {one.text.split()[0]}", []).append(one.seconds)
    figures: dict[str, Any] = {
        "statements": len(small),
        "per_s": round((len(small) - 1) / max(last.at - first.at, 1e-6), 1),
        "processor_s": round(used_last - used, 2),
        "ways": {
            way: {"statements": len(s), "median_s": round(median(s), 4), "max_s": round(max(s), 3)}
            for way, s in ways.items()
        },
    }
    if rows:
        seconds = filled[-1][0].seconds
        figures |= {"rewrite_s": round(seconds, 3), "rewrite_rows_per_s": round(rows / seconds)}
    return figures


_SOURCE = uuid.UUID("11111111-2222-3333-4444-555555555555")
_EPOCH = 1_700_000_000
_ROW = np.dtype([("nulls", "u1"), ("id", "<i4"), ("a", "<i4"), ("length", "u1"), ("v", "S16")])
_EVENT_ROWS = 5_000
ROWS_COLUMNS = "id INT PRIMARY KEY, a INT, v VARCHAR(40)"
"""the columns of a table that ``insert`` fills"""


class GeneratedLog:
    """Appends transactions to the one file of ``folder``. Call ``close`` after the last one."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / "binlog.000001").open("wb")
        self._file.write(MAGIC)
        self._number = 0
        version = b"9.7.0".ljust(50, b"\0")
        described = struct.pack("<H50sIB", 4, version, _EPOCH, HEADER_LENGTH) + bytes(41) + b"\x01"
        self._event(EventType.FORMAT_DESCRIPTION, described)
        self._event(EventType.PREVIOUS_GTIDS, struct.pack("<Q", 0))

    def statement(self, text: str) -> None:
        """Append a DDL statement, in the database ``t``."""
        self._transaction([(EventType.QUERY, _query(text))])

    def insert(self, table: str, first: int, count: int) -> None:
        """Append a transaction that inserts ``count`` rows, with ids from ``first``, into a table
        of ROWS_COLUMNS."""
        events = [(EventType.QUERY, _query("BEGIN"))]
        for begin in range(first, first + count, _EVENT_ROWS):
            rows = min(_EVENT_ROWS, first + count - begin)
            events += [
                (EventType.TABLE_MAP, _table_map(table)),
                (EventType.WRITE_ROWS, _rows(table, begin, rows)),
            ]
        self._transaction([*events, (EventType.XID, struct.pack("<Q", self._number + 1))])

    def close(self) -> None:
        self._file.close()

    def _transaction(self, events: Sequence[tuple[int, bytes]]) -> None:
        self._number += 1
        number = self._number
        body = struct.pack("<B16sqBqq", 0, _SOURCE.bytes, number, 2, number - 1, number)
        body += ((_EPOCH + number) * 1_000_000).to_bytes(7, "little")
        size = HEADER_LENGTH + len(body) + 13 + CRC_LENGTH
        size += sum(HEADER_LENGTH + len(data) + CRC_LENGTH for _, data in events)
        body += b"\xfe" + struct.pack("<QI", size, 90700)
        for kind, data in [(int(EventType.GTID), body), *events]:
            self._event(kind, data)

    def _event(self, kind: int, body: bytes) -> None:
        at, length = self._file.tell(), HEADER_LENGTH + len(body) + CRC_LENGTH
        head = HEADER.pack(_EPOCH + self._number, kind, 1, length, at + length, 0)
        self._file.write(with_checksum(head + body))


def _query(text: str) -> bytes:
    return struct.pack("<IIBHH", 1, 0, 1, 0, 0) + b"t\0" + text.encode()


def _table_id(table: str) -> int:
    return 64 + zlib.crc32(table.encode()) % 1_000_000


def _table_map(table: str) -> bytes:
    name = table.encode()
    out = struct.pack("<IHH", _table_id(table), 0, 1) + b"\x01t\0" + bytes([len(name)]) + name
    out += b"\0\x03" + bytes([3, 3, 15]) + b"\x02" + struct.pack("<H", 160) + b"\x06"
    metadata = [(4, b"\x02id\x01a\x01v"), (1, b"\0"), (2, b"\xfc\xff\0"), (8, b"\0")]
    return out + b"".join(bytes([tag, len(data)]) + data for tag, data in metadata)


def _rows(table: str, first: int, count: int) -> bytes:
    rows: Any = np.zeros(count, _ROW)
    rows["id"] = np.arange(first, first + count)
    rows["a"], rows["length"] = rows["id"] % 1000, 16
    rows["v"] = np.char.zfill(rows["id"].astype("S16"), 16)
    head = struct.pack("<IHHH", _table_id(table), 0, 1, 2) + b"\x03\x07"
    return bytes(head + rows.tobytes())
