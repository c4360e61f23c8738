"""Rates: what was counted in the last minute, as a whole and of each table."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

WINDOW_S = 60.0
_SAMPLE_S = 5.0
_TABLES_MOST = 1000
"""so many tables the status file has at most, those with most changes"""


@dataclass(frozen=True)
class Sample:
    at: float
    transactions: int
    row_changes: int
    tables: Mapping[str, int]


class Rates:
    """``note`` what was counted by now; ``fields`` has the counts since the window began, which
    grows on as long as nothing is noted, so that a reader's rate falls. Not thread-safe."""

    def __init__(self) -> None:
        self.tables: dict[str, int] = {}
        """row changes of this run, by table"""
        self.seconds: Mapping[str, float] = {}
        """for how long tables were written in this run: tasks and commits, side by side or not"""
        self._samples = deque([Sample(time.time(), 0, 0, {})])

    def count(self, changes: Mapping[str, int]) -> None:
        for table, number in changes.items():
            self.tables[table] = self.tables.get(table, 0) + number

    def fields(self, transactions: int, row_changes: int) -> dict[str, Any]:
        """``since``: when the window began; what was counted in it, and by table in this run."""
        now = time.time()
        if now - self._samples[-1].at >= _SAMPLE_S:
            self._samples.append(Sample(now, transactions, row_changes, dict(self.tables)))
        while len(self._samples) > 1 and self._samples[1].at <= now - WINDOW_S:
            self._samples.popleft()
        first = self._samples[0]
        most = sorted(self.tables, key=self.tables.__getitem__, reverse=True)[:_TABLES_MOST]
        return {
            "since": first.at,
            "transactions": transactions - first.transactions,
            "row_changes": row_changes - first.row_changes,
            "tables": {
                name: [
                    self.tables[name],
                    self.tables[name] - first.tables.get(name, 0),
                    round(self.seconds.get(name, 0.0), 3),
                ]
                for name in most
            },
        }


def rates_per_s(said: Mapping[str, Any], *, running: bool) -> dict[str, float]:
    """Transactions and row changes a second of what ``Rates.fields`` has said."""
    names = ("transactions", "row_changes")
    return {f"{name}_per_s": per_second(said, said.get(name, 0), running=running) for name in names}


def per_second(said: Mapping[str, Any], count: int, *, running: bool) -> float:
    if not running or not count:
        return 0.0
    seconds = max(1.0, time.time() - float(said["since"]))
    return round(count / seconds, 1)


def table_rates(said: Mapping[str, Any], name: str, *, running: bool) -> dict[str, float]:
    """A table's row changes of the run, and a second; the seconds that it was written."""
    total, recent, *seconds = said.get("tables", {}).get(name, (0, 0))
    return {
        "row_changes": total,
        "row_changes_per_s": per_second(said, recent, running=running),
        "write_seconds": seconds[0] if seconds else 0.0,  # an earlier version said none
    }
