"""Coordinator: transactions in, groups out, in the source's commit order.

The coordinator cuts groups, and dispatches each when it may follow another. ``pipeline`` describes
how a group gets into the tables. While one group commits, the next one is being read, and then
waits for its turn.

``Pace`` is the time between the starts of two groups, in which changes gather into one group.
``apply.max_commits_per_hour`` keeps any two groups apart, because each group commits once to a
table. ``apply.max_latency_ms`` applies only to changes that the stream brings, because groups of a
backlog are full already. A change that arrives after no group was applied for that long is applied
at once.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ...crash_points import reach
from ...errors import CommitOrderError, Stopped
from ...observe.reports.applier_status import DELAYED, PACED, WAITING_FOR_WORK, ApplierStatus
from ...observe.reports.worker_status import STAGING
from ...schedule.planner import Planner
from ...schedule.skipped_records import seconds_until_due, skip_transactions

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from concurrent.futures import Future

    from ...config import Apply
    from ...gtid import GtidSet
    from ...schedule.group import Group, Records
    from ...schedule.until import Until
    from ..applied.applied_log import AppliedLog
    from .gaps import Gaps
    from .group_committer import Dispatched
    from .pipeline import Pipeline

logger = logging.getLogger(__name__)

_CLOCK_S = 1.0
"""seconds after which the clock is read again while a group waits for delay_s"""


class Coordinator:
    """Applies transactions of one log to one target. Not thread-safe: call it for one batch at a
    time.

    ``mark``: the low-water mark of the target. ``gaps``: the transactions that only some tables
    have. ``skip``: transactions to leave out. ``until``: where to end. ``stopping``, which any
    thread may set, ends it after the current group's commit. ``wait_seconds``: how long commits
    waited for reading.
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
        self.mark, self._retries = pipeline.mark, pipeline.retries
        self._planner = Planner(apply)
        cut = pipeline.cuts.last_cut
        self.pace = Pace(apply, cut.at if cut else None)
        self.wait_seconds = 0.0
        self._fills_gaps = apply.preserve_commit_order and not gaps.by_copy
        if gaps.are_open and (self._fills_gaps or (until and until.is_after_gaps)):
            self._show_gaps()

    def apply(self, records: Records) -> None:
        """Apply index records in log order; skip the records that every table already has.

        Raise SparkReplError, with the transaction's position, if a transaction can't be applied.
        Everything before it has then been committed, and nothing after it.
        """
        records = self._wanted(records)
        if not len(records):
            self._show_what_is_left()
            return
        records, wrong = self._pipeline.begin(records)
        for part in self._split_at_gap(records):
            if len(part):
                self._run(part)
            if self.stopping.is_set():
                return
        if wrong is not None:
            raise wrong  # everything before it is committed
        self._pipeline.end_by_hand()
        self._show_what_is_left()

    def _show_what_is_left(self) -> None:
        """Show in the status whether the log, as it was read last, holds more than was applied."""
        index = self._applied.view.index
        more = len(index.slice(self.mark.position, index.end, 1))
        self._status.state(STAGING if more else WAITING_FOR_WORK, "")

    def _split_at_gap(self, records: Records) -> list[Records]:
        """Return the records in one or two parts. With commit order the applier fills the gaps and
        publishes a cut before it applies anything after them."""
        fills = self._fills_gaps and self._gaps.are_open
        first = self._retries.run(lambda: self._gaps.count_within(records)) if fills else None
        return [records] if first is None else [records[:first], records[first:]]

    def _show_gaps(self) -> None:
        text = (
            f"{', '.join(self._gaps.tables)}: ahead of the last cut: up to {self._gaps.end} the"
            " other tables are brought there first"
        )
        # Every crash leaves such gaps if several tables were being committed side by side.
        logger.info("%s", text)
        self._status.warns([text])

    def apply_before_checkpoint(self, offset: int | None) -> None:
        """Apply the transactions between the tables' position and the ``offset`` from which the
        stream resumes.

        A checkpoint can be ahead of the tables, if an old copy of the tables was restored or the
        checkpoint survived them. Without this call the stream would skip transactions, and on an
        idle source no batch would come.
        """
        if offset is None or offset <= self.mark.position:
            return
        records = self._applied.view.index.slice(self.mark.position, offset)
        if len(records):
            logger.warning(
                "the streaming checkpoint is ahead of the tables: applying %d transactions first",
                len(records),
            )
            self._status.count(at_start=len(records))
            self.apply(records)

    def _run(self, records: Records) -> None:
        """Apply records; return when all are committed, or stop() came."""
        batch = self._planner.batch(records)
        for text in batch.warnings:
            logger.warning("%s", text)
        self._status.warns(batch.warnings)
        commits: deque[Future[None]] = deque()
        group = self._planner.group(batch, 0)
        try:
            while group is not None and not self.stopping.is_set():
                if not self._due(group):
                    break
                if group.with_rows:
                    self.pace.begin_group()
                reach("before_stage")
                dispatched, commit = self._pipeline.dispatch(group)
                self._observe_changes(dispatched)
                commits.append(commit)
                # Groups after a statement may need the definitions that it creates.
                while len(commits) >= (self._pipeline.groups_max if group.with_rows else 1):
                    commits.popleft().result()
                # Spark serves jobs in the order they come in: files first, so that the next group
                # is read while these are committed.
                dispatched.may_read_next.wait()
                group = self._planner.group(batch, group.last)
            for commit in commits:
                commit.result()
            self._pipeline.publish_held_back()
        except Stopped:
            pass  # stop() came while an attempt was waited for
        finally:  # also waits until nothing is in progress
            errors = [commit.exception() for commit in commits]
        for error in errors:  # stop() must not hide an error of a commit
            if error is not None and not isinstance(error, Stopped | CommitOrderError):
                raise error

    def has_met_until(self) -> bool:
        """Return whether ``until`` has been reached, also if no batch comes. Read the log's end
        again."""
        if self._until is not None and not self.reached_until:
            index = self._applied.refresh()
            if self._until.is_after_gaps:
                self.reached_until = not self._gaps.are_open
            elif self._until.is_reached(
                index, self.mark.position, self.mark.executed, self._applied.view.relay
            ):
                self.reached_until = True
        return self.reached_until

    def _wanted(self, records: Records) -> Records:
        """Return the records to apply: without those that the target already has, those after
        --until, and those to leave out."""
        records = self.mark.after(records)
        if self._until is not None:
            until = self._until
            most = self._retries.run(lambda: self._count_until(records, until))
            if most is not None:
                records = records[:most]
                self.reached_until = True
        records = self.mark.empty_existing(records)
        records, skipped = skip_transactions(records, self._skip, statements=False)
        self._status.count(skipped=skipped)
        return records

    def _count_until(self, records: Records, until: Until) -> int | None:
        """Return how many of the records come before the stop, or None if the stop is not among
        them."""
        if until.is_after_gaps:
            return self._gaps.count_within(records)
        return until.count_before(
            records, self.mark.executed, self._applied.view.relay, self._applied.base
        )

    def _due(self, group: Group) -> bool:
        """Wait until the group is ``delay_s`` seconds old, and late enough after the previous
        group. Return False if stop() came first."""
        seconds = seconds_until_due(group.records, self._apply.delay_s)
        if seconds > 0:
            self._pipeline.publish_held_back()  # readers must not wait for the delay as well
            self._status.state(DELAYED, str(group.gtids))
            if not self._delay(group.records, seconds):
                return False
        if group.with_rows and self.pace.until_group() > 0:
            self._status.state(PACED, str(group.gtids))
            return self.pace.wait(self.pace.until_group, self.stopping.is_set)
        return True

    def _delay(self, records: Records, seconds: float) -> bool:
        """Wait until the records are old enough; return False if stop() came first. Read the clock
        every second, so that the wait ends soon after a wrong clock was corrected."""
        while seconds > 0:
            if self.stopping.wait(min(seconds, _CLOCK_S)):
                return False
            seconds = seconds_until_due(records, self._apply.delay_s)
        return True

    def _observe_changes(self, dispatched: Dispatched) -> None:
        """Correct the planner's estimate by the number of changes in this group, before the next
        group is cut. This costs no time, because one group is read at a time. Do not wait for a
        worker that tries again."""
        if dispatched.begun is None:
            return
        began = time.perf_counter()
        failed = dispatched.begun.exception() is not None
        self.wait_seconds += time.perf_counter() - began
        if failed:  # raised in the group's turn
            return
        changes = dispatched.begun.result().changes
        if changes is not None:
            self._planner.observe(dispatched.group, changes)

    def close(self, error: BaseException | None = None) -> None:
        """Return when all work has ended. ``error``: the error that ended it, for the status."""
        self.stopping.set()  # a group that waits for a full disk waits no longer
        self._pipeline.close()
        ahead = self._pipeline.cuts.tables_ahead().items()
        self._status.stopped(error, {name: self._applied.name_of(at) for name, at in ahead})


_LOOKED_AT = 8
"""recent batches; the slowest of them is the time that the applier allows for the next one"""
_LOOK_S = 0.1


class Pace:
    """The pace of one applier. ``last``: when an earlier run's last group was published."""

    def __init__(
        self,
        apply: Apply,
        last: datetime | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        hourly = apply.max_commits_per_hour
        self._apart = 3600 / hourly if hourly else 0.0
        self._latency, self._clock = apply.max_latency_ms / 1000, clock
        self._took = deque([0.0], _LOOKED_AT)
        self._begun: float | None = None
        if last is not None:
            age = (datetime.now(UTC) - last).total_seconds()
            self._begun = clock() - max(0.0, age)
        self._batch = clock()

    def begin_batch(self) -> None:
        """Record that the stream has delivered the current batch."""
        self._batch = self._clock()

    def end_batch(self) -> None:
        """Record that readers can see the whole batch."""
        self._took.append(self._clock() - self._batch)

    def begin_group(self) -> None:
        self._begun = self._clock()

    def until_group(self) -> float:
        """Return the seconds until the next group may begin."""
        return self._left(self._begun, self._apart)

    def until_batch(self) -> float:
        """Return the seconds until the applier has to look for more changes. A change that arrives
        right after a check is visible by the end of the next batch."""
        gathered = self._left(self._batch, self._latency - max(self._took))
        return max(self.until_group(), gathered)

    def wait(self, left: Callable[[], float], is_stopping: Callable[[], bool]) -> bool:
        """Wait until ``left`` returns 0 seconds. Return False if ``is_stopping`` returned True
        earlier."""
        while (seconds := left()) > 0:
            if is_stopping():
                return False
            time.sleep(min(seconds, _LOOK_S))
        return True

    def _left(self, since: float | None, seconds: float) -> float:
        return 0.0 if since is None else max(0.0, since + seconds - self._clock())
