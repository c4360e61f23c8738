"""Landing: a group's way from the relay log into the tables, and the cut behind it.

The two phases of WL#3970: a group is *staged* (decoded and folded by the workers, nothing visible),
then written and committed table by table in its turn (``table_order``), then its cut is published.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future
from dataclasses import dataclass, replace
from threading import Event
from typing import TYPE_CHECKING

from ...crash_points import reach
from ...errors import LogError, RowError, SparkReplError
from ...observe.reports.statement_status import StatementRow
from ...observe.reports.worker_status import APPLYING, STAGING
from ...relay.record import Kind
from ...sql.ddl_outcome import DdlOutcome
from .xa_retry import keeping

if TYPE_CHECKING:
    from ...control.table.cut import Cut
    from ...observe.reports.applier_status import ApplierStatus
    from ...runtime.retry import Retries
    from ...schedule.group import Group, StagedGroup
    from ..log.statement_event import Done
    from ..statements.statements import Statements
    from .commit_order import CommitOrder
    from .commit_strategy import TableOrder
    from .cut_publisher import CutPublisher
    from .group_commit import Bringing
    from .reading import Completion
    from .xa_parts import XaParts

log = logging.getLogger(__name__)

# What statements are done again at no cost behind a crash: their cuts may come together.
_SHOWN_LATER = (
    DdlOutcome.NOTHING,
    DdlOutcome.LEFT_OUT,
    DdlOutcome.NAMES,
    DdlOutcome.DEFINITION,
    DdlOutcome.METADATA,
)


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
        bringing: Bringing,
        table_order: TableOrder,
        statements: Statements,
        cuts: CutPublisher,
        order: CommitOrder,
        xa: XaParts,
        status: ApplierStatus,
        retries: Retries,
    ) -> None:
        self._bringing, self._table_order, self._statements = bringing, table_order, statements
        self._cuts, self._order, self._xa = cuts, order, xa
        self._status, self._retries = status, retries

    def land(self, dispatched: Dispatched) -> None:
        """A group's commits and its cut, in its turn.

        Raises CommitOrderError when one before it failed, RowError, DecodeError, LogError and
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
        cut = self._cuts.cut_after(group)
        record = group.records[0]
        reach("before_statement")
        began = time.perf_counter()
        done = self._retries.run(lambda: self._statements.apply(record, cut), slot=group.slot)
        self._say_done(done, str(group.gtids), time.perf_counter() - began)
        reach("after_statement")
        self._status.count(statements=1)
        self._bringing.tend(done.names)
        if record["kind"] == Kind.DDL_ROWS:
            self._bringing.count(self._bringing.write(group.of_rows()))
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
                self._bringing.drop(staged)
        except (RowError, LogError) as fault:
            self._order.wait(group.slot)
            self._land_prefix(group, fault)
            raise
        self._bringing.count(staged)
        self._publish(group, self._cuts.cut_after(group), already=staged.already)

    def _bring(self, dispatched: Dispatched, staged: StagedGroup) -> None:
        """Into the tables, in the group's turn."""
        group = dispatched.group
        reach("staged")
        self._table_order.bring(
            staged,
            turn=lambda: self._order.wait(group.slot, ends_branch=bool(group.xa.ended)),
            begins=dispatched.writing.set,
        )

    def _land_prefix(self, group: Group, fault: SparkReplError) -> None:
        """Lands what stands before the transaction that failed: the committed set is a prefix."""
        count = group.count_before(fault.position)
        if not count:
            return
        xa = keeping(lambda told: self._xa.prefix(group.xa, count, told), group, self._retries)
        part = group.first(count, xa)
        try:
            written = self._bringing.write(part)
        except RowError as earlier:  # one that the later change of its row had hidden
            self._land_prefix(group, earlier)
            raise
        self._bringing.count(written)
        self._publish(part, self._cuts.cut_after(part), already=written.already)

    def end_by_hand(self, group: Group, position: int) -> None:
        """Commits or rolls back the branch of a group that is in no log: its rows land behind the
        cut at ``position``. Nothing else may be under way. Raises RowError."""
        if group.xa.commits:
            self._bringing.count(self._bringing.write(group))
        cut = replace(self._cuts.cut_after(group), position=position)
        self._publish(group, cut, transactions=0)

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
            transactions = self._cuts.mark.count_new(group)
        with self._table_order.standstill() as still:
            self._cuts.mark.move_past(group, cut.position)
            is_cut = self._cuts.publish(group, cut, transactions, still=still, more=more)
        self._status.count(
            transactions=transactions, groups=1, already=already, waves=group.waves, cuts=is_cut
        )
        self._status.landed(group.records["commit_time"], is_cut=is_cut)
        self._status.applied(group.slot, group.shares, cut.position)
        _say_group(group, cut, transactions, is_cut=is_cut)

    def _says(self, group: Group, state: str) -> None:
        self._status.works(group.slot, group.shares, state, str(group.gtids))
