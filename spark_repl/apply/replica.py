"""Replica: one channel's applier, from the relay folder to the target, through a Spark stream."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

from py4j.protocol import Py4JNetworkError
from pyspark.sql import DataFrame, SparkSession

from ..config import Config
from ..control.control import Control
from ..control.copies import CatchUp, check_log, first_cut, note_shown, standing
from ..control.history import History, check_continuity, indexed, record, resolve
from ..control.layout import Layout
from ..control.owner import succeed
from ..crash_points import reach
from ..delta.public_log import open_table_log
from ..errors import FormerOwnerError, LogError, SparkReplError
from ..observe.applier_status import Counters, Result
from ..position import RelayPosition
from ..relay.index import TransactionIndex
from ..relay.log import RelayLog, open_log
from ..relay.look import look
from ..runtime.retry import Retries, Stopped, temporary
from ..runtime.workers import Workers
from ..schedule.stops import Until
from ..write.table_options import TableOptions
from ..write.tracking import Tracking
from .coordinator import Coordinator
from .plan import Log
from .spark_source import MySQLRelaySource
from .stream import (
    Ended,
    StoppedBetweenGroups,
    extent,
    forget_foreign,
    resume_offset,
    translated,
)
from .xa_parts import XaParts

log = logging.getLogger(__name__)

# A stream batch holds several groups, so that they can be pipelined inside it.
_BATCH_GROUPS = 8


class Replica:
    """Applies the log in ``config.relay.path`` to the tables below ``config.target.path``.

    ``apply()`` ends at the log's end, with ``follow=True`` when ``stop()`` is called. Owns the
    target from ``start()`` to ``close()``; use it as a context manager.
    """

    def __init__(
        self,
        spark: SparkSession,
        config: Config,
        on_group: Callable[[Counters, int], None] | None = None,
        *,
        take_over: bool = False,
        until: Until | None = None,
    ) -> None:
        config.check_supported()
        self.spark, self.config, self.take_over = spark, config, take_over
        self.layout = Layout.of(config.target)
        self.relay_path = os.path.abspath(config.relay.path)
        self.on_group, self.until = on_group, until
        self.counters = Counters()
        self.error: BaseException | None = None
        self._beside: SparkReplError | None = None
        self._stop, self._copied = threading.Event(), threading.Event()
        self._late_at: tuple[int, ...] | None = None  # the tables, when one was found last
        self._batching = threading.Lock()

    def __enter__(self) -> Replica:
        try:
            self.start()
        except BaseException:
            self.close()  # claimed already, perhaps
            raise
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close(error)

    def start(self) -> None:
        """Opens the log, claims the target, reads the tables' positions.

        Raises LogError, FencedError, HistoryError, TargetError.
        """
        self.relay: RelayLog = open_log(self.relay_path)
        if self.until is not None:
            self.until.check(self.relay)
        # Spark's first Python data source costs a second or two: meanwhile the tables are read.
        with ThreadPoolExecutor(1) as meanwhile:
            registered = meanwhile.submit(self.spark.dataSource.register, MySQLRelaySource)
            self._open_target()
        registered.result()

    def _open_target(self) -> None:
        self.control = Control(self.layout.control, self.config.channel)
        self.control.claim(take_over=self.take_over)
        self.checkpoint = self.layout.checkpoint(self.control.epoch)
        succeed(self.checkpoint, inherit=not self.control.took_over)
        self._open_tables()

    def _open_tables(self) -> None:
        control = self.control
        note_shown(control)
        cuts, stands = control.cuts(), standing(control)
        cut, copy = stands.begin, stands.copy
        delta, self.config = open_table_log(self.spark, self.config)
        direct = self.config.apply.writer == "direct"
        options = replace(TableOptions.of(self.config), direct=direct)
        self.tracking = Tracking(self.layout, control, delta, options)
        self.tracking.load(cut)
        highest = max(
            [t.position for t in self.tracking.tables.values()]
            + [found.position for found in cuts],
            default=0,
        )
        self.relay, (self.history, self.index) = look(
            self.relay_path,
            lambda log: indexed(log, resolve(control, log, cut, highest), self.layout.index),
        )
        executed = check_continuity(self.history, self.relay, self.index, cut)
        record(control, self.history)
        begun = 0 if cut is None or self.history.renewed else cut.position
        if cut is not None and self.history.renewed:
            first = self.history.base + self.relay.files[0].number
            self.tracking.find_ahead(cut, RelayPosition(first, 0).packed)
        if copy is not None and copy.behind is None:
            check_log(copy, executed, self.relay_path)
            executed = copy.start
            self.history = replace(self.history, renewed=True)  # what it holds goes by GTID
        elif cut is None and executed:
            log.warning("the log begins in mid-history: %s counts as executed", executed)
        catch_up = CatchUp(copy)
        ahead = stands.cut.position if stands.cut and stands.begin is not stands.cut else 0
        self.coordinator = Coordinator(
            self.config,
            Log(self.relay, self.history),
            self.tracking,
            Workers(self.spark, self.config.apply.workers),
            executed,
            begun,
            self.on_group,
            catch_up=catch_up,
            counters=self.counters,
            xa=XaParts.of(control, self.layout, cut, keep_all=bool(copy and copy.behind)),
            by_hand=(cut.counts or {}).get("by_hand", 0) if cut else 0,
            until=self.until,
            skip=control.skipped(),
            replayed_to=0 if self.history.renewed else ahead,
        )
        if copy is not None and not (ahead > begun or catch_up.active(executed)):
            versions = {name: table.version() for name, table in self.tracking.tables.items()}
            shown = cut or first_cut(self.relay, self.history, executed, versions)
            control.publish(replace(shown, tables=dict(sorted(versions.items()))))
            catch_up.cut_published(control)

    def apply(self, *, follow: bool = False) -> Result:
        """Runs the stream. Raises what stopped it; everything before that has been committed."""
        began = time.perf_counter()
        while True:
            try:
                self.coordinator.end_by_hand()
                self._catch_up()
                if not self._until_is_met():
                    self._streams(follow)
            except FormerOwnerError as error:
                self.error = error
            late = isinstance(self.error, FormerOwnerError)
            if self._stop.is_set() or not (late or (self._copied.is_set() and not self._failed)):
                break
            if late:
                self._note_late()
            try:
                # Not the coordinator's own: it is stopping, for a copy that is to be taken in.
                retries = Retries(self.config.apply.transaction_retries, self._stop, _unnoted)
                retries.run(self._go_back)
            except Stopped:
                break
        if (failure := self.error if self._failed else self._beside) is not None:
            raise failure
        return self.result(time.perf_counter() - began)

    def result(self, seconds: float) -> Result:
        """What stands now, ``seconds`` after the run's beginning. Raises LogError where the log is
        damaged behind it."""
        coordinator = self.coordinator
        return Result(
            self.counters,
            seconds,
            str(coordinator.executed),
            RelayPosition.unpack(coordinator.position),
            self._relay_position(),
            None if coordinator.reached_until else self._tail(),
        )

    @property
    def _failed(self) -> bool:
        return self.error is not None and not isinstance(self.error, Ended)

    def take_in(self) -> None:
        """A copy of some tables is done: ``apply`` goes back to where it began, and brings them to
        the others' place. Safe from any thread."""
        self._copied.set()
        self.coordinator.stopping.set()

    def _note_late(self) -> None:
        """Raises the error where positions were read anew before, and nothing landed since."""
        assert self.error is not None
        known = tuple(table.position for table in self.tracking.tables.values())
        if self._late_at == known:
            raise self.error
        self._late_at = known
        log.warning("%s: reading anew what the tables hold", self.error)

    def _go_back(self) -> None:
        self._copied.clear()
        self.error = None
        self.coordinator.close()
        self._open_tables()
        if self._stop.is_set():
            self.coordinator.stopping.set()

    def _relay_position(self) -> str:
        at = RelayPosition.unpack(self.coordinator.position)
        names = {file.number + self.history.base: file.name for file in self.relay.files}
        return f"{names[at.file_no]}:{at.offset}" if at.file_no in names else str(at)

    def _until_is_met(self) -> bool:
        """Also where no batch comes that would say so."""
        found = self.coordinator
        if self.until is not None and not found.reached_until:
            with self._batching:
                index, position = self._refresh(), found.position
                if self.until.met(index, position, found.executed, self.relay):
                    found.reached_until = True
                    self._stop.set()
        return found.reached_until

    def _tail(self) -> str | None:
        index = self._refresh()
        if index.damage and not self._stop.is_set():
            raise index.damage
        return str(index.tail) if index.tail else None

    def stop(self) -> None:
        """Ends ``apply`` after the group that is being committed. Safe from any thread."""
        self._stop.set()
        if hasattr(self, "coordinator"):
            self.coordinator.stopping.set()

    def fail(self, error: SparkReplError) -> None:
        """Ends ``apply``, which raises this error of what runs beside it. Safe from any thread."""
        self._beside = self._beside or error
        self.stop()

    def close(self, error: BaseException | None = None) -> None:
        """Gives the target back: another applier, also in this process, may start on it. ``error``
        is what ended the run, for the status."""
        if hasattr(self, "coordinator"):
            self.coordinator.close(error)
        if hasattr(self, "control"):
            self.control.release()

    def _refresh(self) -> TransactionIndex:
        before = self.history.fingerprints

        def see(relay: RelayLog) -> tuple[History, TransactionIndex]:
            if relay.log_id != self.relay.log_id:
                raise LogError(
                    "the receiver has begun a new relay log",
                    file=self.relay_path,
                    hint="start the applier again: it goes on by GTID",
                )
            return indexed(relay, self.history, self.layout.index, self.index)

        self.relay, (self.history, self.index) = look(self.relay_path, see)
        self.coordinator.log.relay, self.coordinator.log.history = self.relay, self.history
        if self.history.fingerprints != before:
            record(self.tracking.control, self.history)
        return self.index

    def _catch_up(self) -> None:
        """Applies what lies between the tables and the offset from which the stream resumes.

        A checkpoint that is ahead of the tables (an old copy of them was restored, or it survived
        them) would otherwise skip transactions, and with an idle source no batch would come.
        """
        resume = resume_offset(self.checkpoint)
        if resume is None or resume <= self.coordinator.position:
            return
        records = self.index.slice(self.coordinator.position, resume)
        if len(records):
            log.warning(
                "the streaming checkpoint is ahead of the tables: applying %d transactions first",
                len(records),
            )
            self.counters.at_start += len(records)
            self.coordinator.apply(records)

    def _streams(self, follow: bool) -> None:
        """A new stream where one was lost with a worker of Spark's."""
        coordinator = self.coordinator
        try:
            coordinator.retries.run(lambda: self._stream(follow), lambda: coordinator.position)
        except Stopped:
            pass
        except SparkReplError as error:  # in vain
            self.error = error

    def _stream(self, follow: bool) -> None:
        limit = self.config.apply.group_max_bytes * _BATCH_GROUPS
        base = self.history.base
        low = RelayPosition(base + self.relay.files[0].number, 0).packed
        high = max(self.index.end, low)
        forget_foreign(self.checkpoint, self.relay, base, high)
        source = (
            self.spark.readStream.format("mysql_relay")
            .option("path", self.relay_path)
            .option("index", self.layout.index)
            .option("base", str(base))
            .option("start", str(min(max(self.coordinator.position, low), high)))
            .option("maxBytesPerTrigger", str(limit))
            .load()
        )
        writer = source.writeStream.foreachBatch(self._batch).option(
            "checkpointLocation", self.checkpoint
        )
        writer = (
            writer.trigger(processingTime="0 seconds")
            if follow
            else writer.trigger(availableNow=True)
        )
        if not self._is_ending:
            self.coordinator.begin_ahead(self.index)
        query = writer.start()
        try:
            while not query.awaitTermination(1):
                if self._is_ending or self.error is not None or self._until_is_met():
                    break
        except Exception as error:  # whatever ended the stream is said once
            if self.error is None and temporary(error):
                raise
            self.error = self.error or translated(error, self.relay_path, self.index.damage)
        finally:
            with self._batching:  # stopping the query interrupts what a batch asks of the JVM
                pass
            with suppress(ConnectionError, Py4JNetworkError):  # the JVM may be what ended
                query.stop()

    def _batch(self, frame: DataFrame, number: int) -> None:
        """foreachBatch: the rows say which transactions; what they hold is read by the workers."""
        with self._batching:
            if self._is_ending:
                raise StoppedBetweenGroups
            self._apply_batch(frame)

    @property
    def _is_ending(self) -> bool:
        return self._stop.is_set() or self._copied.is_set()

    def _apply_batch(self, frame: DataFrame) -> None:
        try:
            first, last, count = self.coordinator.retries.run(lambda: extent(frame))
            if not count:
                return
            records = self._refresh().slice(first, last)
            if len(records) != count:
                raise LogError(
                    f"the stream says {count} transactions, the log has {len(records)}",
                    file=self.relay_path,
                    position=RelayPosition.unpack(first),
                    hint="was a file replaced while the applier ran?",
                )
            self.coordinator.apply(records)
            if self.coordinator.reached_until:
                self._stop.set()
                raise StoppedBetweenGroups
            if self.coordinator.stopping.is_set() and self.coordinator.position < last:
                # Not to be recorded as done by the checkpoint; at the next start it comes again.
                raise StoppedBetweenGroups
            reach("before_checkpoint")
        except BaseException as error:
            if not isinstance(error, StoppedBetweenGroups):
                self.error = error
            raise


def _unnoted(error: BaseException, attempt: int, slot: int) -> None:
    """No group is tried again: the log alone says so."""


__all__ = ["Replica", "Result", "resume_offset"]
