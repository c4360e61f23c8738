"""Coordinator: transactions in, committed groups and cuts out, in the source's commit order.

The two phases of WL#3970 here: a group is *staged* (decoded and folded by the workers, nothing
visible), then written and committed table by table, then its cut is published. While one group
commits, the next is being staged, and waits for its turn (apply/commit_order). Without commit order
each table goes on by itself (lanes), and only the low-water mark and the cuts keep the order.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import numpy as np

from .applier_status import (
    APPLYING,
    DELAYED,
    STAGING,
    WAITING_FOR_WORK,
    ApplierStatus,
    Counters,
)
from .apply.changes import EveryTable
from .apply.commit_order import WAITING, CommitOrder
from .apply.stage import Staged
from .config import Config
from .errors import CommitOrderError, DecodeError, LogError, SparkReplError, StatementError
from .group import GroupWriter, RowFault
from .gtid import GtidSet
from .lanes import GROUPS_AHEAD, Lanes, of_tables
from .low_water_mark import LowWaterMark
from .plan import Group, Planner, Records, branch_group, count_before, cut_behind, placed
from .relay.index import Kind, holding
from .relay.log import RelayLog
from .retry import Retries, Stopped, disk_full, temporary
from .sink.control import Cut
from .sink.copies import CatchUp
from .sink.crash_points import reach
from .sink.history import History
from .sink.tracking import Tracking
from .stager import Stager
from .statements import Statements
from .stops import Until, copied, due_in, left_out, replayed
from .workers import Workers
from .xa_parts import XaParts

log = logging.getLogger(__name__)

# Groups between their dispatch and their cut: one commits while the next is staged and waits.
_DISPATCHED_MAX = 2
# XA branches ended by hand at one place: fewer than any transaction has bytes.
_BY_HAND_MAX = 50


class Coordinator:
    """Applies transactions of one log to one target. Not thread-safe: one batch at a time."""

    def __init__(
        self,
        config: Config,
        relay: RelayLog,
        history: History,
        tracking: Tracking,
        workers: Workers,
        executed: GtidSet,
        position: int,
        on_group: Callable[[Counters, int], None] | None = None,
        *,
        xa: XaParts,
        catch_up: CatchUp,
        by_hand: int = 0,
        until: Until | None = None,
        skip: GtidSet | None = None,
        replayed_to: int = 0,
    ) -> None:
        self.config, self.relay, self.history, self.tracking = config, relay, history, tracking
        self.workers = workers
        self._mark = LowWaterMark(
            tracking, xa.store, catch_up, executed, position, by_hand, self._publish_cut
        )
        self.until, self.skip, self.reached_until = until, skip or GtidSet(), False
        self.catch_up = catch_up
        self._replayed_to = replayed_to  # up to there only copied tables are behind
        self._before = executed if history.renewed else GtidSet()
        self.xa = xa
        self.counters = Counters()
        self.on_group = on_group or (lambda counters, end: None)
        self.stopping = threading.Event()
        self.status = ApplierStatus(tracking.layout.status, config)
        self._retries = Retries(config.apply.transaction_retries, self.stopping, self._transient)
        self._order = CommitOrder(lambda slot: self.status.state(WAITING))
        self._planner = Planner(config.apply)
        self._staging = ThreadPoolExecutor(1, thread_name_prefix="stage")
        self._lanes = None if config.apply.preserve_commit_order else Lanes(self._write_part)
        self._ahead = GROUPS_AHEAD if self._lanes else _DISPATCHED_MAX
        self._landing = ThreadPoolExecutor(self._ahead, thread_name_prefix="land")
        self._writer = GroupWriter(tracking, workers, config)
        self._statements = Statements(tracking)
        self._wait_seconds = 0.0
        self._stager = Stager(config, tracking, workers)

    def apply(self, records: Records) -> None:
        """Applies index records in log order; those that every table has already are passed over.

        Raises SparkReplError with the transaction's place when one can't be applied: everything
        before it has been committed then, nothing behind it.
        """
        records = self._wanted(records)
        if not len(records):
            return
        records, self._branches, wrong = self.xa.resolve(
            self.relay, self.history.base, records, self.catch_up.copied
        )
        self._dispatched = self.executed
        batch = self._planner.batch(records)
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
                dispatched.append((group, self._landing.submit(self._land, group)))
                # What follows a statement may need the definitions that it makes.
                while len(dispatched) >= (self._ahead if group.with_rows else 1):
                    dispatched.popleft()[1].result()
                group = self._planner.group(batch, group.last)
            for _, landing in dispatched:
                landing.result()
        except Stopped:
            self.stopping.set()
        finally:
            left = [landing.exception() for _, landing in dispatched]
            for later, _ in dispatched:
                self._stager.drop(later)
        for error in left:  # stop() must not hide what went wrong meanwhile
            if error is not None and not isinstance(error, Stopped | CommitOrderError):
                raise error
        if self.stopping.is_set():
            return
        if wrong is not None:
            raise wrong  # everything before it has landed
        self.end_by_hand()
        self.status.state(WAITING_FOR_WORK, "")

    def end_by_hand(self) -> None:
        """Ends the XA branches that somebody has decided about, behind all that is in the tables.

        The rows of the n-th at one place land n bytes behind the cut's position, so that a crash
        between two tables is seen; the cut's own position stays the end of a transaction. While a
        table is ahead (after a crash) there is no place that is behind all: then it is done after
        the next batch.
        """
        self.counters.warnings += self.xa.old(self.config.apply.xa_age_limit_s)
        for branch in self.xa.waiting():
            end = self.position + 1 + self._mark.by_hand
            ahead = any(t.position > end for t in self.tracking.tables.values())
            if not self.position or ahead or self._mark.by_hand == _BY_HAND_MAX:
                return
            commit = self.xa.ends_in_commit(branch)
            xa = self.xa.end_by_hand(branch)
            group = branch_group(branch, self.position, end, xa)
            group.executed = self.executed
            self._mark.by_hand += 1
            if commit:
                self._count(self._retries.run(partial(self._write, group)))
            log.warning("XA %s of %s by hand", "COMMIT" if commit else "ROLLBACK", branch.xid)
            cut = cut_behind(group, self.relay, self.history)
            self._publish(group, replace(cut, position=self.position), 0)

    def _wanted(self, records: Records) -> Records:
        """Without what the target has already, what is behind --until, what is left out."""
        records = records[records["end"] > self.position]
        if self.until is not None:
            most = self.until.take(records, self.executed, self.relay, self.history.base)
            if most is not None:
                records = records[:most]
                self.reached_until = True
        if self.history.renewed:  # what the other log held takes its slot, and changes nothing
            records, _ = left_out(records, self._before)
        records = copied(replayed(records, self._replayed_to), self.catch_up.copied)
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
        changes = sum(sum(part.changes.values()) for part in group.staged.result())
        self._planner.observe(group, changes)

    def _dispatch(self, group: Group) -> None:
        group.slot = self._order.dispatch()
        group.xa = self._retries.run(lambda: self.xa.enter(group.records, self._branches))
        every = self.config.apply.exec_mode == "idempotent"
        group.idempotent = EveryTable() if every else self.catch_up.tables(self.executed)
        group.executed, self._dispatched = self._dispatched, self._dispatched.union(group.gtids)
        if group.with_rows:
            group.staged = self._staging.submit(self._enter, group)

    def _transient(self, error: BaseException, attempt: int) -> None:
        self.counters.retries += 1
        self.status.transient(error, attempt)

    def _stage(self, group: Group) -> list[Staged]:
        self.status.state(STAGING, str(group.gtids))
        return self._stager.stage(
            group, self.relay, self.history.base, self.catch_up, group.executed
        )

    def _enter(self, group: Group) -> list[Staged]:
        """Stages the group; without commit order its tables may begin to write it then."""
        try:
            staged = self._retries.run(lambda: self._stage(group))
        except BaseException:
            if self._lanes:
                self._lanes.refuse()
            raise
        if self._lanes:
            self._lanes.enter(group, staged)
        return staged

    def _land(self, group: Group) -> None:
        """A group's commits and its cut, in its turn. Raises what stops the applier."""
        try:
            if group.with_rows:
                self._rows(group)
            else:
                self._statement(group)
        except CommitOrderError as error:
            log.warning("%s: %s", group.gtids, error)
            raise
        except SparkReplError as error:
            self._order.fail(group.slot)
            raise self._place(error, group.records) from error
        except BaseException:
            self._order.fail(group.slot)
            raise
        self._order.done(group.slot)

    def _statement(self, group: Group) -> None:
        self._order.wait(group.slot)
        cut = cut_behind(group, self.relay, self.history)
        kind = Kind(int(group.records["kind"][0]))
        reach("before_statement")
        self._retries.run(
            lambda: self._statements.apply(
                group.records[0], kind, cut, self.relay, self.history.base
            )
        )
        reach("after_statement")
        self.counters.statements += 1
        self._publish(group, cut)

    def _rows(self, group: Group) -> None:
        try:
            assert group.staged is not None
            staged = group.staged.result()
            reach("staged")
            if self._lanes:
                self._lanes.finish(group)
            self._order.wait(group.slot, ends_branch=bool(group.xa.ended))
            if not self._lanes:
                self._retries.run(lambda: self._write(group))
        except (RowFault, DecodeError, LogError) as fault:
            self._order.wait(group.slot)
            self._prefix(group, fault)
            raise
        self._count(staged)
        self._stager.drop(group)
        self._publish(group, cut_behind(group, self.relay, self.history))

    def _write_part(self, part: Group) -> None:
        """A lane's work: one table's part of a group."""
        try:
            self._retries.run(lambda: self._write(part))
        finally:
            self._stager.drop(part)

    def _write(self, group: Group) -> list[Staged]:
        if group.staged is None:  # a retry begins with the relay log again
            staged = self._stage(group)
        else:
            staged = group.staged.result()
        if group.tables is not None:
            staged = of_tables(staged, group.tables)
        self.status.state(APPLYING, str(group.gtids))
        try:
            cut = cut_behind(group, self.relay, self.history)
            before = replace(cut, position=group.start, gtid_executed=str(group.executed))
            self._writer.write(staged, before, cut, idempotent=group.idempotent)
        except Exception as error:
            if temporary(error) or disk_full(error):
                group.staged = None
            raise
        return staged

    def _count(self, staged: list[Staged]) -> None:
        changes = [part.changes for part in staged]
        self._stager.tables = max(1, len({name for found in changes for name in found}))
        self.counters.task_retries = self.workers.task_retries
        self.counters.row_changes += sum(sum(found.values()) for found in changes)
        self.counters.zero_dates += sum(part.zero_dates for part in staged)

    def _prefix(self, group: Group, fault: SparkReplError) -> None:
        """Lands what stands before the transaction that failed: the committed set is a prefix."""
        count = count_before(group.records, fault.position)
        if not count:
            return
        part = replace(
            group, records=group.records[:count], wave=group.wave[:count], staged=None, folder=None
        )
        part.xa = self._retries.run(lambda: self.xa.prefix(group.xa, count))
        self._count(self._retries.run(lambda: self._write(part)))
        self._publish(part, cut_behind(part, self.relay, self.history))

    def _publish(self, group: Group, cut: Cut, transactions: int | None = None) -> None:
        if transactions is None:
            records = group.records
            fresh = int(np.count_nonzero(records["end"] > self._replayed_to))
            transactions = fresh - left_out(records, self._before)[1]
        with self._lanes.standstill() if self._lanes else nullcontext(True) as still:
            is_cut = self._mark.advance(group, cut, transactions, still=still)
        counted = self.counters
        counted.transactions += transactions
        counted.groups += 1
        counted.already += group.already
        counted.waves += len(np.unique(group.wave))
        counted.cuts += is_cut
        self.status.applied(str(group.gtids))
        self.on_group(counted, cut.position)

    def _publish_cut(self, cut: Cut) -> None:
        if self._replayed_to:  # it shows the copy: no earlier one is needed again
            self.xa.store.keep_all, self._replayed_to = False, 0
        self._retries.run(lambda: self.tracking.control.publish(cut))

    @property
    def executed(self) -> GtidSet:
        return self._mark.executed

    @property
    def position(self) -> int:
        return self._mark.position

    def _place(self, error: SparkReplError, records: Records) -> SparkReplError:
        """Names the transaction: its GTID, file and position; or the owner that fences us off."""
        single = len(records) == 1 or error.position is not None
        if isinstance(error, (RowFault, DecodeError, LogError, StatementError)) and single:
            record = records[holding(records, error.position)]
            placed(error, self.relay, self.history.base, record)
        return self.tracking.control.named(error)

    def phases(self) -> dict[str, float]:
        """Seconds: staging (beside the commits), waiting for it, and the writer's."""
        found = {"stage_s": self._stager.seconds, "wait_s": self._wait_seconds}
        return {name: round(value, 3) for name, value in (found | self._writer.phases()).items()}

    def close(self, error: BaseException | None = None) -> None:
        self._landing.shutdown(wait=True, cancel_futures=True)
        if self._lanes:
            self._lanes.close()
        self._staging.shutdown(wait=True, cancel_futures=True)
        self._writer.close()
        self.status.stopped(error)
        self._stager.clean()
