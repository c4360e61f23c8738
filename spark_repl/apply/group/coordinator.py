"""Coordinator: transactions in, groups out, in the source's commit order.

Groups are cut here, and dispatched when one may follow another; how each gets into the tables is
said in ``pipeline`` and ``landing``. While one group commits, the next is being staged, and waits
for its turn.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING

from ...crash_points import reach
from ...errors import CommitOrderError, Stopped
from ...observe.reports.applier_status import DELAYED, PACED, WAITING_FOR_WORK, ApplierStatus
from ...observe.reports.worker_status import STAGING
from ...schedule.planner import Planner
from ...schedule.skipped_records import seconds_until_due, skip_transactions
from .pace import Pace

if TYPE_CHECKING:
    from ...config import Apply
    from ...errors import SparkReplError
    from ...gtid import GtidSet
    from ...relay.index import TransactionIndex
    from ...schedule.group import Group, Records
    from ...schedule.until import Until
    from ..log.applied_log import AppliedLog
    from ..log.quarantine_changes import Fault
    from .apply_group import Dispatched
    from .gaps import Gaps
    from .pipeline import Pipeline

log = logging.getLogger(__name__)

# Of the log, in groups, for a head start: the bounds of two depend on what follows them.
_LOOKED_AT = 5
_CLOCK_S = 1.0
"""seconds after which the clock is asked again while a group waits for delay_s"""


class Coordinator:
    """Applies transactions of one log to one target. Not thread-safe: one batch at a time.

    ``gaps``: what tables have beyond others; ``skip``: transactions to leave out, ``until``: where
    to end; ``stopping`` ends it after the group that is being committed, from any thread.
    """

    def __init__(
        self,
        apply: Apply,
        applied: AppliedLog,
        pipeline: Pipeline,
        status: ApplierStatus,
        stopping: threading.Event,
        *,
        gaps: Gaps,
        skip: GtidSet,
        until: Until | None = None,
    ) -> None:
        self._apply, self._applied, self._pipeline, self._status = apply, applied, pipeline, status
        self.stopping, self._skip, self._until = stopping, skip, until
        self._gaps, self.reached_until = gaps, False
        self._planner = Planner(apply)
        shown = pipeline.cut_before
        self.pace = Pace(apply, shown.at if shown else None)
        self._wait_seconds = 0.0
        self._fills_gaps = apply.preserve_commit_order and not gaps.by_copy
        if gaps.are_open and (self._fills_gaps or (until and until.is_after_gaps)):
            self._say_gaps()

    @property
    def executed(self) -> GtidSet:
        return self._pipeline.executed

    def fault_of(self, error: SparkReplError) -> Fault | None:
        """What has stopped the applier, if it may go into quarantine, with its table."""
        return self._pipeline.fault_of(error)

    @property
    def position(self) -> int:
        return self._pipeline.position

    def apply(self, records: Records) -> None:
        """Applies index records in log order; those that every table has already are passed over.

        Raises SparkReplError with the transaction's place when one can't be applied: everything
        before it has been committed then, nothing behind it.
        """
        records = self._wanted(records)
        if not len(records):
            self._say_what_is_left()
            return
        records, wrong = self._pipeline.begin(records)
        for part in self._apart(records):
            if len(part):
                self._run(part)
            if self.stopping.is_set():
                return
        if wrong is not None:
            raise wrong  # everything before it has landed
        self.end_by_hand()
        self._say_what_is_left()

    def _say_what_is_left(self) -> None:
        """Whether the log, as far as it is known, holds more than was applied."""
        index = self._applied.index
        more = len(index.slice(self.position, index.end, 1))
        self._status.state(STAGING if more else WAITING_FOR_WORK, "")

    def _apart(self, records: Records) -> list[Records]:
        """With commit order what fills gaps is brought to one cut before anything behind it is
        applied."""
        fills = self._fills_gaps and self._gaps.are_open
        first = self._pipeline.retried(lambda: self._gaps.take(records)) if fills else None
        return [records] if first is None else [records[:first], records[first:]]

    def _say_gaps(self) -> None:
        said = (
            f"{', '.join(self._gaps.tables)}: ahead of the last cut: up to {self._gaps.end} the"
            " other tables are brought there first"
        )
        # Every crash leaves such gaps, where several tables are committed side by side.
        log.info("%s", said)
        self._status.warns([said])

    def catch_up(self, offset: int | None) -> None:
        """Applies what lies between the tables and the ``offset`` from which the stream resumes.

        A checkpoint that is ahead of the tables (an old copy of them was restored, or it survived
        them) would otherwise skip transactions, and with an idle source no batch would come.
        """
        if offset is None or offset <= self.position:
            return
        records = self._applied.index.slice(self.position, offset)
        if len(records):
            log.warning(
                "the streaming checkpoint is ahead of the tables: applying %d transactions first",
                len(records),
            )
            self._status.count(at_start=len(records))
            self.apply(records)

    def _run(self, records: Records) -> None:
        """Returns when all has landed, or stop() came."""
        batch = self._planner.batch(records)
        for text in batch.warnings:
            log.warning("%s", text)
        self._status.warns(batch.warnings)
        under_way: deque[Future[None]] = deque()
        group = self._planner.group(batch, 0)
        try:
            while group is not None and not self.stopping.is_set():
                if not self._due(group):
                    break
                if group.with_rows:
                    self.pace.begin_group()
                reach("before_stage")
                dispatched, landing = self._pipeline.dispatch(group)
                self._learn(dispatched)
                under_way.append(landing)
                # What follows a statement may need the definitions that it makes.
                while len(under_way) >= (self._pipeline.most if group.with_rows else 1):
                    under_way.popleft().result()
                # Spark serves jobs in the order they come in: files first, so that the next group
                # is read while these are committed.
                dispatched.writing.wait()
                group = self._planner.group(batch, group.last)
            for landing in under_way:
                landing.result()
            self._pipeline.publish_held_back()
        except Stopped:
            pass  # stop() came while an attempt was waited for
        finally:
            left = [landing.exception() for landing in under_way]
        for error in left:  # stop() must not hide what went wrong meanwhile
            if error is not None and not isinstance(error, Stopped | CommitOrderError):
                raise error

    def begin_ahead(self, index: TransactionIndex) -> None:
        """Has the first groups of what a stream will bring staged, while the stream is started.
        Only where the records are taken as they are in the log. Says whether there are any."""
        self._say_what_is_left()
        if self._until or self._skip or self._apply.delay_s or self._gaps.are_open:
            return
        most = self._apply.group_max_transactions * _LOOKED_AT
        self._pipeline.begin_ahead(index.slice(self.position, index.end, most))

    def end_by_hand(self) -> None:
        """Ends the XA branches that somebody has decided about. Raises RowError."""
        self._pipeline.end_by_hand()

    def has_met_until(self) -> bool:
        """Also where no batch comes that would say so. Looks at the log anew."""
        if self._until is not None and not self.reached_until:
            index = self._applied.refresh()
            if self._until.is_after_gaps:
                self.reached_until = not self._gaps.are_open
            elif self._until.is_reached(index, self.position, self.executed, self._applied.relay):
                self.reached_until = True
        return self.reached_until

    def _wanted(self, records: Records) -> Records:
        """Without what the target has already, what is behind --until, what is left out."""
        records = self._pipeline.behind(records)
        if self._until is not None:
            until = self._until
            most = self._pipeline.retried(lambda: self._until_of(records, until))
            if most is not None:
                records = records[:most]
                self.reached_until = True
        records = self._pipeline.not_there(records)
        records, skipped = skip_transactions(records, self._skip, statements=False)
        self._status.count(skipped=skipped)
        return records

    def _until_of(self, records: Records, until: Until) -> int | None:
        """How many of the records come before the stop; None when it is not among them."""
        if until.is_after_gaps:
            return self._gaps.take(records)
        return until.count_before(records, self.executed, self._applied.relay, self._applied.base)

    def _due(self, group: Group) -> bool:
        """Waits until the group is ``delay_s`` old, and far enough from the one before; False when
        stop() came first."""
        left = seconds_until_due(group.records, self._apply.delay_s)
        if left > 0:
            self._pipeline.publish_held_back()
            self._status.state(DELAYED, str(group.gtids))
            if not self._delay(group.records, left):
                return False
        if group.with_rows and self.pace.until_group() > 0:
            self._status.state(PACED, str(group.gtids))
            return self.pace.wait(self.pace.until_group, self.stopping.is_set)
        return True

    def _delay(self, records: Records, left: float) -> bool:
        """Wait until the records are old enough; return False when stop() came first. The clock is
        asked every second: one that was wrong for a moment must not be waited for."""
        while left > 0:
            if self.stopping.wait(min(left, _CLOCK_S)):
                return False
            left = seconds_until_due(records, self._apply.delay_s)
        return True

    def _learn(self, dispatched: Dispatched) -> None:
        """Corrects the estimate before the next group is cut, by what this one was found to hold.
        It costs no time: one group is read at a time. Where a worker tries again nobody waits."""
        if dispatched.begun is None:
            return
        began = time.perf_counter()
        failed = dispatched.begun.exception() is not None
        self._wait_seconds += time.perf_counter() - began
        if failed:  # raised in its turn, when it lands
            return
        changes = dispatched.begun.result().changes
        if changes is not None:
            self._planner.observe(dispatched.group, changes)

    def keep_branches(self, keep: bool) -> None:
        """Whether the bytes of XA branches stay that have ended: a copy will need them again."""
        self._pipeline.keep_branches(keep)

    def phases(self) -> dict[str, float]:
        """Seconds: staging (beside the commits), waiting for it, and the writer's."""
        phases = {"wait_s": self._wait_seconds, **self._pipeline.phases()}
        return {name: round(value, 3) for name, value in phases.items()}

    def close(self, error: BaseException | None = None) -> None:
        """Returns when nothing is under way any more. ``error``: what ended it, for the status."""
        self.stopping.set()  # a group that waits for a full disk waits no longer
        self._pipeline.close()
        ahead = self._pipeline.ahead().items()
        self._status.stopped(error, {name: self._applied.name_of(at) for name, at in ahead})
