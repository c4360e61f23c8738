"""Pipeline: a planned group gets its slot, is staged, lands in its turn, and its cut is published.

Slots, XA branches and endings by hand are this room's affair; who cuts groups (``coordinator``)
sees only when one may follow another.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Mapping
from concurrent.futures import Future
from dataclasses import replace
from threading import Event
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ...decode.folding import EveryTable, SomeTables
from ...errors import (
    CommitOrderError,
    RowError,
    SparkReplError,
    Stopped,
)
from ...gtid import GtidSet
from ...observe.reports.worker_status import STAGING
from ...position import RelayPosition
from ...runtime.threads import Pool
from ...schedule.group import XA_PARTS, Group, Records
from .apply_group import Dispatched, Landing
from .commit_order import CommitOrder
from .cut_publisher import CutPublisher
from .failures import Failures
from .group_commit import Bringing
from .low_water_mark import LowWaterMark
from .per_table_order import Lanes
from .staging import Staging
from .strict_order import InOrder
from .xa_parts import XaParts
from .xa_retry import keeping

if TYPE_CHECKING:
    from ...control.table.cut import Cut
    from ...observe.reports.applier_status import ApplierStatus
    from ...runtime.retry import Retries
    from ...schedule.branches import Branch, XaGroup
    from ...write.rows.group_writer import GroupWriter
    from ...write.tables.tracking import Tracking
    from ..log.applied_log import AppliedLog
    from ..log.quarantine_changes import Fault
    from ..start.resume import ResumePoint
    from ..statements.statements import Statements
    from .commit_strategy import TableOrder
    from .stager import Stager

log = logging.getLogger(__name__)
T = TypeVar("T")


class Pipeline:
    """``begin`` a batch's records, then ``dispatch`` its groups one after the other; each lands in
    a thread of its own. ``mark``: where the target stands. One thread's, but for what lands."""

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
        """Raises TargetError when bytes of a prepared XA branch are gone, FencedError when another
        one owns the target now."""
        control, apply = tracking.control, stager.settings
        self._without_history = tracking.without_history
        self._applied, self._control, self._apply = applied, control, apply
        self._status, self._retries = status, retries
        self._stager, self._catch_up = stager, stager.catch_up
        self._xa = XaParts.of(tracking, point.cut, keep_all=point.takes_in_a_copy)
        self.mark = LowWaterMark(applied, tracking, self._catch_up, point, retries)
        self.cuts = CutPublisher(
            self.mark, applied, tracking, self._xa.store, self._catch_up, point, retries
        )
        self._staging = Staging(
            stager, apply, status, retries,
            staged=lambda staged: self._table_order.enter(staged),
            refused=lambda: self._table_order.refuse(),
        )  # fmt: skip
        self._order = CommitOrder(status.waits)
        self._bringing = Bringing(self._staging, writer, self.cuts, status, retries)
        self._table_order = self._ordered(by_commit=apply.preserve_commit_order)
        self._landing = Landing(
            self._bringing,
            self._table_order,
            statements,
            self.cuts,
            self._order,
            self._xa,
            status,
            retries,
        )
        self._failures = Failures(applied, control, self.cuts, status)
        self._faults: list[SparkReplError] = []  # what stopped groups of rows
        self.most = self._table_order.groups_max
        self._threads = Pool(self.most, thread_name_prefix="land")
        self._branches: Mapping[int, Branch] = {}
        self._dispatched = GtidSet()  # executed, when all that was dispatched has landed

    def _ordered(self, *, by_commit: bool) -> TableOrder:
        return InOrder(self._bringing.whole) if by_commit else Lanes(self._bringing.part)

    @property
    def executed(self) -> GtidSet:
        """All that is in the tables."""
        return self.mark.executed

    @property
    def position(self) -> int:
        """Packed end of the last transaction that every table has."""
        return self.mark.position

    @property
    def cut_before(self) -> Cut | None:
        """The last cut."""
        return self.cuts.last_cut

    def behind(self, records: Records) -> Records:
        """The records that lie behind what every table has."""
        return self.mark.after(records)

    def not_there(self, records: Records) -> Records:
        """The records, those made empty that all tables have by other ways."""
        return self.mark.empty_existing(records)

    def publish_held_back(self) -> None:
        """Publishes the cuts that were held back. Raises what publishing a cut does, with the
        place of the last statement."""
        group = self.cuts.held_back
        try:
            self.cuts.publish_held_back()
        except SparkReplError as error:
            raise (self._failures.named(error, group) if group else error) from error

    def ahead(self) -> dict[str, int]:
        """The tables that hold more than the last cut shows -> their packed positions."""
        return self.cuts.tables_ahead()

    def retried(self, work: Callable[[], T]) -> T:
        """The result of what is no group's, tried again as a group is. Raises what ``Retries.run``
        does."""
        return self._retries.run(work)

    def begin(self, records: Records) -> tuple[Records, SparkReplError | None]:
        """A batch: the records that can be applied, and what is wrong behind them."""
        records, self._branches, wrong = self._xa.resolve(
            self._applied, records, self._catch_up.copied, self._retries
        )
        self._dispatched = self.mark.executed
        return records, wrong

    def begin_ahead(self, records: Records) -> None:
        """Has the first groups of what a stream will bring staged, while the stream is started.
        Only where the records are taken as they are in the log."""
        taken = not self._applied.history.renewed and not self._catch_up.copied
        if taken and len(records) and not np.isin(records["kind"], XA_PARTS).any():
            executed = self.mark.executed
            self._staging.begin_ahead(records, executed, self._idempotent(executed))

    def dispatch(self, group: Group) -> tuple[Dispatched, Future[None]]:
        """The group on its way, and its end, which raises what stops the applier. Raises that where
        a branch that it leaves prepared can't be kept."""
        slot, writing = self._order.dispatch(), Event()
        known = replace(
            self._stager.ready(group),
            slot=slot,
            idempotent=self._idempotent(self.mark.executed),
            executed=self._dispatched,
        )
        self._retries.begin(slot, known.shares, writing.set, self._xa.reread(known))
        known = replace(known, xa=self._entered(known))
        self._dispatched = self._dispatched.union(known.gtids)
        dispatched = Dispatched(known, writing)
        if known.with_rows:
            dispatched = Dispatched(known, writing, *self._staging.submit(known))
        if self._table_order.reads_on:
            writing.set()
        return dispatched, self._threads.submit(self._land, dispatched)

    def _entered(self, group: Group) -> XaGroup:
        """What the group does to XA branches; the ones that it leaves prepared are kept."""
        if self._branches:
            self._status.works(group.slot, group.shares, STAGING, str(group.gtids))
        try:
            return keeping(
                lambda told: self._xa.enter(group.records, self._branches, told),
                group,
                self._retries,
            )
        except BaseException as error:
            self._order.fail(group.slot)
            self._retries.end(group.slot)
            if isinstance(error, SparkReplError):
                raise self._failures.named(error, group) from error
            raise

    def _idempotent(self, executed: GtidSet) -> Container[str]:
        copied = self._catch_up.tables(executed)
        strict = SomeTables.of(copied, self._without_history())
        return EveryTable(copied) if self._apply.exec_mode == "idempotent" else strict

    def _land(self, dispatched: Dispatched) -> None:
        group = dispatched.group
        try:
            self._landing.land(dispatched)
        except CommitOrderError as error:
            log.warning("%s: %s", group.gtids, error)
            self._status.turned_away(group.shares, error)
            raise
        except SparkReplError as error:
            self._show_before()
            self._faults += [error] if group.with_rows else []
            self._order.fail(group.slot)
            raise self._failures.named(error, group) from error
        except BaseException as error:
            self._order.fail(group.slot)
            if isinstance(error, Exception) and not isinstance(error, Stopped):
                self._status.failed(group.slot, group.shares, error)
            raise
        finally:
            dispatched.writing.set()
            if self.cuts.held_back is not group:  # else its way ends when its cut is published
                self._retries.end(group.slot)
        self._order.done(group.slot)

    def fault_of(self, error: SparkReplError) -> Fault | None:
        """An error that has stopped a group of rows, if it may go into quarantine with its table: a
        statement's may not."""
        if error not in self._faults:
            return None
        return self._stager.quarantining.fault_of(error, self.mark.executed)

    def _show_before(self) -> None:
        """Publishes the cuts of the statements before the one that failed."""
        try:
            self.cuts.publish_held_back()
        except (SparkReplError, OSError) as unshown:  # the next start does those statements again
            log.warning("no cut behind %s: %s", self.mark.executed, unshown)

    def end_by_hand(self) -> None:
        """Ends the XA branches that somebody has decided about, behind all that is in the tables.

        The rows of the n-th at one place land n bytes behind the cut's position, so that a crash
        between two tables is seen; the cut's own position stays the end of a transaction. While a
        table is ahead (after a crash) there is no place that is behind all: then it is done after
        the next batch. Raises RowError where a branch's rows don't fit.
        """
        self._status.warns(self._xa.old(self._status.xa_age_limit_s))
        for branch in self._xa.waiting():
            executed, at = self.mark.executed, self.cuts.next_by_hand()
            if at is None:
                return
            # Where some tables have its rows it can't be taken back.
            xa = self._xa.end_by_hand(branch, begun=self.cuts.has_begun(at))
            group = self._stager.ready(Group.of_branch(branch, at, xa, executed))
            self._retries.begin(group.slot, group.shares, lambda: None)
            try:
                self._landing.end_by_hand(group, at.position)
            except RowError as error:
                raise _by_hand(branch, error) from error
            finally:
                self._retries.end(group.slot)
            log.warning("XA %s of %s by hand", "COMMIT" if xa.commits else "ROLLBACK", branch.xid)

    def keep_branches(self, keep: bool) -> None:
        """Whether the bytes of XA branches stay that have ended: a copy will need them again."""
        self._xa.keep_ended(keep)

    def phases(self) -> dict[str, float]:
        """Seconds: staging (beside the commits), and the writer's."""
        return self._bringing.phases()

    def close(self) -> None:
        """Returns when nothing is under way any more; removes what is staged."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._staging.close()
        self._table_order.close()
        self._bringing.close()
        self._staging.clean()


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
