"""TablesAhead: what tables have beyond the last cut, if the log is another one than the cut's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...errors import TargetError, reset_table
from ...gtid import GtidSet
from ...relay.source_places import SourcePlace
from .table_metadata import recorded_gtids, recorded_place

if TYPE_CHECKING:
    from ...control.table.cut import Cut
    from .table import Table

TableProgress = GtidSet | SourcePlace
"""what a table has: these transactions, or everything up to a place in the source's log"""


class TablesAhead:
    """What the last commits of tables record, by the tables' paths."""

    def __init__(self) -> None:
        self.progress: dict[str, TableProgress] = {}

    def find(
        self,
        tables: Iterable[Table],
        app: str,
        cut: Cut | None,
        lowest: int,
        since: SourcePlace | None = None,
        *,
        by_place: bool = False,
    ) -> None:
        """Read the last commits of tables whose position is after the cut's and below ``lowest``,
        where the given log begins.

        ``since``: the position from which the log is applied. A later position of the same log
        counts. Otherwise GTIDs count, unless the log is compared only ``by_place``. Raise
        TargetError if a table's commit has neither.
        """
        for table in tables:
            if not (cut.position if cut else 0) < table.position < lowest:
                continue
            progress: TableProgress | None = recorded_place(table.snapshot, app)
            is_comparable = (
                since is not None
                and isinstance(progress, SourcePlace)
                and since.is_of_log(progress)
            )
            if not is_comparable:
                progress = None if by_place else recorded_gtids(table.snapshot, app)
            if progress is None:
                raise TargetError(
                    "the table is ahead of the last cut, and its last commit is not in its log"
                    " any more, or does not say its place on the source: nobody can tell what"
                    " it holds",
                    table=table.name,
                    file=table.folder,
                    hint=f"give the log that was applied before, or {reset_table(table.name)}",
                )
            self.progress[table.path] = progress

    def exceeds(self, executed: GtidSet, place: SourcePlace | None) -> bool:
        """Return whether a table has more than ``executed``, or more than everything before
        ``place``."""
        return any(_exceeds(progress, executed, place) for progress in self.progress.values())

    def has(self, path: str, cut: Cut) -> bool:
        """Return whether a table has the statement before ``cut``."""
        progress, gtids = self.progress.get(path), GtidSet.parse(cut.group_gtids)
        if isinstance(progress, SourcePlace):
            place = SourcePlace.of(cut.source)
            return place is not None and progress.reaches(place)
        return progress is not None and bool(gtids) and gtids.issubset(progress)


def _exceeds(progress: TableProgress, executed: GtidSet, place: SourcePlace | None) -> bool:
    if isinstance(progress, SourcePlace):
        return place is None or not place.reaches(progress)
    return not progress.issubset(executed)
