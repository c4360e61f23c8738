"""mysql_relay: Spark's streaming source of transactions, one row each, without row data.

    spark.dataSource.register(MySQLRelaySource)
    spark.readStream.format("mysql_relay").option("path", "/var/lib/mysql-relay").load()
    spark.read.format("mysql_relay").option("path", "/var/lib/mysql-relay").load()  # up to now

Options:

- ``path``: a folder of binary log or relay log files, or one file.
- ``index``: the folder for the transaction index. Default: the user's cache.
- ``start``: the packed position after which the stream begins. Default: the log's beginning.
- ``base``: a number that is added to file numbers (control/records/log_identity).
- ``maxBytesPerTrigger``: the bytes of log at which a batch ends. Default 0: no limit. With Spark
  4.0 and 4.1, a stream with the trigger ``availableNow`` ends after one batch: the next stream
  reads what the limit left in the log, and reports damage that follows the batch.
- ``lease``: if true, the default, a purge of the relay log spares the file where the stream is, for
  as long as the stream runs.
- ``waitMs``: the milliseconds that the source waits for an offset at the log's end. Default 100. So
  an idle stream asks ten times a second, and sees published transactions at once. Stopping a stream
  takes as long.
- ``stopFile``: while this file exists, the source waits for no offset.
- ``end``: with "published", the source reads a receiver's log up to its published end and does not
  check the log before it. The check takes compiled code, 45 MB, in this process. So the reader of
  the transactions has to report damage.
- ``rows``: with "extent", a batch is one row with its first position and its last end. So neither
  the source nor the executors read the transactions.
- ``final``: the packed position at which a stream with the trigger ``availableNow`` ends. It has to
  be the end of a transaction. By default, the source checks the log and uses the log's end.

Spark asks for offsets in one process and reads partitions in others. The processes share the log
and its index on disk, never an attribute. So each process checks that an offset is a place of the
current log. After a purge, or in another log, the stream stops.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from ...errors import ConfigError, LogError
from ...position import OFFSET_BITS, START, RelayPosition
from ...relay.end_watch import EndWatch
from ...relay.gtid_column import gtid_column
from ...relay.lease import Lease
from ...relay.log import open_log, read_while_purged
from ...relay.record import Kind
from ...relay.stream_place import StreamPlace
from ...runtime.spark_release import ReadAllAvailable, ReadMaxBytes, SupportsTriggerAvailableNow
from ...user_cache import cache_index_folder

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit

    from ...relay.index import TransactionIndex
    from ...relay.log import RelayLog

SCHEMA = (
    "position long, end long, gtid string, last_committed long, sequence_number long,"
    " kind string, length long, commit_time timestamp"
)
_BATCH_ROWS = 1 << 16
_WAIT_MS = 100
_KINDS = np.array([kind.name for kind in sorted(Kind)])
_TYPES = {"long": pa.int64(), "string": pa.string(), "timestamp": pa.timestamp("us", "UTC")}
_ARROW_SCHEMA = pa.schema(
    [(name, _TYPES[kind]) for name, kind in (column.split() for column in SCHEMA.split(", "))]
)


@dataclass
class RelaySlice(InputPartition):
    """Transactions between two positions. ``alone``: one row represents all of them."""

    start: StreamPlace
    end: StreamPlace
    alone: bool = False


class MySQLRelaySource(DataSource):
    """Spark's streaming source of transactions, "mysql_relay". The module lists its options."""

    @classmethod
    def name(cls) -> str:
        return "mysql_relay"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> MySQLRelayBatch:
        return MySQLRelayBatch(dict(self.options))

    def streamReader(self, schema: StructType) -> MySQLRelayReader:
        return MySQLRelayReader(dict(self.options))


class MySQLRelayReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The stream's reader. An offset is ``{"position": packed, "log": id}``: the position where the
    stream began, or the end of a complete transaction. Raise LogError for an offset that was purged
    or belongs to another log.

    Before 4.2, Spark asks for the latest offset without a start and a limit. It makes a batch of
    each answer that differs from the previous one. So the reader uses its previous answer as the
    start, and its option as the limit. When a stream resumes, Spark first passes the end of the
    last batch to ``partitions``.
    """

    def __init__(self, options: dict[str, str]) -> None:
        # Spark lower-cases the names of options.
        given = {name.lower(): value for name, value in options.items()}
        if "path" not in given:
            raise ConfigError("mysql_relay needs the option path", hint='.option("path", FOLDER)')
        self.path = given["path"]
        self.index_folder = given.get("index") or cache_index_folder(self.path)
        self.start = _number(given, "start", START.packed)
        self.base = _number(given, "base", 0)
        self.max_bytes = _number(given, "maxBytesPerTrigger", 0)
        self.takes_published = given.get("end", "") == "published"
        self.reads_rows = given.get("rows", "") != "extent"
        self.leases = given.get("lease", "true").lower() != "false"
        self.wait_s = _number(given, "waitMs", _WAIT_MS) / 1000
        self._final_is_given = "final" in given
        self.final = _number(given, "final", 0) if self._final_is_given else None
        self._last: dict[str, Any] | None = None
        self._lease = Lease()
        folder = Path(self.path)
        self._watch = EndWatch(folder if folder.is_dir() else folder.parent, given.get("stopfile"))
        self._known: TransactionIndex | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the index: another process reads the index itself."""
        return self.__dict__ | {"_known": None}

    def _index(self, *places: StreamPlace) -> TransactionIndex:
        return self._read_log(*places)[1]

    def _read_log(
        self, *places: StreamPlace, lease: Lease | None = None
    ) -> tuple[RelayLog, TransactionIndex]:
        # Imported only here, as it loads the compiler (20 MB): some of Spark's processes create or
        # plan a source and never read the log.
        from ...relay.index import build_index

        def see(log: RelayLog) -> TransactionIndex:
            for place in places:
                place.check(log, self.base)
            if places and self.leases:
                first = min(place.position for place in places)
                (lease or self._lease).hold(log, (first >> OFFSET_BITS) - self.base)
            return build_index(
                log, self.index_folder, self.base, complete=False, previous=self._known,
                up_to_damage=True,
            )  # fmt: skip

        try:
            log, index = read_while_purged(self.path, see)
        except LogError:
            self._lease.release()  # the stream ends, and the held file may be another log's
            raise
        self._known = index
        return log, index

    def initialOffset(self) -> dict[str, Any]:
        def place(log: RelayLog) -> StreamPlace:
            if self.start == START.packed:
                first = StreamPlace.beginning(log, self.base)
            else:
                first = StreamPlace.at(self.start, log, self.base)
            if self.leases:
                self._lease.hold(log, (first.position >> OFFSET_BITS) - self.base)
            return first

        return read_while_purged(self.path, place)[1].to_offset()

    def release(self) -> None:
        self._lease.release()
        self._watch.close()

    def stop(self) -> None:
        """Release what the reader holds, at the end of Spark's process. If Spark has closed the
        connection, as it does when a stream ends, print nothing more: the process would print a
        traceback because it can't report the closed connection."""
        self.release()
        if isinstance(sys.exception(), EOFError | ConnectionError):
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115 the process ends

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxBytes(self.max_bytes) if self.max_bytes else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        if not self._final_is_given:
            self.final = self._index().last_end

    def reportLatestOffset(self) -> dict[str, Any]:
        if self.takes_published and (log := open_log(self.path)).end is not None:
            return StreamPlace.at(_end_of(log, self.base), log, self.base).to_offset()
        log, index = self._read_log()
        return StreamPlace.at(index.last_end, log, self.base).to_offset()

    def whole(self) -> RelaySlice:
        """Return all transactions of the log after the start. Raise LogError if the log is
        damaged."""
        begin = StreamPlace.of(self.initialOffset())
        log, index = self._read_log(begin)
        if index.damage:
            raise index.damage
        end = index.last_end
        return RelaySlice(
            begin, StreamPlace.at(end, log, self.base) if end > begin.position else begin
        )

    def latestOffset(
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Return the end of the last whole transaction. With a ReadLimit in bytes, return the end
        of the first transaction that reaches the limit, so that a larger transaction is a batch by
        itself. Raise LogError for damage in the log after everything before it has been read."""
        if start is None:
            start, limit = self._last or self.initialOffset(), self.getDefaultReadLimit()
        self._last = self._latest(start, limit)
        return self._last

    def _latest(self, start: dict[str, Any], limit: ReadLimit | None) -> dict[str, Any]:
        begin = StreamPlace.of(start)
        max_bytes = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        if (known := self._known_end(begin, max_bytes)) is not None:
            return known.to_offset()
        log, index = self._read_log(begin)
        end = index.last_end if self.final is None else self.final
        if end <= begin.position and self._waits(log) and self._watch.wait(self.wait_s):
            log, index = self._read_log(begin)
            end = index.last_end
        if end <= begin.position:
            if index.damage:
                raise index.damage
            return start
        if max_bytes is not None:
            end = index.end_of_bytes(begin.position, end, max_bytes)
            index.forget_pages()
        return StreamPlace.at(end, log, self.base).to_offset()

    def _known_end(self, begin: StreamPlace, max_bytes: int | None) -> StreamPlace | None:
        """Return the end that the option ``final`` or the receiver gives: a whole transaction ends
        there. Return None if neither gives one, at the log's start, and if the limit comes first.
        """
        asks = self.takes_published and self.final is None
        if begin.position == START.packed or not (asks or self._final_is_given):
            return None
        log = open_log(self.path)
        begin.check(log, self.base)
        if asks and log.end is None:
            return None
        if asks and _end_of(log, self.base) <= begin.position and self._watch.wait(self.wait_s):
            log = open_log(self.path)
            begin.check(log, self.base)
        end = _end_of(log, self.base) if self.final is None else self.final
        if end <= begin.position:
            return begin
        size = _bytes_between(log, begin.position, end, self.base)
        if max_bytes is not None and size > max_bytes:
            return None
        return StreamPlace.at(end, log, self.base)

    def _waits(self, log: RelayLog) -> bool:
        """Return whether a transaction may come at any moment. The watch compares with an end that
        was read before the log, so that it sees a later publication at once."""
        return bool(log.log_id) and self.final is None and self.wait_s > 0

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._last = end
        return [RelaySlice(StreamPlace.of(start), StreamPlace.of(end), not self.reads_rows)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RelaySlice)
        if partition.alone:
            if partition.start != partition.end:
                yield _extent(partition)
            return
        with Lease() as lease:
            _, index = self._read_log(partition.start, partition.end, lease=lease)
        records = index.slice(partition.start.position, partition.end.position)
        for at in range(0, len(records), _BATCH_ROWS):
            yield to_batch(records[at : at + _BATCH_ROWS])


class MySQLRelayBatch(DataSourceReader):
    """The transactions that the log contains when it is read: the rows of a stream that ends."""

    def __init__(self, options: dict[str, str]) -> None:
        self._stream = MySQLRelayReader(options)

    def partitions(self) -> Sequence[InputPartition]:
        try:
            return [self._stream.whole()]
        finally:
            self._stream.release()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._stream.read(partition)


def _extent(part: RelaySlice) -> pa.RecordBatch:
    """Return a row that has only the start and the end of the slice."""
    row = {"position": part.start.position, "end": part.end.position}
    return pa.RecordBatch.from_pylist([row], _ARROW_SCHEMA)


def _number(given: Mapping[str, str], option: str, default: int) -> int:
    """Return an option that is a whole number. Raise ConfigError for any other text."""
    text = given.get(option.lower(), str(default))
    try:
        return int(text)
    except ValueError:
        raise ConfigError(
            f"option {option} of mysql_relay must be a whole number, not {text!r}"
        ) from None


def _end_of(log: RelayLog, base: int) -> int:
    """Return the published end, packed."""
    assert log.end is not None
    return RelayPosition(base + log.end.file_no, log.end.offset).packed


def _bytes_between(log: RelayLog, begin: int, end: int, base: int) -> int:
    """Return the number of bytes in the log between two packed positions."""
    first, last = RelayPosition.unpack(begin), RelayPosition.unpack(end)
    whole = range(first.file_no - base, last.file_no - base)
    return sum(log.size(number) for number in whole) + last.offset - first.offset


def to_batch(records: Any) -> pa.RecordBatch:
    """Return index records as rows of SCHEMA."""
    columns = [
        pa.array(np.ascontiguousarray(records["position"])),
        pa.array(np.ascontiguousarray(records["end"])),
        gtid_column(records),
        pa.array(np.ascontiguousarray(records["last_committed"])),
        pa.array(np.ascontiguousarray(records["sequence_number"])),
        pa.array(_KINDS[records["kind"]].tolist(), pa.string()),
        pa.array(np.ascontiguousarray(records["length"])),
        pa.array(np.ascontiguousarray(records["commit_time"]), pa.timestamp("us", "UTC")),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW_SCHEMA)
