"""GroupCommitter: commits a group to its tables in its turn, and has its cut published.

Two phases (WL#3970): first the workers *stage* a group; they decode and fold it, and no reader sees
it. Then this module writes and commits the group, table by table, in its turn (``commit_order``).
Afterwards the low-water mark moves and the cut is published.

``RetryingWriter`` writes rows. After a temporary failure, the workers whose changes a table lacks
read the relay log again. No committed change is written twice.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from threading import Event
from typing import TYPE_CHECKING

from ...crash_points import reach
from ...errors import GivenUpError, LogError, RowError, SparkReplError
from ...observe.reports.statement_status import StatementRow
from ...observe.reports.worker_status import APPLYING, STAGING
from ...relay.record import Kind
from ...runtime.retry import Retries, disk_full, temporary
from ...sql.ddl_outcome import DdlOutcome
from .stager import drop_staged
from .xa_parts import keep_with_retries

if TYPE_CHECKING:
    from ...control.table.cut import Cut
    from ...observe.reports.applier_status import ApplierStatus
    from ...schedule.group import Group, StagedGroup
    from ...write.rows.group_writer import GroupWriter
    from ..applied.statement_event import StatementResult
    from ..statements.statements import Statements
    from .cascading import Cascading
    from .commit_order import CommitOrder, CommitStrategy
    from .cut_publisher import CutPublisher
    from .group_reader import GroupReader, PendingRead
    from .xa_parts import XaParts

logger = logging.getLogger(__name__)

# Statements that cost nothing to repeat after a crash: their cuts may be written together.
_HELD_BACK = (
    DdlOutcome.NOTHING,
    DdlOutcome.LEFT_OUT,
    DdlOutcome.NAMES,
    DdlOutcome.DEFINITION,
    DdlOutcome.METADATA,
)


@dataclass(frozen=True)
class Dispatched:
    """A group between its dispatch and its cut.

    ``begun``: the future of the first read attempt by each worker. ``staged``: the future of the
    group after it is read. Both are None for a statement. ``may_read_next`` is set when the next
    group may be read: when this group's files begin to be written, when it is clear that they never
    will be, or when a worker waits before it retries.
    """

    group: Group
    may_read_next: Event
    begun: Future[PendingRead] | None = None
    staged: Future[StagedGroup] | None = None


class GroupCommitter:
    """Commits groups. ``commit`` may run for several groups in parallel, each in its own thread."""

    def __init__(
        self,
        rows: RetryingWriter,
        strategy: CommitStrategy,
        statements: Statements,
        cuts: CutPublisher,
        order: CommitOrder,
        xa: XaParts,
        status: ApplierStatus,
        retries: Retries,
    ) -> None:
        self._rows, self._strategy, self._statements = rows, strategy, statements
        self._cuts, self._order, self._xa = cuts, order, xa
        self._status, self._retries = status, retries

    def commit(self, dispatched: Dispatched) -> None:
        """Commit a group and publish its cut, in its turn.

        Raise CommitOrderError if an earlier group failed. Raise RowError, DecodeError, LogError or
        StatementError if a change can't be applied, and TargetError after all attempts have failed.
        Then everything before the failed transaction is committed.
        """
        if dispatched.staged is None:
            self._commit_statement(dispatched.group)
        else:
            self._commit_rows(dispatched, dispatched.staged)

    def _commit_statement(self, group: Group) -> None:
        self._status.works(group, STAGING)
        self._order.wait(group.slot)
        self._status.works(group, APPLYING)
        cut = self._cuts.cut_after(group)
        record = group.records[0]
        reach("before_statement")
        began = time.perf_counter()
        result = self._retries.run(lambda: self._statements.apply(record, cut), slot=group.slot)
        self._log_statement(result, str(group.gtids), time.perf_counter() - began)
        reach("after_statement")
        self._status.count(statements=1)
        self._rows.writer.schedule_upkeep(result.names)
        if record["kind"] == Kind.DDL_ROWS:  # CREATE TABLE ... SELECT, which logs rows as well
            self._rows.count(self._rows.write(group.of_rows()))
        self._publish(group, cut, more=group.in_a_row and result.way in _HELD_BACK)

    def _log_statement(self, result: StatementResult, gtid: str, seconds: float) -> None:
        of = f" {result.tables}" if result.tables else ""
        logger.info("%s%s: %s, %.3f s: %s", gtid, of, result.way, seconds, result.text)
        row = StatementRow(gtid, str(result.way), result.tables, round(seconds, 3), result.text)
        self._status.statement(row)

    def _commit_rows(self, dispatched: Dispatched, reading: Future[StagedGroup]) -> None:
        group = dispatched.group
        try:
            staged = reading.result()
            try:
                reach("staged")
                self._strategy.write(staged, dispatched.may_read_next.set)
            finally:
                drop_staged(staged)
        except (RowError, LogError) as fault:
            # Earlier groups first: only after them is the group's beginning a prefix of the log.
            self._order.wait(group.slot)
            self._commit_prefix(group, fault)
            raise
        self._rows.count(staged)
        self._publish(group, self._cuts.cut_after(group), already=staged.already)

    def _commit_prefix(self, group: Group, fault: SparkReplError) -> None:
        """Commit everything before the failed transaction, so that the committed transactions are a
        prefix of the log."""
        count = group.count_before(fault.position)
        if not count:
            return
        xa = keep_with_retries(
            lambda on_keep: self._xa.prefix(group.xa, count, on_keep), group, self._retries
        )
        prefix = group.first(count, xa)
        try:
            written = self._rows.write(prefix)
        except RowError as earlier:  # a later change of its row hid this error
            self._commit_prefix(group, earlier)
            raise
        self._rows.count(written)
        self._publish(prefix, self._cuts.cut_after(prefix), already=written.already)

    def end_by_hand(self, group: Group, position: int) -> None:
        """Commit or roll back an XA branch whose end is not in the log: its rows are committed
        after the cut at ``position``. Call it only while nothing else is in progress. Raise
        RowError."""
        if group.xa.commits:
            self._rows.count(self._rows.write(group))
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
        """Move the low-water mark past the group, and publish the cut after it, if there is one."""
        mark = self._cuts.mark
        if transactions is None:
            transactions = mark.count_new(group)
        # A cut needs tables of one state of the source, so no later group may write meanwhile.
        with self._strategy.standstill() as still:
            mark.move_past(group, cut.position)
            is_cut = self._cuts.publish(group, cut, transactions, still=still, more=more)
        self._status.count(
            transactions=transactions, groups=1, already=already, waves=group.waves, cuts=is_cut
        )
        self._status.landed(group.columns["commit_time"], is_cut=is_cut)
        self._status.applied(group.slot, group.shares, cut.position)
        _log_group(group, cut, transactions, is_cut=is_cut)


def _log_group(group: Group, cut: Cut, transactions: int, *, is_cut: bool) -> None:
    """Log a group in one line at level INFO, with its end in the relay log and on the source."""
    if not logger.isEnabledFor(logging.INFO):
        return
    source = cut.source
    places = {
        "relay_position": str(source.get("relay", "")),
        "source_position": f"{source['file']}:{source['position']}" if source.get("file") else "",
    }
    logger.info(
        "applied %d transactions, %s: relay log %s, source %s%s",
        transactions, group.gtids, places["relay_position"],
        places["source_position"] or "not known", ", shown by a cut" if is_cut else "",
        extra={
            **places, "gtids": str(group.gtids), "transactions": transactions, "is_cut": is_cut,
            "slot": group.slot,
        },
    )  # fmt: skip


def _nothing() -> None:
    """Stand for a caller that wants no call."""


class RetryingWriter:
    """Writes the rows of groups, or one table's part of them, and retries after a temporary
    failure. ``write`` may run in parallel for several groups, and for several tables of one group.
    """

    def __init__(
        self,
        reader: GroupReader,
        cascading: Cascading,
        writer: GroupWriter,
        cuts: CutPublisher,
        status: ApplierStatus,
        retries: Retries,
    ) -> None:
        self._reader, self._cascading, self.writer = reader, cascading, writer
        self._cuts, self._status, self._retries = cuts, status, retries

    def write_group(self, staged: StagedGroup, begins: Callable[[], None]) -> None:
        """Write all of a group (``StrictOrder``)."""
        self.write(staged.group, staged, begins=begins)

    def write_part(self, part: StagedGroup, meet: Callable[[], None]) -> None:
        """Write one table's part of a group (``PerTableOrder``)."""
        self.write(part.group, part, checked=meet, table=part.tables[0])

    def write(
        self,
        group: Group,
        staged: StagedGroup | None = None,
        *,
        table: str | None = None,
        begins: Callable[[], None] = _nothing,
        checked: Callable[[], None] = _nothing,
    ) -> StagedGroup:
        """Write the group, or one ``table``'s part of it, to the tables. Return the written group.

        Without ``staged`` the group is read first. After a temporary failure, the workers whose
        changes a table lacks read it again. ``begins``, ``checked``: see ``GroupWriter.write``.
        """
        parts = StagedParts(self._reader, group, staged)

        def attempt() -> StagedGroup:
            everything = parts.complete()
            part = everything.of_table(table) if table else everything
            self._status.works(group, APPLYING)
            try:
                with self._cascading.followed(part) as followed:
                    cut = self._cuts.cut_after(group)
                    passed = self.writer.write(followed, cut, begins=begins, checked=checked)
                    self._status.filtered({}, {}, passed)
            except Exception as error:
                if temporary(error):
                    parts.lose(self._cuts.mark.lacking(part.tables, group.end))
                elif disk_full(error):
                    parts.drop()
                raise
            return everything

        try:
            return self._retries.run(
                attempt, slot=group.slot, failed=lambda: parts.lost, lane=table or ""
            )
        except GivenUpError as error:
            tables = [table] if table else parts.tables
            error.at(table=next(iter(self._cuts.mark.lacking(tables, group.end)), None))
            raise
        finally:
            parts.close()

    def count(self, staged: StagedGroup) -> None:
        """Count a group that is committed to its tables, and keep its changes for tables in
        quarantine."""
        stager = self._reader.stager
        self._retries.run(lambda: stager.quarantining.keep(staged), slot=staged.group.slot)
        stager.note_tables(staged)
        self._status.task_retries(stager.workers.task_retries)
        for part in staged.by_worker:
            self._status.filtered(part.decided, part.filtered, part.passed_over)
        zero_dates = sum(part.zero_dates for part in staged.by_worker)
        text_errors = sum(part.text_errors for part in staged.by_worker)
        self._status.count(
            row_changes=staged.changes, zero_dates=zero_dates, text_errors=text_errors
        )
        self._status.changed(staged.changes_by_table, self.writer.seconds)


class StagedParts:
    """The staged parts of a group over several attempts to write it. For one thread.

    After a failed attempt some tables lack their part. The workers that have changes of these
    tables read their spans again, from start to end (WL#6964). The parts of other workers stay
    valid. The caller owns ``staged``; ``close`` removes only the parts that were read again.
    """

    def __init__(self, reader: GroupReader, group: Group, staged: StagedGroup | None) -> None:
        self._reader, self._group, self._staged = reader, group, staged
        self._read: list[StagedGroup] = []
        self.tables: Collection[str] = staged.tables if staged else ()
        self.lost: frozenset[int] = frozenset()
        """the workers that have to read again"""

    def complete(self) -> StagedGroup:
        """Return the group, after reading lost parts again. Raise what ``GroupReader.read_again``
        raises."""
        if self._staged is not None and not self.lost:
            return self._staged
        fresh = self._reader.read_again(self._group, self.lost if self._staged else None)
        self._read.append(fresh)
        kept = [] if self._staged is None else self._staged.by_worker
        parts = [*(part for part in kept if part.worker not in self.lost), *fresh.by_worker]
        self._staged = replace(fresh, by_worker=sorted(parts, key=lambda part: part.worker))
        self.tables, self.lost = self._staged.tables, frozenset()
        return self._staged

    def lose(self, tables: Iterable[str]) -> None:
        """Mark the parts of these tables to be read again, because an attempt failed to write
        them."""
        if self._staged is not None:
            names = frozenset(tables)
            parts = self._staged.by_worker
            self.lost = frozenset(part.worker for part in parts if names & part.definitions.keys())

    def drop(self) -> None:
        """Remove all staged files, to free space on a full disk, and mark them to be read again."""
        self.close()
        if self._staged is not None:
            drop_staged(self._staged)
        self._staged, self.lost = None, frozenset()

    def close(self) -> None:
        """Remove the parts that were read again."""
        for fresh in self._read:
            drop_staged(fresh)
        self._read.clear()
