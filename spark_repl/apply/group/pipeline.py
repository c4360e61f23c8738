"""Pipeline: gives a planned group its slot, has it read, and has it committed in its turn.

The pipeline makes the reader of groups (``group_reader``) and their committer
(``group_committer``), and hands each group from one to the other. The coordinator, which cuts
groups, sees only when the next one may follow.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from threading import Event
from typing import TYPE_CHECKING

from ...errors import CommitOrderError, RowError, SparkReplError, Stopped
from ...gtid import GtidSet
from ...observe.reports.worker_status import STAGING
from ...position import RelayPosition
from ...runtime.threads import Pool
from ...schedule.group import Group, Records, StagedGroup
from .cascading import Cascading
from .commit_order import CommitOrder, StrictOrder
from .cut_publisher import CutPublisher
from .failure_report import FailureReport
from .group_committer import Dispatched, GroupCommitter, RetryingWriter
from .group_reader import GroupReader
from .low_water_mark import LowWaterMark
from .per_table_order import PerTableOrder
from .stager import drop_staged
from .xa_parts import XaParts, keep_with_retries

if TYPE_CHECKING:
    from ...observe.reports.applier_status import ApplierStatus
    from ...relay.xa_branches import Branch, XaGroup
    from ...runtime.retry import Retries
    from ...write.rows.group_writer import GroupWriter
    from ...write.tables.tracking import Tracking
    from ..applied.applied_log import AppliedLog
    from ..applied.quarantine_changes import Fault
    from ..start.resume import ResumePoint
    from ..statements.statements import Statements
    from .commit_order import CommitStrategy
    from .group_reader import PendingRead
    from .stager import Stager

logger = logging.getLogger(__name__)


class Pipeline:
    """Passes a batch's groups from the log into the tables. One thread calls it.

    Call ``begin`` with a batch's records, then ``dispatch`` for its groups one after the other;
    each is committed in its own thread.
    ``mark``: the low-water mark of the target. ``cuts``: publishes cuts. ``reader``, ``writer``:
    read and write groups. ``xa``: the branches. ``retries``: counts all attempts. ``groups_max``:
    how many groups may be dispatched and not yet committed.
    """

    def __init__(
        self,
        applied: AppliedLog,
        tracking: Tracking,
        point: ResumePoint,
        status: ApplierStatus,
        retries: Retries,
        stager: Stager,
        writer: GroupWriter,
        statements: Statements,
    ) -> None:
        """Raise TargetError if bytes of a prepared XA branch are gone, and FencedError if another
        applier owns the target now."""
        self._applied, self._status, self.retries = applied, status, retries
        self._stager, self._catch_up = stager, stager.catch_up
        self.xa = XaParts.of(tracking, point.cut, keep_all=point.takes_in_a_copy)
        self.mark = LowWaterMark(applied, tracking, self._catch_up, point, retries)
        self.cuts = CutPublisher(
            self.mark, applied, tracking, self.xa.store, self._catch_up, point, retries
        )
        self.reader, self.writer = GroupReader(stager, status, retries), writer
        self._order = CommitOrder(status.waits)
        cascading = Cascading(stager, self.cuts)
        rows = RetryingWriter(self.reader, cascading, writer, self.cuts, status, retries)
        self._strategy: CommitStrategy = (
            StrictOrder(self._order, rows.write_group)
            if stager.settings.preserve_commit_order
            else PerTableOrder(self._order, rows.write_part)
        )
        self._committer = GroupCommitter(
            rows, self._strategy, statements, self.cuts, self._order, self.xa, status, retries
        )
        self._failures = FailureReport(applied, tracking.control, self.cuts, status)
        self._faults: list[SparkReplError] = []  # errors that have stopped groups of rows
        self.groups_max = self._strategy.groups_max
        self._entering = Pool(1, thread_name_prefix="staged")
        self._committing = Pool(self.groups_max, thread_name_prefix="land")
        self._branches: Mapping[int, Branch] = {}
        self._dispatched = GtidSet()  # executed, when all that was dispatched is committed

    def publish_held_back(self) -> None:
        """Publish the cuts that were held back. Raise what publishing a cut raises, with the place
        of the last statement."""
        group = self.cuts.held_back
        try:
            self.cuts.publish_held_back()
        except SparkReplError as error:
            raise (self._failures.named(error, group) if group else error) from error

    def begin(self, records: Records) -> tuple[Records, SparkReplError | None]:
        """Begin a batch. Return the records to apply, and the error that follows them, or None."""
        records, self._branches, wrong = self.xa.resolve(
            self._applied, records, self._catch_up.copied, self.retries
        )
        self._dispatched = self.mark.executed
        return records, wrong

    def dispatch(self, group: Group) -> tuple[Dispatched, Future[None]]:
        """Return the dispatched group, and the future of its commit, which raises the errors that
        stop the applier. Raise the error here if a branch that the group leaves prepared can't be
        kept."""
        slot, may_read_next = self._order.dispatch(), Event()
        group = replace(group, slot=slot, executed=self._dispatched)
        if group.has_rows:
            idempotent = self._stager.idempotent(self.mark.executed)
            group = replace(self._stager.share_out(group), idempotent=idempotent)
        self.retries.counts.begin(slot, group.shares, may_read_next.set, self.xa.reread(group))
        group = replace(group, xa=self._enter_branches(group))
        dispatched = Dispatched(group, may_read_next)
        if group.with_rows:
            begun = self.reader.submit(group)
            staged = self._entering.submit(self._enter, begun)
            dispatched = Dispatched(group, may_read_next, begun, staged)
        self._dispatched = self._dispatched.union(group.gtids)  # while the workers read it
        if self._strategy.reads_on:
            may_read_next.set()
        return dispatched, self._committing.submit(self._commit, dispatched)

    def _enter_branches(self, group: Group) -> XaGroup:
        """Return what the group does to XA branches. Keep the branches that it leaves prepared."""
        if self._branches:
            self._status.works(group, STAGING)
        try:
            return keep_with_retries(
                lambda on_keep: self.xa.enter(group.records, self._branches, on_keep),
                group,
                self.retries,
            )
        except BaseException as error:
            self._order.fail(group.slot)
            self.retries.counts.end(group.slot)
            if isinstance(error, SparkReplError):
                raise self._failures.named(error, group) from error
            raise

    def _enter(self, begun: Future[PendingRead]) -> StagedGroup:
        """Wait until a group is read, and enter it into the tables' queues, in the order of the
        log. Raise what ``GroupReader.finish`` raises, and CommitOrderError after a group that can't
        be read."""
        try:
            staged = self.reader.finish(begun.result())
            try:
                self._strategy.enter(staged)
            except BaseException:
                drop_staged(staged)
                raise
        except BaseException:
            self._strategy.refuse()
            raise
        return staged

    def _commit(self, dispatched: Dispatched) -> None:
        group = dispatched.group
        try:
            self._committer.commit(dispatched)
        except CommitOrderError as error:
            logger.warning("%s: %s", group.gtids, error)
            self._status.turned_away(group.shares, error)
            raise
        except SparkReplError as error:
            self._publish_before()
            self._faults += [error] if group.with_rows else []
            self._order.fail(group.slot)
            raise self._failures.named(error, group) from error
        except BaseException as error:
            self._order.fail(group.slot)
            if isinstance(error, Exception) and not isinstance(error, Stopped):
                self._status.failed(group.slot, group.shares, error)
            raise
        finally:
            dispatched.may_read_next.set()
            if self.cuts.held_back is not group:  # else its retries end when its cut is published
                self.retries.counts.end(group.slot)
        self._order.done(group.slot)

    def fault_of(self, error: SparkReplError) -> Fault | None:
        """Return the fault of an error that stopped a group of rows, if its table may go into
        quarantine. A table of a statement may not."""
        if error not in self._faults:
            return None
        return self._stager.quarantining.fault_of(error, self.mark.executed)

    def _publish_before(self) -> None:
        """Publish the cuts of the statements before the failed one."""
        try:
            self.cuts.publish_held_back()
        except (SparkReplError, OSError) as error:  # the next start repeats those statements
            logger.warning("no cut behind %s: %s", self.mark.executed, error)

    def end_by_hand(self) -> None:
        """End the XA branches that the user has decided to end, after everything that is in the
        tables.

        The rows of the n-th branch at one position are committed n bytes after the cut's position,
        so that a crash between two tables is visible. The cut's own position remains the end of a
        transaction. While a table is ahead (after a crash), no position is after all tables, so the
        branches are ended after the next batch. Raise RowError if a branch's rows don't fit.
        """
        self._status.warns(self.xa.old(self._status.xa_age_limit_s))
        for branch in self.xa.waiting():
            executed, at = self.mark.executed, self.cuts.next_by_hand()
            if at is None:
                return
            # After a table has its rows, the user can't take the decision back.
            xa = self.xa.end_by_hand(branch, begun=self.cuts.has_begun(at))
            group = self._stager.share_out(Group.of_branch(branch, at, xa, executed))
            self.retries.counts.begin(group.slot, group.shares, lambda: None)
            try:
                self._committer.end_by_hand(group, at.position)
            except RowError as error:
                raise _by_hand(branch, error) from error
            finally:
                self.retries.counts.end(group.slot)
            logger.warning(
                "XA %s of %s by hand", "COMMIT" if xa.commits else "ROLLBACK", branch.xid
            )

    def phases(self) -> dict[str, float]:
        """Return the seconds of reading (in parallel with commits), and of the writer's phases."""
        return {"stage_s": self._stager.seconds, **self.writer.phases()}

    def close(self) -> None:
        """Return when all work has ended. Remove the staged files."""
        self._committing.shutdown(wait=True, cancel_futures=True)
        self.reader.close()
        self._entering.shutdown(wait=True, cancel_futures=True)
        self._strategy.close()
        self.writer.close()
        self._stager.folder.clean()


def _by_hand(branch: Branch, error: RowError) -> RowError:
    """Return the error of a branch whose rows don't fit. The branch stays prepared, and the user
    can take the decision back."""
    return RowError(
        f"XA COMMIT of {branch.xid} by hand: {error.message}",
        number=error.number,
        position=RelayPosition.unpack(branch.position),
        gtid=branch.gtid,
        table=error.table,
        hint="spark-repl xa rollback ends it without its rows; or correct the rows and start again",
    )
