"""The first copy as the control table knows it: planned, then done; the newest row counts.

A copy reads without a lock while the source goes on, so its tables are of no single moment. They
are consistent once the log has been applied from ``start`` up to ``until``: idempotently for
tables with a key, and exactly behind its own set for a table that was read under a lock.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..gtid import GtidSet
from .control import Control

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
    rows = control.rows(KIND) if control.exists() else []
    return Copy.of(rows[-1]["detail"]) if rows else None


def record_copy(control: Control, copy: Copy) -> None:
    """As the owner. Raises FencedError when another one took over."""
    control.write(KIND, detail=copy.to_detail())
