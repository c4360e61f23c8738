"""The first copy as the control table knows it: planned, then done; the newest row counts.

A copy reads without a lock while the source goes on, so its tables are of no single moment. They
are consistent once the log has been applied from ``start`` up to ``until``: idempotently for
tables with a key, and exactly behind its own set for a table that was read under a lock.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..errors import HistoryError
from ..gtid import GtidSet
from ..position import RelayPosition
from ..relay.log import RelayLog
from .control import Control, Cut, TableVersion
from .history import History

KIND = "copy"


@dataclass(frozen=True)
class Copy:
    start: GtidSet
    """executed on the source before the first row was read"""
    bounds: Mapping[str, tuple[str, ...]]
    """table -> upper ends of its chunks but the last, as SQL literals of the first key column"""
    until: GtidSet | None = None
    """executed after the last row was read: the high-water mark; None: not finished"""
    exact: Mapping[str, GtidSet] = field(default_factory=dict)
    """table without a key -> what its rows hold"""

    def to_detail(self) -> str:
        found = {
            "start": str(self.start),
            "bounds": {name: list(ends) for name, ends in self.bounds.items()},
            "until": None if self.until is None else str(self.until),
            "exact": {name: str(gtids) for name, gtids in self.exact.items()},
        }
        return json.dumps(found)

    @classmethod
    def of(cls, detail: str) -> Copy:
        found = json.loads(detail)
        until = found["until"]
        return cls(
            GtidSet.parse(found["start"]),
            {name: tuple(ends) for name, ends in found["bounds"].items()},
            None if until is None else GtidSet.parse(until),
            {name: GtidSet.parse(text) for name, text in found["exact"].items()},
        )


def last_copy(control: Control) -> Copy | None:
    rows = control.rows(KIND)
    return Copy.of(rows[-1]["detail"]) if rows else None


def record_copy(control: Control, copy: Copy) -> None:
    """As the owner. Raises FencedError when another one took over."""
    control.write(KIND, detail=copy.to_detail())


def behind_copy(copy: Copy, executed: GtidSet, cut: Cut | None, relay_path: str) -> GtidSet:
    """What counts as executed behind a first copy; ``executed``: what the log begins behind.

    Raises HistoryError for a gap between them, and for a copy that is not finished.
    """
    if copy.until is None:
        raise HistoryError(
            "the first copy is not finished",
            hint="run spark-repl snapshot again: it goes on where it stopped",
        )
    if cut is not None:
        return executed
    if missing := executed.subtract(copy.start):
        raise HistoryError(
            f"transactions are missing between the copy and the log: {missing}",
            file=relay_path,
            hint="give a log that begins before the copy, or copy into an empty target",
        )
    return copy.start


def first_cut(
    relay: RelayLog, history: History, executed: GtidSet, tables: Mapping[str, TableVersion]
) -> Cut:
    """Of a copy behind which nothing has to be applied, because the source was idle."""
    number = relay.files[0].number
    begin = RelayPosition(history.base + number, relay.head(number).length)
    return Cut(begin.packed, str(executed), history.log_id, {}, dict(sorted(tables.items())))


class CatchUp:
    """What is different until the tables of a copy are consistent: changes are applied
    idempotently, no cut is published. None: nothing was copied."""

    def __init__(self, copy: Copy | None) -> None:
        self._copy = copy

    def active(self, executed: GtidSet) -> bool:
        until = self._copy.until if self._copy else None
        return until is not None and not until.issubset(executed)

    def held(self, executed: GtidSet) -> Mapping[str, GtidSet]:
        """What tables without a key hold from the copy, which can't be applied twice."""
        return self._copy.exact if self._copy and self.active(executed) else {}
