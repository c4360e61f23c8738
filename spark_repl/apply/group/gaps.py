"""Gaps: transactions that some tables have and others lack (WL#6813).

Without commit order, tables advance independently: a crash, or a failure of one table, leaves gaps.
MySQL requires START REPLICA UNTIL SQL_AFTER_MTS_GAPS before anything else is done with such a
replica. Here each table skips the transactions that it has, so the applier applies the log as
usual. ``Gaps`` only finds the place that the applier has to reach before all tables show one state
of the source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...relay.source_places import SourcePlace

if TYPE_CHECKING:
    from ...gtid import GtidSet
    from ...schedule.group import Records
    from ...write.tables.tracking import Tracking
    from ..applied.applied_log import AppliedLog
    from .low_water_mark import LowWaterMark

# Bytes: a branch that is ended by hand has a position at most this far after a transaction. That
# is not a gap.
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

    def count_within(self, records: Records) -> int | None:
        """Return how many of the records are before the end of the last gap, or None if the gap
        ends after all of them. Raise HistoryError if the source has different files under the
        recorded names."""
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
