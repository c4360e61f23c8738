"""LowWaterMark: the place in the log up to which every table has everything. ``gaps`` finds what
only some tables have after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from ...relay.source_places import SourcePlace
from ...schedule.skipped_records import skip_copied, skip_transactions

if TYPE_CHECKING:
    from ...control.records.copies import CatchUp
    from ...runtime.retry import Retries
    from ...schedule.group import Group, Records
    from ...write.tables.tracking import Tracking
    from ..applied.applied_log import AppliedLog
    from ..start.resume import ResumePoint


class LowWaterMark:
    """A mark that advances over whole groups, in the order of the log.

    ``executed``: the GTIDs of everything that is in the tables. ``position``: the packed end of the
    last transaction that every table has. ``ended_by_hand``: how many XA branches were ended by
    hand after that transaction. ``replayed_to``: up to this packed position the applier repeats
    transactions for copied tables only; 0 if it repeats none.
    """

    def __init__(
        self,
        applied: AppliedLog,
        tracking: Tracking,
        catch_up: CatchUp,
        point: ResumePoint,
        retries: Retries,
    ) -> None:
        self._applied, self._tracking = applied, tracking
        self._catch_up, self._retries = catch_up, retries
        self.executed, self.position = point.executed.union(point.absent), point.position
        self.ended_by_hand, self.replayed_to = point.by_hand, point.replayed_to
        # These may come from another log, even if a cut was published in this log since.
        self._executed_at_start = point.executed
        self._executed_of_newest_cut = point.shown

    @property
    def place(self) -> SourcePlace | None:
        """Return the mark's source position, or None before the first group."""
        if not self.position:
            return None
        return SourcePlace.of(self._retries.run(lambda: self._applied.source_of(self.position)))

    def after(self, records: Records) -> Records:
        """Return the records that end after the mark."""
        if len(records) and records["end"][0] > self.position:  # usually; no copy of the ends
            return records
        return records[int(np.searchsorted(records["end"], self.position, "right")) :]

    def empty_existing(self, records: Records) -> Records:
        """Return the records, in which transactions that all tables already have (from another log,
        or from a copy) are marked as empty. Statements that were executed before are not emptied,
        because later names depend on them."""
        records, _ = skip_transactions(
            records, self._executed_at_start
        )  # emptied records take slots and change nothing
        return skip_copied(records, self._catch_up.copied)

    def count_new(self, group: Group) -> int:
        """Return how many transactions of the group the tables did not already have."""
        existing = group.gtids.intersect(self._executed_at_start).count()
        existing += int(np.count_nonzero(group.columns["end"] <= self.replayed_to))
        return len(group.records) - existing

    def move_past(self, group: Group, position: int) -> None:
        """Advance the mark past a group, to a packed position. A branch that is ended by hand
        leaves the position unchanged, because its rows are committed after that position."""
        self.executed, self.position = self.executed.union(group.gtids), position
        self.ended_by_hand = self.ended_by_hand + 1 if position < group.end else 0

    def lacks_cut(self, end: int, place: SourcePlace | None) -> bool:
        """Return whether the tables do not show a single state of the source at ``end``. This is
        the case while a copy catches up, while a table is ahead after a crash, or while the newest
        cut is later because the applier went back."""
        if self._catch_up.active(self.executed):
            return True
        if not self._executed_of_newest_cut.issubset(self.executed):
            return True
        return self._tracking.is_ahead(end, self.executed, place)

    def lacking(self, tables: Iterable[str], position: int) -> list[str]:
        """Return those of the given tables that lack a change before the packed position."""
        tracked = self._tracking.tables
        return [name for name in tables if name not in tracked or tracked[name].position < position]
