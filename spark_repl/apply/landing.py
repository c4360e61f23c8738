"""Landing: a group's way from the relay log into the tables, and the cut behind it.

The two phases of WL#3970: a group is *staged* (decoded and folded by the workers, nothing visible),
then written and committed table by table in its turn (``commit_order``), then its cut is published.
Without commit order each table goes on by itself (``lanes``), and only the low-water mark and the
cuts keep the order.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass, replace
from threading import Event
from typing import TYPE_CHECKING

from ..crash_points import reach
from ..ddl.way import Way
from ..errors import GivenUpError, LogError, SparkReplError
from ..observe.statement_status import StatementRow
from ..observe.worker_status import APPLYING, STAGING
from ..relay.record import Kind
from ..runtime.retry import Retries, disk_full, temporary
from ..write.row_fault import RowFault
from .lanes import Lanes
from .restaging import Restaging

if TYPE_CHECKING:
    from ..control.cut import Cut
    from ..observe.applier_status import ApplierStatus
    from ..schedule.group import Group, StagedGroup
    from ..write.group_writer import GroupWriter
    from .commit_order import CommitOrder
    from .logged import Done
    from .low_water_mark import LowWaterMark
    from .reading import Completion
    from .staging import Staging
    from .statements import Statements
    from .xa_parts import XaParts

log = logging.getLogger(__name__)

# What statements are done again at no cost behind a crash: their cuts may come together.
_SHOWN_LATER = (Way.NOTHING, Way.NAMES, Way.DEFINITION, Way.METADATA)


def _nothing() -> None:
    """Nobody has to be told."""


@dataclass(frozen=True)
class Dispatched:
    """A group on its way. ``begun``: each worker has tried once to read it, ``staged``: what they
    make of it; None of a statement. ``writing``: set when the next group may be read: its files
    begin to be written, or never will be, or a worker waits before it tries again."""

    group: Group
    writing: Event
    begun: Future[Completion] | None = None
    staged: Future[StagedGroup] | None = None


def _say_group(group: Group, cut: Cut, transactions: int, *, is_cut: bool) -> None:
    """The one line of a group at level INFO, with its end here and on the source."""
    if not log.isEnabledFor(logging.INFO):
        return
    source = cut.source
    places = {
        "relay_position": str(source.get("relay", "")),
        "source_position": f"{source['file']}:{source['position']}" if source.get("file") else "",
    }
    log.info(
        "applied %d transactions, %s: relay log %s, source %s%s",
        transactions, group.gtids, places["relay_position"],
        places["source_position"] or "not known", ", shown by a cut" if is_cut else "",
        extra={
            **places, "gtids": str(group.gtids), "transactions": transactions, "is_cut": is_cut,
            "slot": group.slot,
        },
    )  # fmt: skip


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
        self._cascading = staging.cascading(mark)
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
        began = time.perf_counter()
        done = self._retries.run(lambda: self._statements.apply(record, cut), slot=group.slot)
        self._say_done(done, str(group.gtids), time.perf_counter() - began)
        reach("after_statement")
        self._status.count(statements=1)
        self._writer.tend(done.names)
        if record["kind"] == Kind.DDL_ROWS:
            self._count(self._write(group.of_rows()))
        self._publish(group, cut, more=group.in_a_row and done.way in _SHOWN_LATER)

    def _say_done(self, done: Done, gtid: str, seconds: float) -> None:
        of = f" {done.tables}" if done.tables else ""
        log.info("%s%s: %s, %.3f s: %s", gtid, of, done.way, seconds, done.text)
        row = StatementRow(gtid, str(done.way), done.tables, round(seconds, 3), done.text)
        self._status.statement(row)

    def _land_rows(self, dispatched: Dispatched, staging: Future[StagedGroup]) -> None:
        group = dispatched.group
        try:
            staged = staging.result()
            try:
                self._bring(dispatched, staged)
            finally:
                self._staging.drop(staged)
        except (RowFault, LogError) as fault:
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
        staged where it isn't yet, and anew where an attempt failed temporarily, by the workers
        whose changes a table lacks. Returns what was written. ``begins``, ``checked``: see
        ``GroupWriter.write``.
        """
        parts = Restaging(self._staging, group, staged)

        def attempt() -> StagedGroup:
            whole = parts.all()
            part = whole.of_table(table) if table else whole
            self._says(group, APPLYING)
            try:
                with self._cascading.followed(part) as followed:
                    cut = self._mark.cut(group)
                    self._writer.write(followed, cut, begins=begins, checked=checked)
            except Exception as error:
                if temporary(error):
                    parts.lose(self._mark.lacking(part.tables, group.end))
                elif disk_full(error):
                    parts.drop()
                raise
            return whole

        try:
            return self._retries.run(
                attempt, slot=group.slot, failed=lambda: parts.lost, lane=table or ""
            )
        except GivenUpError as error:
            lacking = self._mark.lacking([table] if table else parts.tables, group.end)
            error.at(table=next(iter(lacking), None))
            raise
        finally:
            parts.close()

    def _land_prefix(self, group: Group, fault: SparkReplError) -> None:
        """Lands what stands before the transaction that failed: the committed set is a prefix."""
        count = group.count_before(fault.position)
        if not count:
            return
        xa = self._retries.run(lambda: self._xa.prefix(group.xa, count), slot=group.slot)
        part = group.first(count, xa)
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
        """A group is in its tables; what tables in quarantine would have of it is kept."""
        self._retries.run(lambda: self._staging.keep(staged), slot=staged.group.slot)
        self._staging.learn(staged)
        self._status.task_retries(self._staging.task_retries)
        for part in staged.by_worker:
            self._status.filtered(part.decided, part.filtered)
        zero_dates = sum(part.zero_dates for part in staged.by_worker)
        self._status.count(row_changes=staged.changes, zero_dates=zero_dates)
        self._status.changed(staged.changes_by_table, self._writer.seconds)

    def _publish(
        self,
        group: Group,
        cut: Cut,
        *,
        already: int = 0,
        transactions: int | None = None,
        more: bool = False,
    ) -> None:
        if transactions is None:
            transactions = self._mark.count(group)
        with self._lanes.standstill() if self._lanes else nullcontext(True) as still:
            is_cut = self._mark.advance(group, cut, transactions, still=still, more=more)
        self._status.count(
            transactions=transactions, groups=1, already=already, waves=group.waves, cuts=is_cut
        )
        self._status.landed(group.records["commit_time"], is_cut=is_cut)
        self._status.applied(group.slot, group.shares, cut.position)
        _say_group(group, cut, transactions, is_cut=is_cut)

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
