"""ProgressHistory: how late and how fast the applier was in its last hour, by its own samples.

The status file holds the samples, so that a report has them after the applier's end, and the next
applier continues them. Cuts show the same of a longer time, but nothing while none is published.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

EVERY_S = 10.0
MOST = 360
"""most samples: an hour"""
COLUMNS = ("at", "late_s", "behind", "transactions_per_s", "row_changes_per_s",
           "transactions_per_group", "transactions_per_wave")  # fmt: skip
"""``at``: seconds since 1970. ``late_s`` (None: unknown) and ``behind``, in transactions: how far
the applier was behind what was received, the worst since the previous sample. The other columns:
means since the previous sample, None if there was no group."""

Points = list[tuple[datetime, float | None]]


@dataclass(frozen=True)
class Backlog:
    """Transactions of the relay log after the applier's position.

    ``transactions``: their number; ``oldest``: when the first of them was committed; ``newest``:
    when the log's last transaction was committed; ``seen``: when the applier looked. Times are
    seconds since 1970, 0 if the log has no times or no transactions.
    """

    transactions: int = 0
    oldest: float = 0.0
    newest: float = 0.0
    seen: float = 0.0

    def fields(self) -> dict[str, float]:
        return asdict(self)


class Counts(NamedTuple):
    """The counts of a run so far."""

    transactions: int = 0
    row_changes: int = 0
    groups: int = 0
    waves: int = 0


class ProgressHistory:
    """Samples of the last hour. Not thread-safe.

    ``recorded``: samples of the previous run, which may be of a version with fewer columns.
    """

    def __init__(self, recorded: Sequence[Sequence[float | None]] = ()) -> None:
        wide = ([*row, *[None] * len(COLUMNS)][: len(COLUMNS)] for row in recorded)
        self._samples = deque(wide, MOST)
        self._began, self._counted = time.time(), Counts()
        self._backlog, self._late = 0, 0.0
        self._is_known = True

    def record(self, backlog: Backlog, counted: Counts) -> None:
        """Record the backlog and this run's counts; add a sample every EVERY_S seconds."""
        now = time.time()
        self._backlog = max(self._backlog, backlog.transactions)
        if backlog.transactions and backlog.oldest:
            self._late = max(self._late, now - backlog.oldest)
        self._is_known &= bool(not backlog.transactions or backlog.oldest)
        seconds = now - self._began
        if seconds < 0:  # the clock was set back
            self._began = now
        elif seconds >= EVERY_S:
            late = round(self._late, 1) if self._is_known else None
            means = _means(self._counted, counted, seconds)
            self._samples.append([round(now, 1), late, self._backlog, *means])
            self._began, self._counted = now, counted
            self._backlog, self._late, self._is_known = 0, 0.0, True

    def fields(self) -> dict[str, Any]:
        return {"columns": COLUMNS, "every_s": EVERY_S, "samples": list(self._samples)}


def _means(old: Counts, new: Counts, seconds: float) -> list[float | None]:
    transactions, row_changes, groups, waves = (b - a for a, b in zip(old, new, strict=True))
    return [
        round(transactions / seconds, 1), round(row_changes / seconds, 1),
        round(transactions / groups, 1) if groups else None,
        round(transactions / waves, 1) if waves else None,
    ]  # fmt: skip


def history_points(fields: Mapping[str, Any], column: str) -> Points:
    """Return one column of ``ProgressHistory.fields``.

    A point without a value marks a time without samples: no applier ran, or it recorded nothing.
    """
    series, columns = Points(), list(fields.get("columns", COLUMNS))
    if column not in columns:
        return series  # recorded by a version without this column
    number = columns.index(column)
    for sample in fields.get("samples", ()):
        at = datetime.fromtimestamp(sample[0], UTC)
        if series and (at - series[-1][0]).total_seconds() > 3 * EVERY_S:
            series.append((at, None))
        series.append((at, sample[number]))
    return series
