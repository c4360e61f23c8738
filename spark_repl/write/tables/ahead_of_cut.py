"""TablesAhead: what tables hold beyond the last cut, where their positions are of another log's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...errors import TargetError, reset_table
from ...gtid import GtidSet
from ...relay.source_place import SourcePlace
from .table_metadata import held_gtids, held_place

if TYPE_CHECKING:
    from ...control.table.cut import Cut
    from .table import Table

Held = GtidSet | SourcePlace
"""What a table holds: these transactions, or everything up to a place of the source."""


class TablesAhead:
    """By the tables' paths. The last commit of each table says it."""

    def __init__(self) -> None:
        self._held: dict[str, Held] = {}

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
        """Looks at the tables whose position is behind the cut's and below ``lowest``, where the
        log begins that is there now. ``since``: the place from which it is applied; a place of the
        same log behind it counts, else, unless ``by_place`` alone can tell, GTIDs do. Raises
        TargetError where a table's commit does not say either."""
        for table in tables:
            if not (cut.position if cut else 0) < table.position < lowest:
                continue
            held: Held | None = held_place(table.snapshot, app)
            known = since is not None and isinstance(held, SourcePlace) and since.is_of_log(held)
            if not known:
                held = None if by_place else held_gtids(table.snapshot, app)
            if held is None:
                raise TargetError(
                    "the table is ahead of the last cut, and its last commit is not in its log"
                    " any more, or does not say its place on the source: nobody can tell what"
                    " it holds",
                    table=table.name,
                    file=table.folder,
                    hint=f"give the log that was applied before, or {reset_table(table.name)}",
                )
            self._held[table.path] = held

    def of(self, path: str) -> Held | None:
        return self._held.get(path)

    def all(self) -> list[Held]:
        return list(self._held.values())

    def exceeds(self, executed: GtidSet, place: SourcePlace | None) -> bool:
        """Whether a table holds more than ``executed``, or than what is before ``place``."""
        return any(_exceeds(held, executed, place) for held in self._held.values())

    def has(self, path: str, cut: Cut) -> bool:
        """Whether a table holds the statement before ``cut``."""
        held, gtids = self._held.get(path), GtidSet.parse(cut.group_gtids)
        if isinstance(held, SourcePlace):
            place = SourcePlace.of(cut.source)
            return place is not None and held.reaches(place)
        return held is not None and bool(gtids) and gtids.issubset(held)


def _exceeds(held: Held, executed: GtidSet, place: SourcePlace | None) -> bool:
    if isinstance(held, SourcePlace):
        return place is None or not place.reaches(held)
    return not held.issubset(executed)
