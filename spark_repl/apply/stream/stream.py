"""RelayStream: Spark's structured stream over the log, one batch of transactions after the other.

``Replica`` runs it. Spark calls the function of ``foreachBatch`` on a thread of Py4J's with the
places of a batch's transactions, and the coordinator applies them. There are three cases without a
stream, in which the log is read directly: a run that ends at the log's end, if at most
``_WITHOUT_STREAM`` transactions are left; a follower while Spark rests (``_REST_S``); and Spark
Connect.

Invariants: a lock admits one batch at a time, of the stream or of ``_apply_logged``. The checkpoint
records a batch as done only after the tables have it; the tables' own positions decide, and the
checkpoint may lag. A purge can't remove the file where the stream begins, because a lease is held
on it. The first error of a batch ends the stream. ``run`` raises this error, not Spark's report of
it. Design: docs/design/runtime.md, docs/design/groups.md.
"""

from __future__ import annotations

import re
import threading
import time
from concurrent.futures import wait
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JNetworkError

from ...crash_points import reach
from ...errors import LogError, SparkReplError, Stopped, StoppedBetweenGroups
from ...observe.reports.worker_status import now
from ...position import START, RelayPosition
from ...relay.end_watch import EndWatch
from ...relay.lease import Lease
from ...relay.stream_place import StreamPlace
from ...runtime.java import jvm_end
from ...runtime.retry import Retries, disk_full, temporary
from ...runtime.spark_jobs import is_connect, keep_alive
from ...runtime.spark_release import ADMITS
from ...runtime.starting_session import Session, begin, built, is_built, may_rest, rest, rests
from ...runtime.threads import Pool, channel_here, under_channel
from ...runtime.workers import disk_of, use_pool
from .spark_source import MySQLRelaySource
from .stream_checkpoint import batch_end, forget_unfit, resume_offset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future

    from pyspark.sql import DataFrame, SparkSession

    from ...config import Config
    from ...observe.reports.applier_status import ApplierStatus
    from ...schedule.group import Records
    from ..applied.applied_log import AppliedLog
    from ..group.coordinator import Coordinator

# A stream batch holds several groups, so that they can be pipelined inside it.
_BATCH_GROUPS = 8
_FIRST_BATCH = 4_000_000
"""most transactions of a batch that a follower reads without a stream"""
_WITHOUT_STREAM = 100_000_000
"""most transactions of a log that is read to its end without a stream"""
_WAIT_MS = 10_000
"""milliseconds that Spark waits for an idle source; the source wakes it when a transaction comes"""
_LOOK_S = 1.0
"""seconds between two checks whether the applier has to stop"""
_MANY = 100_000
"""transactions for which Spark is started at once"""
_REST_S = 300.0
"""seconds without a Spark job before a follower ends its stream and Spark"""
_ALIVE_S = 600.0
"""seconds between two questions that keep a session of Spark Connect alive"""
_STOP_FILE = "stopping"
_MAKING = threading.Lock()
"""Spark makes a source in a Python process of its own, which then makes the next source as well"""


class RelayStream:
    """Spark's stream over the log: ``run`` passes its batches to the coordinator.

    Spark needs 2 to 6 s to start a stream. Meanwhile the coordinator applies the transactions that
    the log already has, at most one batch. The stream's first batch may contain the same
    transactions again. The coordinator skips them, because the tables have them. Without ``follow``
    it applies the whole log, and no stream is started, unless the log has more than
    ``_WITHOUT_STREAM`` transactions. If no Spark job has run for ``_REST_S`` seconds, a follower
    ends the stream, and Spark if it can be ended. Then it reads the log directly. A large group or
    an upkeep task has Spark started again.

    ``is_stopping`` returns whether the stream has to end; it is called between batches and about
    once a second. ``status`` receives the figures of each batch.
    """

    def __init__(
        self,
        spark: Session,
        applied: AppliedLog,
        coordinator: Coordinator,
        checkpoint: str,
        retries: Retries,
        is_stopping: Callable[[], bool],
        *,
        config: Config,
        status: ApplierStatus | None = None,
    ) -> None:
        self._spark, self._applied, self._coordinator = spark, applied, coordinator
        self._checkpoint, self._retries, self._is_stopping = checkpoint, retries, is_stopping
        self._config, self._most = config, config.apply.group_max_bytes * _BATCH_GROUPS
        most = config.apply.group_max_transactions * _BATCH_GROUPS
        self._first_batch = min(most, _FIRST_BATCH)
        self._status = status
        self._batching, self._channel = threading.Lock(), channel_here()
        self._error: BaseException | None = None
        self._first = Lease()  # of the place where a stream begins, until its first batch is done
        self._stopped, self._follows = threading.Event(), False
        self._begin: StreamPlace | None = None  # where a stream begins without a checkpoint

    def run(self, *, follow: bool) -> None:
        """Run the stream until it has to end, until ``--until`` is reached, or without ``follow``
        to the log's end. If the stream ends because a Spark worker was lost, start another one.
        Raise the error that stopped the stream, after everything before it has been committed."""
        self._error = None
        with suppress(Stopped):
            self._retries.run(
                self._follow if follow else self._to_end,
                lambda: self._coordinator.mark.position,
            )
        self._raise_error()

    def _raise_error(self) -> None:
        if self._error is not None and not isinstance(self._error, Stopped):
            raise self._error

    def _follow(self) -> None:
        """Follow the log, through a stream unless Spark rests."""
        while self._once(follow=True) and not (self._is_stopping() or self.has_met_until()):
            pass

    def _to_end(self) -> None:
        """Apply what the log has now. Before release 4.2, Spark ends such a stream after one batch,
        so run one stream after the other."""
        final = START.packed if ADMITS else self._applied.refresh().last_end
        while True:
            before = self._coordinator.mark.position
            self._once(follow=False)
            if not before < self._coordinator.mark.position < final:
                break
            if self._error is not None or self._is_stopping() or self.has_met_until():
                break

    def has_met_until(self) -> bool:
        """Return whether ``--until`` has been reached, also if no batch comes."""
        with self._batching:
            return self._coordinator.has_met_until()

    @property
    def _has_ended(self) -> bool:
        """Return whether no further batch may be applied. The caller holds the lock of batches."""
        ended = self._error is not None or self._coordinator.reached_until
        return ended or self._is_stopping()

    def _apply_records(self, slices: Iterable[Records]) -> None:
        """Apply the records of one batch."""
        pace, coordinator = self._coordinator.pace, self._coordinator
        pace.begin_batch()
        for records in slices:
            coordinator.apply(records)
            self._applied.view.index.forget_pages()
            if coordinator.stopping.is_set() or coordinator.reached_until:
                break
        pace.end_batch()

    def _apply_logged(self, *, whole: bool = False) -> None:
        """Apply the transactions that the log has already, at most a batch unless ``whole``. Keep
        an error for ``run``."""
        with self._batching:
            if self._has_ended:
                return
            coordinator, index = self._coordinator, self._applied.view.index
            begin, end, most = coordinator.mark.position, index.end, None
            if not whole:
                end, most = index.end_of_bytes(begin, end, self._most), self._first_batch
            try:
                self._apply_records(index.slices(begin, end, most))
            except Exception as error:  # noqa: BLE001 ``run`` raises it
                self._error = error

    def _load(self, spark: SparkSession, stop_file: Path, follow: bool) -> DataFrame:
        """Return the stream of the log's transactions, from where the tables are."""
        base, low = self._applied.base, self._applied.start
        index = self._applied.view.index
        high = max(index.end, low)
        start = min(max(self._coordinator.mark.position, low), high)
        lowest = start - self._most  # also above every place in an earlier file
        forget_unfit(self._checkpoint, self._applied.view.relay, base, lowest, high)
        self._begin = StreamPlace(start)
        if resume_offset(self._checkpoint) is None:
            self._applied.hold_by(self._first, start)
        reader = (
            spark.readStream.format("mysql_relay")
            .option("path", self._applied.path)
            .option("index", self._applied.folder)
            .option("base", str(base))
            .option("start", str(start))
            .option("maxBytesPerTrigger", str(self._most))
            .option("lease", "false")  # the applier itself holds the file where the tables are
            .option("waitMs", str(_WAIT_MS if follow else 0))
            .option("stopFile", str(stop_file))
            .option("end", "published")
            .option("rows", "each" if disk_of(spark, self._config) is None else "extent")
        )
        if not (follow or index.damage):  # so the source does not check the log again
            reader = reader.option("final", str(index.last_end))
        with _MAKING:
            return reader.load()

    def _once(self, follow: bool) -> bool:
        """Read the log, through a stream or without. Return True if a follower has to call this
        again, because Spark has ended, or runs again."""
        mark = self._coordinator.mark.position
        resumes = resume_offset(self._checkpoint)
        # The transactions of a delayed replica are not due yet.
        is_behind = self._left > _MANY and not self._config.apply.delay_s
        if is_behind and not self._is_stopping():
            begin(self._spark)  # some group will need it
        if self._error is not None:  # an earlier stream was lost after its first batch had failed
            return False
        with Lease() as self._first, Pool(1, "first batch") as beside:
            # Tables may pass this place before the stream reads it, and a purge follows the tables.
            first = mark if resumes is None else min(mark, resumes)
            at_rest = follow and rests(self._spark)
            needs_stream = not at_rest if follow else self._left > _WITHOUT_STREAM
            if needs_stream:
                self._applied.hold_by(self._first, first)
            try:
                if not needs_stream:
                    if is_built(self._spark):
                        built(self._spark)  # a session that can't be built is an error all the same
                    self._wait_for(beside.submit(self._read_log, None, follow))
                    return at_rest and self._error is None
                beside.submit(self._apply_logged)
                spark = built(self._spark, self._is_stopping)
                if is_connect(spark):
                    self._read_log(spark, follow)
                    return False
                if not self._stream(spark, follow):
                    return False
                rest(self._spark, _REST_S)  # unless a job has used it since
                return True
            except BaseException as error:
                if not (temporary(error) or disk_full(error)):
                    self._coordinator.stopping.set()  # the first batch may wait for hours
                if self._error is not None:
                    raise self._error from error
                raise

    @property
    def _left(self) -> int:
        """Return how many transactions of the log, as far as it was read, the tables lack."""
        index, position = self._applied.view.index, self._coordinator.mark.position
        return index.count_behind(position)[0]

    def _wait_for(self, reading: Future[None]) -> None:
        """Wait for ``_read_log``. If the run has to end while a large group waits for Spark, end
        Spark's start. Raise what ``_read_log`` raises."""
        while not wait([reading], _LOOK_S).done:
            self._end_start()
        self._end_start()  # a thread of upkeep may wait for it
        reading.result()

    def _end_start(self) -> None:
        """Give up Spark's start if the process is ending."""
        if self._is_stopping() and not (rests(self._spark) or is_built(self._spark)):
            with suppress(SparkReplError, Stopped):
                built(self._spark, self._is_stopping)

    def _read_log(self, spark: SparkSession | None, follow: bool) -> None:
        """Apply the log's transactions without Spark's stream: those that the log has now, or, with
        ``follow``, also later ones, batch by batch. Without ``spark`` a follower ends as soon as
        Spark runs. With it, this is for Spark Connect, which would call the function of
        ``foreachBatch`` in a process of the server, which has no coordinator."""
        self._follows = follow
        self._stopped.clear()
        final, asked = self._retries.run(self._applied.refresh).last_end, time.monotonic()
        with EndWatch(self._applied.path) as end:
            while not (self._is_stopping() or self.has_met_until()):
                if follow and spark is None and is_built(self._spark):
                    return
                before = self._coordinator.mark.position
                self._retries.run(self._applied.refresh)
                self._apply_logged(whole=not follow)
                if self._error is not None:
                    return
                self._first.release()  # no stream begins where the tables were
                if self._coordinator.mark.position > before:
                    self._gather()
                else:
                    self._check_damage()
                    while follow and not end.wait(_LOOK_S):
                        if spark is not None or self._may_have_more():
                            break
                position = self._coordinator.mark.position
                if not follow and (position == before or position >= final):
                    return  # the next command applies later transactions
                if spark is not None and time.monotonic() - asked > _ALIVE_S:
                    asked = time.monotonic()
                    keep_alive(spark)  # a server ends idle sessions after an hour

    def _may_have_more(self) -> bool:
        """Return whether to look at the log again although no published end has moved: only a
        receiver publishes one. Also return True if the reading has to end."""
        is_published = bool(self._applied.view.relay.log_id)
        ends = self._is_stopping() or self.has_met_until() or is_built(self._spark)
        return ends or not is_published

    def _check_damage(self) -> None:
        """Raise the log's damage when everything before it has been applied."""
        index = self._applied.view.index
        if index.damage and not self._left:
            raise index.damage  # the stream reads only the published end, and does not see it

    def _stream(self, spark: SparkSession, follow: bool) -> bool:
        """Run a stream until it has to end. Return whether it ended because nothing needs Spark."""
        stop_file = Path(self._applied.folder) / _STOP_FILE
        stop_file.unlink(missing_ok=True)
        use_pool(spark)
        spark.dataSource.register(MySQLRelaySource)
        source = self._load(spark, stop_file, follow)
        batches = BatchFunction(self._batch)
        writer = source.writeStream.foreachBatch(batches)
        writer = writer.option("checkpointLocation", self._checkpoint)
        if follow:
            writer = writer.trigger(processingTime="0 seconds")
        else:
            writer = writer.trigger(availableNow=True)
        self._stopped = stopped = threading.Event()
        self._follows = follow
        query, ends_at_rest = writer.start(), False
        try:
            while not query.awaitTermination(1):
                if self._is_stopping() or self._error is not None or self.has_met_until():
                    break
                if ends_at_rest := follow and may_rest(self._spark, _REST_S):
                    break
        except Exception as error:  # the first error is the one to report
            if self._error is None and (temporary(error) or disk_full(error)):
                raise
            self._error = self._error or self._translated(error)
            if self._error is not None:
                self._coordinator.stopping.set()  # the first batch may wait for hours
        finally:
            stopped.set()
            with self._batching:  # stopping the query would interrupt a batch's call to the JVM
                pass
            with suppress(OSError):  # on a full disk the stream ends only after ``waitMs``
                stop_file.touch()
            with suppress(ConnectionError, Py4JNetworkError):  # the JVM may have ended
                query.stop()
            batches.release()
            stop_file.unlink(missing_ok=True)
        return ends_at_rest and self._error is None

    def _batch(self, frame: DataFrame, number: int) -> None:
        """Apply a batch. Its rows name the transactions; the workers read the transactions'
        contents. A thread of Py4J's calls it."""
        with under_channel(self._channel), self._batching:
            if self._has_ended or self._stopped.is_set():
                raise StoppedBetweenGroups
            began = time.monotonic()
            try:
                count = self._apply(frame, number)
            except StoppedBetweenGroups:
                raise
            except BaseException as error:
                self._error = error
                raise
            if count and self._status is not None:
                seconds = round(time.monotonic() - began, 3)
                self._status.streams(
                    {"batch": number, "rows": count, "seconds": seconds, "at": now()}
                )
        self._gather()

    def _gather(self) -> None:
        """Wait for more transactions before Spark asks for the log's end, unless the stream has to
        end."""
        if self._follows and not self._coordinator.reached_until:
            pace, stopped = self._coordinator.pace, self._stopped
            pace.wait(pace.until_batch, lambda: stopped.is_set() or self._is_stopping())

    def _apply(self, frame: DataFrame, number: int) -> int:
        """Apply a batch's transactions, and return their number."""
        index = self._retries.run(self._applied.refresh)
        first, last = self._retries.run(lambda: self._places_of(frame, number))
        if last > first:
            if index.end < last and not index.damage:
                raise LogError(
                    "the log ends before the stream's batch, which ends at"
                    f" {RelayPosition.unpack(last)}",
                    file=self._applied.path,
                    position=RelayPosition.unpack(index.end),
                    hint="was a file replaced while the applier ran?",
                )
            self._apply_up_to(first, last)
            if last >= self._coordinator.mark.position:  # the stream is where the tables are
                self._first.release()
        self._check_damage()
        reach("before_checkpoint")
        return index.count_behind(first)[0] - index.count_behind(last)[0]

    def _places_of(self, frame: DataFrame, number: int) -> tuple[int, int]:
        """Return the packed positions between which a batch is.

        The checkpoint shows them. To read the batch's rows would take a Spark job of 0.1 s, half of
        the time from the source's commit to the cut.
        """
        last = batch_end(self._checkpoint, number)
        before = batch_end(self._checkpoint, number - 1) if number else self._begin
        if last is None or before is None:
            return extent(frame)
        last.check(self._applied.view.relay, self._applied.base)
        return before.position, last.position

    def _apply_up_to(self, first: int, last: int) -> None:
        """Apply a batch between two packed positions."""
        self._apply_records(self._applied.view.index.slices(first, last))
        coordinator = self._coordinator
        stopped = coordinator.stopping.is_set() and coordinator.mark.position < last
        if stopped or coordinator.reached_until:
            # The checkpoint must not record the batch as done: it comes again at the next start.
            raise StoppedBetweenGroups

    def _translated(self, error: Exception) -> BaseException | None:
        """Return the error that stopped the stream outside of foreachBatch, or None if it had to
        end. Errors of the source are text, so the place of damage in the log is read from the
        index."""
        text = str(error)
        if isinstance(error, SparkReplError):
            return error
        if (ended := jvm_end(error)) is not None:
            return ended
        if "StoppedBetweenGroups" in text:
            return None
        match = re.search(r"spark_repl\.errors\.(\w+): (.*)", text)
        if match:
            return self._applied.view.index.damage or LogError(
                match.group(2).strip(), hint="see the message of the stream above"
            )
        message = f"the stream stopped: {said_by_python(text) or text.splitlines()[0]}"
        return SparkReplError(message, file=self._applied.path)


def said_by_python(text: str) -> str:
    """Return the error with which one of Spark's Python processes ended, or "" if the text has
    none. The error is the line after the frames of the traceback."""
    _, _, frames = text.partition("Traceback (most recent call last):\n")
    return next((line for line in frames.splitlines() if line[:1].strip()), "")


def extent(batch: DataFrame) -> tuple[int, int]:
    """Return the packed positions between which a batch is, or two equal ones if it is empty. Each
    attempt creates a new query, because Spark remembers that a query has failed."""
    ((first, last),) = batch.selectExpr("min(position)", "max(end)").collect()
    return (START.packed, START.packed) if first is None else (first, last)


class BatchFunction:
    """The function that Spark calls with each batch (``foreachBatch``), until it is released.

    The JVM releases its side of a callback when it collects it: in a large heap after hours, or
    never. Until then Py4J keeps Python's side, and everything to which it refers. So this function
    drops its reference to the stream after the stream's end, and errors that Spark keeps have no
    frames of this package.
    """

    def __init__(self, apply: Callable[[DataFrame, int], None]) -> None:
        self._apply: Callable[[DataFrame, int], None] | None = apply

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Call ``apply``. Raise its errors as text only, and StoppedBetweenGroups as it is."""
        failure = self._failure(frame, number)
        if failure is not None:
            raise failure

    def release(self) -> None:
        """Drop ``apply``; later calls raise StoppedBetweenGroups."""
        self._apply = None

    def _failure(self, frame: DataFrame, number: int) -> Exception | None:
        apply = self._apply
        if apply is None:
            return StoppedBetweenGroups()
        try:
            apply(frame, number)
        except StoppedBetweenGroups:
            return StoppedBetweenGroups()
        except Exception as error:  # noqa: BLE001 RelayStream keeps the error itself
            return RuntimeError(f"{type(error).__module__}.{type(error).__qualname__}: {error}")
        return None
