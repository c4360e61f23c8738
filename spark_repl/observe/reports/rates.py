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
"""most tables in the status file: those with most changes"""


@dataclass(frozen=True)
class Sample:
    at: float
    transactions: int
    row_changes: int
    tables: Mapping[str, int]


class Rates:
    """Counts of the last minute. Not thread-safe.

    ``fields`` samples the counters, and returns the counts since the window began. The window grows
    until the next call of ``fields``, so that a reader's rate falls.
    """

    def __init__(self) -> None:
        self.tables: dict[str, int] = {}
        """row changes of this run, by table"""
        self.seconds: Mapping[str, float] = {}
        """seconds of writing each table in this run: tasks and commits, which may overlap"""
        self._samples = deque([Sample(time.time(), 0, 0, {})])

    def count(self, changes: Mapping[str, int]) -> None:
        for table, number in changes.items():
            self.tables[table] = self.tables.get(table, 0) + number

    def fields(self, transactions: int, row_changes: int) -> dict[str, Any]:
        """Return the start of the window (``since``), its counts, and this run's counts by
        table."""
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


def rates_per_s(fields: Mapping[str, Any], *, running: bool) -> dict[str, float]:
    """Return transactions and row changes per second, by the fields of ``Rates.fields``."""
    names = ("transactions", "row_changes")
    return {
        f"{name}_per_s": per_second(fields, fields.get(name, 0), running=running) for name in names
    }


def per_second(fields: Mapping[str, Any], count: int, *, running: bool) -> float:
    if not running or not count:
        return 0.0
    seconds = max(1.0, time.time() - float(fields["since"]))
    return round(count / seconds, 1)


def table_rates(fields: Mapping[str, Any], name: str, *, running: bool) -> dict[str, float]:
    """Return a table's row changes of the run and per second, and the seconds of writing it."""
    total, recent, *seconds = fields.get("tables", {}).get(name, (0, 0))
    return {
        "row_changes": total,
        "row_changes_per_s": per_second(fields, recent, running=running),
        "write_seconds": seconds[0] if seconds else 0.0,  # an earlier version recorded none
    }
