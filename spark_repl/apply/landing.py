"""Landing: a group's way from the relay log into the tables, and the cut behind it.

The two phases of WL#3970: a group is *staged* (decoded and folded by the workers, nothing visible),
then written and committed table by table in its turn (apply/commit_order), then its cut is
published. Without commit order each table goes on by itself (lanes), and only the low-water mark
and the cuts keep the order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import numpy as np

from ..config import Config
from ..control.control import Cut
from ..control.copies import CatchUp
from ..crash_points import reach
from ..decode.stage import Staged
from ..errors import CommitOrderError, DecodeError, LogError, SparkReplError, StatementError
from ..gtid import GtidSet
from ..observe.applier_status import ApplierStatus, Counters
from ..observe.worker_status import APPLYING, STAGING
from ..relay.index import Kind, holding
from ..runtime.retry import Retries, disk_full, temporary
from ..runtime.workers import Workers
from ..schedule.stops import left_out
from ..write.group_writer import GroupWriter, RowFault
from ..write.tracking import Tracking
from .commit_order import CommitOrder
from .head_start import HeadStart
from .lanes import Lanes, of_tables
from .low_water_mark import LowWaterMark, cut_behind
from .plan import Group, Log, changed, count_before, placed
from .stager import Stager
from .statements import Statements
from .xa_parts import XaParts

log = logging.getLogger(__name__)


class Landing:
    """``stage`` and ``land`` may run side by side for several groups, each in a thread of its own.

    ``executed``, ``position``, ``by_hand``: where the target stands. ``before``: transactions that
    another log brought; ``replayed_to``: up to there only copied tables are behind.
    """

    def __init__(
        self,
        config: Config,
        log: Log,
        tracking: Tracking,
        workers: Workers,
        executed: GtidSet,
        position: int,
        by_hand: int,
        *,
        xa: XaParts,
        catch_up: CatchUp,
        counters: Counters,
        status: ApplierStatus,
        retries: Retries,
        on_group: Callable[[Counters, int], None],
        replayed_to: int,
    ) -> None:
        self.log, self.tracking, self.workers, self.xa = log, tracking, workers, xa
        self.catch_up, self.counters, self.status = catch_up, counters, status
        self.retries, self.on_group = retries, on_group
        self.replayed_to = replayed_to
        self.before = executed if log.history.renewed else GtidSet()
        self.mark = LowWaterMark(
            tracking, xa.store, catch_up, executed, position, by_hand, self._publish_cut
        )
        self.order = CommitOrder(status.waits)
        self.writer = GroupWriter(tracking, workers, config)
        self.stager = Stager(config, tracking, workers)
        self.head_start = HeadStart(self._read, self.stager, config.apply)
        self._lanes = None if config.apply.preserve_commit_order else Lanes(self._write_part)
        self._statements = Statements(tracking)

    def _stage(self, group: Group) -> list[Staged]:
        found = self.head_start.take(group)
        if found is None:
            self.stager.share_out(group)
        self._says(group, STAGING)
        staged = self._read(group) if found is None else found
        self.stager.check_cascades(group, staged)
        return staged

    def _read(self, group: Group) -> list[Staged]:
        return self.stager.stage(
            group, self.log.relay, self.log.base, self.catch_up, group.executed
        )

    def stage(self, group: Group) -> list[Staged]:
        """Stages the group; without commit order its tables may begin to write it then."""
        try:
            staged = self.retries.run(lambda: self._stage(group), slot=group.slot)
        except BaseException:
            if self._lanes:
                self._lanes.refuse()
            raise
        if self._lanes:
            self._lanes.enter(group, staged)
        return staged

    def land(self, group: Group) -> None:
        """A group's commits and its cut, in its turn. Raises what stops the applier."""
        try:
            if group.with_rows:
                self._rows(group)
            else:
                self._statement(group)
        except CommitOrderError as error:
            log.warning("%s: %s", group.gtids, error)
            self.status.failed(group.shares, error)
            raise
        except SparkReplError as error:
            self.order.fail(group.slot)
            raise self._place(error, group) from error
        except BaseException:
            self.order.fail(group.slot)
            raise
        finally:
            group.writing.set()
        self.order.done(group.slot)

    def _statement(self, group: Group) -> None:
        self._says(group, STAGING)
        self.order.wait(group.slot)
        self._says(group, APPLYING)
        cut = self.cut(group)
        kind = Kind(int(group.records["kind"][0]))
        reach("before_statement")
        self.retries.run(
            lambda: self._statements.apply(
                group.records[0], kind, cut, self.log.relay, self.log.base
            ),
            slot=group.slot,
        )
        reach("after_statement")
        self.counters.statements += 1
        self.publish(group, cut)

    def _rows(self, group: Group) -> None:
        try:
            assert group.staged is not None
            staged = group.staged.result()
            reach("staged")
            if self._lanes:
                group.writing.set()
                self._lanes.finish(group)
            self.order.wait(group.slot, ends_branch=bool(group.xa.ended))
            if not self._lanes:
                self.retries.run(lambda: self.write(group), slot=group.slot)
        except (RowFault, DecodeError, LogError) as fault:
            self.order.wait(group.slot)
            self._prefix(group, fault)
            raise
        self.count(staged)
        self.stager.drop(group)
        self.publish(group, self.cut(group))

    def _write_part(self, part: Group, meets: Callable[[], None]) -> None:
        """A lane's work: one table's part of a group."""
        try:
            self.retries.run(lambda: self.write(part, meets), slot=part.slot)
        finally:
            self.stager.drop(part)

    def write(self, group: Group, checked: Callable[[], None] = lambda: None) -> list[Staged]:
        """``checked`` is called when everything fits, before the first commit."""
        if group.staged is None:  # a retry begins with the relay log again
            staged = self._stage(group)
        else:
            staged = group.staged.result()
        if group.tables is not None:
            staged = of_tables(staged, group.tables)
        self._says(group, APPLYING)
        try:
            cut = self.cut(group)
            executed = str(group.executed)
            before = replace(cut, position=group.start, gtid_executed=executed, group="")
            self.writer.write(
                staged, before, cut, idempotent=group.idempotent, begins=group.writing.set,
                checked=checked,
            )  # fmt: skip
        except Exception as error:
            if temporary(error) or disk_full(error):
                group.staged = None
            raise
        return staged

    def count(self, staged: list[Staged]) -> None:
        self.stager.learn(staged)
        self.counters.task_retries = self.status.task_retries = self.workers.task_retries
        self.counters.row_changes += changed(staged)
        self.counters.zero_dates += sum(part.zero_dates for part in staged)

    def _prefix(self, group: Group, fault: SparkReplError) -> None:
        """Lands what stands before the transaction that failed: the committed set is a prefix."""
        count = count_before(group.records, fault.position)
        if not count:
            return
        part = replace(
            group, records=group.records[:count], wave=group.wave[:count],
            worker=group.worker[:count], staged=None, folder=None,
        )  # fmt: skip
        part.xa = self.retries.run(lambda: self.xa.prefix(group.xa, count))
        try:
            self.count(self.retries.run(lambda: self.write(part), slot=part.slot))
        except RowFault as earlier:  # one that the later change of its row had hidden
            self._prefix(group, earlier)
            raise
        self.publish(part, self.cut(part))

    def cut(self, group: Group) -> Cut:
        return cut_behind(group, self.log.relay, self.log.history)

    def publish(self, group: Group, cut: Cut, transactions: int | None = None) -> None:
        if transactions is None:
            records = group.records
            had = left_out(records, self.before)[1]
            had += int(np.count_nonzero(records["end"] <= self.replayed_to))
            transactions = len(records) - had
        with self._lanes.standstill() if self._lanes else nullcontext(True) as still:
            is_cut = self.mark.advance(group, cut, transactions, still=still)
        counted = self.counters
        counted.transactions += transactions
        counted.groups += 1
        counted.already += group.already
        counted.waves += len(np.unique(group.wave))
        counted.cuts += is_cut
        self.status.applied(group.slot, group.shares)
        self.on_group(counted, cut.position)

    def _publish_cut(self, cut: Cut) -> None:
        if self.replayed_to:  # it shows the copy: no earlier one is needed again
            self.xa.store.keep_all, self.replayed_to = False, 0
        self.retries.run(lambda: self.tracking.control.publish(cut))
        self.catch_up.cut_published(self.tracking.control)

    def _place(self, error: SparkReplError, group: Group) -> SparkReplError:
        """Names the transaction: its GTID, file and position; or the owner that fences us off."""
        workers = list(group.shares)
        single = len(group.records) == 1 or error.position is not None
        if isinstance(error, (RowFault, DecodeError, LogError, StatementError)) and single:
            at = holding(group.records, error.position)
            placed(error, self.log.relay, self.log.base, group.records[at])
            workers = [int(group.worker[at])]
        error = self.tracking.control.named(error)
        self.status.failed(workers, error)
        return error

    def _says(self, group: Group, state: str) -> None:
        self.status.works(group.slot, group.shares, state, str(group.gtids))

    def phases(self) -> dict[str, float]:
        """Seconds: staging, and the writer's."""
        return {"stage_s": self.stager.seconds, **self.writer.phases()}

    def close(self) -> None:
        """Ends the lanes and the upkeep that is under way; removes what is staged."""
        if self._lanes:
            self._lanes.close()
        self.writer.close()
        self.stager.clean()
