"""Bringing: a group's rows, or one table's part of them, into the tables, retries and all.

An attempt that failed temporarily is made anew from the relay log on, by the workers whose changes
a table lacks: what has been committed is not written twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...errors import GivenUpError
from ...observe.reports.worker_status import APPLYING
from ...runtime.retry import Retries, disk_full, temporary
from .restaging import Restaging

if TYPE_CHECKING:
    from ...observe.reports.applier_status import ApplierStatus
    from ...schedule.group import Group, StagedGroup
    from ...write.rows.group_writer import GroupWriter
    from .cut_publisher import CutPublisher
    from .staging import Staging


def _nothing() -> None:
    """Nobody has to be told."""


class Bringing:
    """``write`` may run side by side for several groups, and for several tables of one."""

    def __init__(
        self,
        staging: Staging,
        writer: GroupWriter,
        cuts: CutPublisher,
        status: ApplierStatus,
        retries: Retries,
    ) -> None:
        self._staging, self._writer, self._cuts = staging, writer, cuts
        self._status, self._retries = status, retries
        self._cascading = staging.cascading(cuts)

    def whole(self, staged: StagedGroup, begins: Callable[[], None]) -> None:
        """All of a group."""
        self.write(staged.group, staged, begins=begins)

    def part(self, part: StagedGroup, meets: Callable[[], None]) -> None:
        """A lane's work: one table's part of a group."""
        self.write(part.group, part, checked=meets, table=part.tables[0])

    def write(
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
            self._status.works(group.slot, group.shares, APPLYING, str(group.gtids))
            try:
                with self._cascading.followed(part) as followed:
                    cut = self._cuts.cut_after(group)
                    passed = self._writer.write(followed, cut, begins=begins, checked=checked)
                    self._status.filtered({}, {}, passed)
            except Exception as error:
                if temporary(error):
                    parts.lose(self._cuts.mark.lacking(part.tables, group.end))
                elif disk_full(error):
                    parts.drop()
                raise
            return whole

        try:
            return self._retries.run(
                attempt, slot=group.slot, failed=lambda: parts.lost, lane=table or ""
            )
        except GivenUpError as error:
            lacking = self._cuts.mark.lacking([table] if table else parts.tables, group.end)
            error.at(table=next(iter(lacking), None))
            raise
        finally:
            parts.close()

    def count(self, staged: StagedGroup) -> None:
        """A group is in its tables; what tables in quarantine would have of it is kept."""
        self._retries.run(lambda: self._staging.keep(staged), slot=staged.group.slot)
        self._staging.learn(staged)
        self._status.task_retries(self._staging.task_retries)
        for part in staged.by_worker:
            self._status.filtered(part.decided, part.filtered, part.passed_over)
        zero_dates = sum(part.zero_dates for part in staged.by_worker)
        text_errors = sum(part.text_errors for part in staged.by_worker)
        self._status.count(
            row_changes=staged.changes, zero_dates=zero_dates, text_errors=text_errors
        )
        self._status.changed(staged.changes_by_table, self._writer.seconds)

    def drop(self, staged: StagedGroup) -> None:
        """Removes what was staged of a group."""
        self._staging.drop(staged)

    def tend(self, names: Sequence[str]) -> None:
        """Upkeep of tables that a statement has written."""
        self._writer.tend(names)

    def phases(self) -> dict[str, float]:
        """Seconds: staging, and the writer's."""
        return {"stage_s": self._staging.seconds, **self._writer.phases()}

    def close(self) -> None:
        """Ends the upkeep that is under way."""
        self._writer.close()
