"""Coordinator: transactions in, groups out, in the source's commit order.

Groups are cut and dispatched here; how each gets into the tables is said in landing. While one
group commits, the next is being staged, and waits for its turn.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Container
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np

from ..config import Config
from ..control.copies import CatchUp
from ..crash_points import reach
from ..decode.changes import EveryTable
from ..errors import CommitOrderError, RowError, SparkReplError
from ..gtid import GtidSet
from ..observe.applier_status import DELAYED, WAITING_FOR_WORK, ApplierStatus, Counters
from ..position import RelayPosition
from ..relay.index import TransactionIndex
from ..runtime.retry import Retries, Stopped
from ..runtime.workers import Workers
from ..schedule.branches import Branch
from ..schedule.stops import Until, copied, due_in, left_out, replayed
from ..write.tracking import Tracking
from .landing import Landing
from .lanes import GROUPS_AHEAD
from .plan import XA_PARTS, Group, Log, Planner, Records, branch_group, changed
from .xa_parts import XaParts

log = logging.getLogger(__name__)

# Groups between their dispatch and their cut: one commits while the next is staged and waits.
_DISPATCHED_MAX = 2
# Of the log, in groups, for a head start: the bounds of two depend on what follows them.
_LOOKED_AT = 5
# XA branches ended by hand at one place: fewer than any transaction has bytes.
_BY_HAND_MAX = 50


class Coordinator:
    """Applies transactions of one log to one target. Not thread-safe: one batch at a time.

    ``counters`` are added to; ``replayed_to``: up to there only copied tables are behind.
    """

    def __init__(
        self,
        config: Config,
        log: Log,
        tracking: Tracking,
        workers: Workers,
        executed: GtidSet,
        position: int,
        on_group: Callable[[Counters, int], None] | None = None,
        *,
        xa: XaParts,
        catch_up: CatchUp,
        counters: Counters | None = None,
        by_hand: int = 0,
        until: Until | None = None,
        skip: GtidSet | None = None,
        replayed_to: int = 0,
    ) -> None:
        self.config, self.log, self.tracking = config, log, tracking
        self.until, self.skip, self.reached_until = until, skip or GtidSet(), False
        self.xa, self.catch_up, self.counters = xa, catch_up, counters or Counters()
        self.stopping = threading.Event()
        self.status = ApplierStatus(tracking.layout.status, config, tracking.control.epoch)
        self.retries = Retries(config.apply.transaction_retries, self.stopping, self._transient)
        self.landing = Landing(
            config,
            log,
            tracking,
            workers,
            executed,
            position,
            by_hand,
            xa=xa,
            catch_up=catch_up,
            counters=self.counters,
            status=self.status,
            retries=self.retries,
            on_group=on_group or (lambda counters, end: None),
            replayed_to=replayed_to,
        )
        self._ahead = _DISPATCHED_MAX if config.apply.preserve_commit_order else GROUPS_AHEAD
        self._planner = Planner(config.apply)
        self._staging = ThreadPoolExecutor(1, thread_name_prefix="stage")
        self._landing = ThreadPoolExecutor(self._ahead, thread_name_prefix="land")
        self._wait_seconds = 0.0

    def apply(self, records: Records) -> None:
        """Applies index records in log order; those that every table has already are passed over.

        Raises SparkReplError with the transaction's place when one can't be applied: everything
        before it has been committed then, nothing behind it.
        """
        records = self._wanted(records)
        if not len(records):
            return
        records, self._branches, wrong = self.xa.resolve(
            self.log.relay, self.log.base, records, self.catch_up.copied
        )
        self._dispatched = self.executed
        batch = self._planner.batch(records)
        for text in batch.warnings:
            log.warning("%s", text)
        self.counters.warnings += batch.warnings
        dispatched: deque[tuple[Group, Future[None]]] = deque()
        group = self._planner.group(batch, 0)
        try:
            while group is not None and not self.stopping.is_set():
                if not self._due(group):
                    break
                reach("before_stage")
                self._dispatch(group)
                self._learn(group)
                dispatched.append((group, self._landing.submit(self.landing.land, group)))
                # What follows a statement may need the definitions that it makes.
                while len(dispatched) >= (self._ahead if group.with_rows else 1):
                    dispatched.popleft()[1].result()
                # Spark serves jobs in the order they come in: files first, so that the next group
                # is read while these are committed.
                group.writing.wait()
                group = self._planner.group(batch, group.last)
            for _, landing in dispatched:
                landing.result()
        except Stopped:
            self.stopping.set()
        finally:
            left = [landing.exception() for _, landing in dispatched]
            for later, _ in dispatched:
                self.landing.stager.drop(later)
        for error in left:  # stop() must not hide what went wrong meanwhile
            if error is not None and not isinstance(error, Stopped | CommitOrderError):
                raise error
        if self.stopping.is_set():
            return
        if wrong is not None:
            raise wrong  # everything before it has landed
        self.end_by_hand()
        self.status.state(WAITING_FOR_WORK, "")

    def begin_ahead(self, index: TransactionIndex) -> None:
        """Has the first groups of what a stream will bring staged, while the stream is started.
        Only where the records are taken as they are in the log."""
        renewed, held = self.log.history.renewed, self.catch_up.copied
        if self.until or self.skip or renewed or held or self.config.apply.delay_s:
            return
        most = self.config.apply.group_max_transactions * _LOOKED_AT
        records = index.slice(self.position, index.end, most)
        if len(records) and not np.isin(records["kind"], XA_PARTS).any():
            begin = self.landing.head_start.begin
            self._staging.submit(begin, records, self.executed, self._idempotent())

    def end_by_hand(self) -> None:
        """Ends the XA branches that somebody has decided about, behind all that is in the tables.

        The rows of the n-th at one place land n bytes behind the cut's position, so that a crash
        between two tables is seen; the cut's own position stays the end of a transaction. While a
        table is ahead (after a crash) there is no place that is behind all: then it is done after
        the next batch.
        """
        self.counters.warnings += self.xa.old(self.config.apply.xa_age_limit_s)
        for branch in self.xa.waiting():
            end = self.position + 1 + self.landing.mark.by_hand
            positions = [table.position for table in self.tracking.tables.values()]
            ahead = any(position > end for position in positions)
            if not self.position or ahead or self.landing.mark.by_hand == _BY_HAND_MAX:
                return
            begun = end in positions  # some tables have its rows: it can't be taken back
            xa = self.xa.end_by_hand(branch, begun=begun)
            commit = bool(xa.commits)
            group = branch_group(branch, self.position, end, xa)
            group.executed = self.executed
            self.landing.mark.by_hand += 1
            if commit:
                try:
                    work = partial(self.landing.write, group)
                    self.landing.count(self.retries.run(work, slot=group.slot))
                except RowError as error:
                    raise _by_hand(branch, error) from error
            log.warning("XA %s of %s by hand", "COMMIT" if commit else "ROLLBACK", branch.xid)
            cut = replace(self.landing.cut(group), position=self.position)
            self.landing.publish(group, cut, 0)

    def _wanted(self, records: Records) -> Records:
        """Without what the target has already, what is behind --until, what is left out."""
        records = records[int(np.searchsorted(records["end"], self.position, "right")) :]
        if self.until is not None:
            most = self.until.take(records, self.executed, self.log.relay, self.log.base)
            if most is not None:
                records = records[:most]
                self.reached_until = True
        if self.log.history.renewed:  # what the other log held takes its slot, and changes nothing
            records, _ = left_out(records, self.landing.before)
        records = copied(replayed(records, self.landing.replayed_to), self.catch_up.copied)
        records, skipped = left_out(records, self.skip)
        self.counters.skipped += skipped
        return records

    def _due(self, group: Group) -> bool:
        """Waits until the group is ``delay_s`` old; False when stop() came first."""
        left = due_in(group.records, self.config.apply.delay_s)
        if left > 0:
            self.status.state(DELAYED, str(group.gtids))
            return not self.stopping.wait(left)
        return True

    def _learn(self, group: Group) -> None:
        """Corrects the estimate before the next group is cut, by what this one was found to hold.
        It costs no time: one group is staged at a time."""
        if group.staged is None:
            return
        began = time.perf_counter()
        failed = group.staged.exception() is not None
        self._wait_seconds += time.perf_counter() - began
        if failed:
            return  # raised in its turn, by _land
        self._planner.observe(group, changed(group.staged.result()))

    def _dispatch(self, group: Group) -> None:
        group.slot = self.landing.order.dispatch()
        group.xa = self.retries.run(lambda: self.xa.enter(group.records, self._branches))
        group.idempotent = self._idempotent()
        group.cascades = self.landing.stager.cascades()
        group.executed, self._dispatched = self._dispatched, self._dispatched.union(group.gtids)
        if group.with_rows and self.landing.head_start.has(group):
            group.staged = Future()
            try:
                group.staged.set_result(self.landing.stage(group))
            except SparkReplError as error:  # raised in the group's turn, as any other of staging
                group.staged.set_exception(error)
        elif group.with_rows:
            group.staged = self._staging.submit(self.landing.stage, group)

    def _idempotent(self) -> Container[str]:
        copied = self.catch_up.tables(self.executed)
        return EveryTable(copied) if self.config.apply.exec_mode == "idempotent" else copied

    def _transient(self, error: BaseException, attempt: int, slot: int) -> None:
        self.counters.retries += 1
        self.status.transient(error, attempt, slot)

    @property
    def executed(self) -> GtidSet:
        return self.landing.mark.executed

    @property
    def position(self) -> int:
        return self.landing.mark.position

    def phases(self) -> dict[str, float]:
        """Seconds: staging (beside the commits), waiting for it, and the writer's."""
        found = {"wait_s": self._wait_seconds, **self.landing.phases()}
        return {name: round(value, 3) for name, value in found.items()}

    def close(self, error: BaseException | None = None) -> None:
        self.stopping.set()  # a group that waits for a full disk waits no longer
        self._landing.shutdown(wait=True, cancel_futures=True)
        self._staging.shutdown(wait=True, cancel_futures=True)
        self.landing.close()
        self.status.stopped(error)


def _by_hand(branch: Branch, error: RowError) -> RowError:
    """A branch whose rows don't fit: it stays prepared, and what was decided can be taken back."""
    return RowError(
        f"XA COMMIT of {branch.xid} by hand: {error.message}",
        number=error.number,
        position=RelayPosition.unpack(branch.position),
        gtid=branch.gtid,
        table=error.table,
        hint="spark-repl xa rollback ends it without its rows; or mend the rows and start again",
    )
