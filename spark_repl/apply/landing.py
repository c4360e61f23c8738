"""Landing: a group's way from the relay log into the tables, and the cut behind it.

The two phases of WL#3970: a group is *staged* (decoded and folded by the workers, nothing visible),
then written and committed table by table in its turn (``commit_order``), then its cut is published.
Without commit order each table goes on by itself (``lanes``), and only the low-water mark and the
cuts keep the order.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from threading import Event
from typing import TYPE_CHECKING

from ..crash_points import reach
from ..errors import DecodeError, LogError, SparkReplError
from ..observe.worker_status import APPLYING, STAGING
from ..relay.record import Kind
from ..runtime.retry import Retries, disk_full, temporary
from ..write.row_fault import RowFault
from .lanes import Lanes

if TYPE_CHECKING:
    from ..control.cut import Cut
    from ..observe.applier_status import ApplierStatus
    from ..schedule.group import Group, StagedGroup
    from ..write.group_writer import GroupWriter
    from .commit_order import CommitOrder
    from .low_water_mark import LowWaterMark
    from .staging import Staging
    from .statements import Statements
    from .xa_parts import XaParts


def _nothing() -> None:
    """Nobody has to be told."""


@dataclass(frozen=True)
class Dispatched:
    """A group on its way. ``staged``: what the workers make of it, None of a statement;
    ``writing``: set when its files begin to be written, or never will be."""

    group: Group
    staged: Future[StagedGroup] | None = None
    writing: Event = field(default_factory=Event)


class Landing:
    """``land`` may run side by side for several groups, each in a thread of its own."""

    def __init__(
        self,
        staging: Staging,
        writer: GroupWriter,
        statements: Statements,
        mark: LowWaterMark,
        order: CommitOrder,
        xa: XaParts,
        status: ApplierStatus,
        retries: Retries,
    ) -> None:
        self._staging, self._writer, self._statements = staging, writer, statements
        self._mark, self._order, self._xa = mark, order, xa
        self._status, self._retries = status, retries
        self._lanes = None if order.preserved else Lanes(self._write_part)

    def entered(self, staged: StagedGroup) -> None:
        """A group was read: without commit order its tables may begin to write it. In log order."""
        if self._lanes:
            self._lanes.enter(staged)

    def refuse(self) -> None:
        """A group can't be read, so none behind it may enter."""
        if self._lanes:
            self._lanes.refuse()

    def land(self, dispatched: Dispatched) -> None:
        """A group's commits and its cut, in its turn.

        Raises CommitOrderError when one before it failed, RowFault, DecodeError, LogError and
        StatementError for what can't be applied, TargetError when all attempts were in vain. What
        stands before the transaction that failed has landed then.
        """
        if dispatched.staged is None:
            self._land_statement(dispatched.group)
        else:
            self._land_rows(dispatched, dispatched.staged)

    def _land_statement(self, group: Group) -> None:
        self._says(group, STAGING)
        self._order.wait(group.slot)
        self._says(group, APPLYING)
        cut = self._mark.cut(group)
        record = group.records[0]
        reach("before_statement")
        self._retries.run(lambda: self._statements.apply(record, cut), slot=group.slot)
        reach("after_statement")
        self._status.count(statements=1)
        if record["kind"] == Kind.DDL_ROWS:
            self._count(self._write(group.of_rows()))
        self._publish(group, cut)

    def _land_rows(self, dispatched: Dispatched, staging: Future[StagedGroup]) -> None:
        group = dispatched.group
        try:
            staged = staging.result()
            try:
                self._bring(dispatched, staged)
            finally:
                self._staging.drop(staged)
        except (RowFault, DecodeError, LogError) as fault:
            self._order.wait(group.slot)
            self._land_prefix(group, fault)
            raise
        self._count(staged)
        self._publish(group, self._mark.cut(group), already=staged.already)

    def _bring(self, dispatched: Dispatched, staged: StagedGroup) -> None:
        """Into the tables, in the group's turn: that of its first commit, or with lanes that of its
        cut."""
        group = dispatched.group
        reach("staged")
        if self._lanes:
            dispatched.writing.set()
            self._lanes.finish(group)
        self._order.wait(group.slot, ends_branch=bool(group.xa.ended))
        if not self._lanes:
            self._write(group, staged, begins=dispatched.writing.set)

    def _write_part(self, part: StagedGroup, meets: Callable[[], None]) -> None:
        """A lane's work: one table's part of a group."""
        self._write(part.group, part, checked=meets, table=part.tables[0])

    def _write(
        self,
        group: Group,
        staged: StagedGroup | None = None,
        *,
        table: str | None = None,
        begins: Callable[[], None] = _nothing,
        checked: Callable[[], None] = _nothing,
    ) -> StagedGroup:
        """Brings the group, or one ``table``'s part of it, into the tables, retries and all; it is
        staged (anew) where it isn't yet, or an attempt failed temporarily; what is staged here is
        dropped here. Returns what was written. ``begins``, ``checked``: see ``GroupWriter.write``.
        """
        known = staged

        def attempt() -> StagedGroup:
            nonlocal known
            known = whole = known or self._staging.again(group)
            part = whole.of_table(table) if table else whole
            self._says(group, APPLYING)
            try:
                self._writer.write(part, self._mark.cut(group), begins=begins, checked=checked)
            except Exception as error:
                if temporary(error) or disk_full(error):
                    self._staging.drop(whole)
                    known = None
                raise
            return whole

        try:
            return self._retries.run(attempt, slot=group.slot)
        finally:
            if known is not None and known is not staged:
                self._staging.drop(known)

    def _land_prefix(self, group: Group, fault: SparkReplError) -> None:
        """Lands what stands before the transaction that failed: the committed set is a prefix."""
        count = group.count_before(fault.position)
        if not count:
            return
        part = group.first(count, self._retries.run(lambda: self._xa.prefix(group.xa, count)))
        try:
            written = self._write(part)
        except RowFault as earlier:  # one that the later change of its row had hidden
            self._land_prefix(group, earlier)
            raise
        self._count(written)
        self._publish(part, self._mark.cut(part), already=written.already)

    def end_by_hand(self, group: Group, position: int) -> None:
        """Commits or rolls back the branch of a group that is in no log: its rows land behind the
        cut at ``position``. Nothing else may be under way. Raises RowFault."""
        if group.xa.commits:
            self._count(self._write(group))
        cut = replace(self._mark.cut(group), position=position)
        self._publish(group, cut, transactions=0)

    def _count(self, staged: StagedGroup) -> None:
        self._staging.learn(staged)
        self._status.task_retries(self._staging.task_retries)
        zero_dates = sum(part.zero_dates for part in staged.by_worker)
        self._status.count(row_changes=staged.changes, zero_dates=zero_dates)

    def _publish(
        self, group: Group, cut: Cut, *, already: int = 0, transactions: int | None = None
    ) -> None:
        if transactions is None:
            transactions = self._mark.count(group)
        with self._lanes.standstill() if self._lanes else nullcontext(True) as still:
            is_cut = self._mark.advance(group, cut, transactions, still=still)
        self._status.count(
            transactions=transactions, groups=1, already=already, waves=group.waves, cuts=is_cut
        )
        self._status.applied(group.slot, group.shares, cut.position)

    def _says(self, group: Group, state: str) -> None:
        self._status.works(group.slot, group.shares, state, str(group.gtids))

    def phases(self) -> dict[str, float]:
        """Seconds: staging, and the writer's."""
        return {"stage_s": self._staging.seconds, **self._writer.phases()}

    def close(self) -> None:
        """Ends the lanes and the upkeep that is under way."""
        if self._lanes:
            self._lanes.close()
        self._writer.close()
