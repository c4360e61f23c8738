"""LowWaterMark: the place in the log up to which every table has everything.

``Gaps`` are transactions that some tables have and others lack (WL#6813). Without commit order,
tables advance independently: a crash, or a failure of one table, leaves gaps. MySQL requires START
REPLICA UNTIL SQL_AFTER_MTS_GAPS before anything else is done with such a replica. Here each table
skips the transactions that it has, so the applier applies the log as usual. ``Gaps`` only finds the
place that the applier has to reach before all tables show one state of the source.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from ...relay.source_places import SourcePlace
from ...schedule.skipped_records import skip_copied, skip_transactions

if TYPE_CHECKING:
    from ...control.records.copies import CatchUp
    from ...gtid import GtidSet
    from ...runtime.retry import Retries
    from ...schedule.group import Group, Records
    from ...write.tables.tracking import Tracking
    from ..log.applied_log import AppliedLog
    from ..start.resume import ResumePoint


class LowWaterMark:
    """A mark that moves over whole groups, in the order of the log.

    ``executed``: the GTIDs of all that is in the tables. ``position``: the packed end of the last
    transaction that every table has. ``ended_by_hand``: how many XA branches were ended by hand
    after that transaction. ``replayed_to``: up to this packed position the applier repeats, for
    copied tables, the transactions that the other tables have; 0 if nothing is repeated.
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
        """Return the mark's place on the source, or None before the first group."""
        if not self.position:
            return None
        return SourcePlace.of(self._retries.run(lambda: self._applied.source_of(self.position)))

    def after(self, records: Records) -> Records:
        """Return the records that end after the mark."""
        return records[int(np.searchsorted(records["end"], self.position, "right")) :]

    def empty_existing(self, records: Records) -> Records:
        """Return the records, emptied where all tables have the transaction from another log or
        from a copy. Statements that were executed before are kept: later names depend on them."""
        records, _ = skip_transactions(
            records, self._executed_at_start
        )  # emptied records take slots and change nothing
        return skip_copied(records, self._catch_up.copied)

    def count_new(self, group: Group) -> int:
        """Return how many transactions of the group the tables did not have."""
        records = group.records
        existing = skip_transactions(records, self._executed_at_start)[1]
        existing += int(np.count_nonzero(records["end"] <= self.replayed_to))
        return len(records) - existing

    def move_past(self, group: Group, position: int) -> None:
        """Move the mark past a group, to a packed position. A branch that is ended by hand leaves
        the position unchanged: its rows land after that position."""
        self.executed, self.position = self.executed.union(group.gtids), position
        self.ended_by_hand = self.ended_by_hand + 1 if position < group.end else 0

    def lacks_cut(self, end: int, place: SourcePlace | None) -> bool:
        """Return whether the tables show no single state of the source at ``end``. That is so while
        a copy catches up, while a table is ahead after a crash, or while the newest cut is later
        because the applier went back."""
        if self._catch_up.active(self.executed):
            return True
        if not self._executed_of_newest_cut.issubset(self.executed):
            return True
        return self._tracking.is_ahead(end, self.executed, place)

    def lacking(self, tables: Iterable[str], position: int) -> list[str]:
        """Return the given tables that lack a change before the packed position."""
        tracked = self._tracking.tables
        return [name for name in tables if name not in tracked or tracked[name].position < position]


# Bytes: a branch that is ended by hand lands at most this far after a transaction. That is no gap.
_BY_HAND = 64


class Gaps:
    """The gaps that the applier found when it started.

    ``tables``: the tables that are ahead of the mark. ``until``: while a copy catches up, the GTID
    set that has to be executed before the copied tables are consistent with the others.
    """

    def __init__(
        self,
        tracking: Tracking,
        applied: AppliedLog,
        mark: LowWaterMark,
        until: GtidSet | None = None,
    ) -> None:
        self._applied, self._mark, self.by_copy = applied, mark, until is not None
        # Positions before the start of this log belong to the previous log.
        begun = max(mark.position + _BY_HAND, applied.start)
        tables = tracking.all_tables()
        ahead = {t.name: t.position for t in tables if t.position > begun}
        reached = {
            t.name: extent for t in tables if (extent := tracking.progress_of(t)) is not None
        }
        lacking = {name: extent for name, extent in reached.items() if self._lacks(extent)}
        self.tables = sorted({*ahead, *lacking})
        self._last = max(ahead.values(), default=0)
        self._held = [*lacking.values(), *([until] if until else [])]

    def _lacks(self, extent: GtidSet | SourcePlace) -> bool:
        """Return whether the mark is before the transactions that a table holds."""
        if isinstance(extent, SourcePlace):
            place = self._mark.place
            return place is None or not place.reaches(extent)
        return not extent.issubset(self._mark.executed)

    @property
    def are_open(self) -> bool:
        """Return whether a table is still ahead of the mark."""
        return self._mark.position < self._last or any(map(self._lacks, self._held))

    @property
    def end(self) -> str:
        """Return where the gaps end, for a message."""
        ends = [str(extent) for extent in self._held]
        return ", ".join([*ends, *([self._applied.name_of(self._last)] if self._last else [])])

    def take(self, records: Records) -> int | None:
        """Return how many of the records come up to the end of the last gap, or None if the gap
        ends after all of them. Raise HistoryError if the source has other files under the recorded
        names."""
        counts = [self._count(records, extent) for extent in self._held if self._lacks(extent)]
        if self._mark.position < self._last:
            # The last gap can end inside a transaction: after a statement that created a table,
            # and before the rows of that table.
            count = int(np.searchsorted(records["position"], self._last, "left"))
            includes_end = count < len(records) or bool(count and records["end"][-1] >= self._last)
            counts.append(count if includes_end else None)
        known_counts = [count for count in counts if count is not None]
        return None if len(known_counts) < len(counts) else max(known_counts, default=0)

    def _count(self, records: Records, extent: GtidSet | SourcePlace) -> int | None:
        if isinstance(extent, SourcePlace):
            count = self._applied.count_up_to(records, extent)
            if count < len(records):
                return count
            last = self._applied.source_of(int(records["end"][-1])) if count else {}
            return count if SourcePlace.of(last) == extent else None
        missing = extent.subtract(self._mark.executed)
        hits = missing.contains_arrays(records["uuid"], records["gno"], records["tag"])
        if int(np.count_nonzero(hits)) < missing.count():
            return None
        return int(np.flatnonzero(hits)[-1]) + 1
