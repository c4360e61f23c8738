"""Past: how late and how fast the applier was in its last hour, in samples that it keeps itself.

They stand in the status file, so that a report has them when the applier has ended, and the next
applier goes on with them. Cuts say the same of a longer time, but nothing while none is published.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .lag import Ahead

EVERY_S = 10.0
MOST = 360
"""so many samples there are at most: an hour"""
COLUMNS = ("at", "late_s", "behind", "transactions_per_s", "row_changes_per_s")
"""``at``: seconds since 1970; ``late_s`` (None: not known), ``behind`` in transactions: the worst
since the sample before, both of them behind what was received; rates: the mean since then"""

Points = list[tuple[datetime, float | None]]


class Past:
    """``note`` what is so now. ``said``: the samples of the run before. Not thread-safe."""

    def __init__(self, said: Sequence[Sequence[float | None]] = ()) -> None:
        self._samples = deque((list(one) for one in said), MOST)
        self._began, self._counted = time.time(), (0, 0)
        self._behind, self._late = 0, 0.0
        self._is_known = True

    def note(self, log: Ahead, transactions: int, row_changes: int) -> None:
        """What the log holds that is not applied, and what this run has counted by now."""
        now = time.time()
        self._behind = max(self._behind, log.transactions)
        if log.transactions and log.oldest:
            self._late = max(self._late, now - log.oldest)
        self._is_known &= bool(not log.transactions or log.oldest)
        seconds = now - self._began
        if seconds < 0:  # the clock was set back
            self._began = now
        elif seconds >= EVERY_S:
            counted = (transactions, row_changes)
            pairs = zip(counted, self._counted, strict=True)
            rates = [round((new - old) / seconds, 1) for new, old in pairs]
            late = round(self._late, 1) if self._is_known else None
            self._samples.append([round(now, 1), late, self._behind, *rates])
            self._began, self._counted = now, counted
            self._behind, self._late, self._is_known = 0, 0.0, True

    def fields(self) -> dict[str, Any]:
        return {"columns": COLUMNS, "every_s": EVERY_S, "samples": list(self._samples)}


def points(said: Mapping[str, Any], column: str) -> Points:
    """One column of what ``Past.fields`` has said, without a value where none was noted for
    long: no applier ran, or it had nothing to say."""
    series, number = Points(), COLUMNS.index(column)
    for one in said.get("samples", ()):
        at = datetime.fromtimestamp(one[0], UTC)
        if series and (at - series[-1][0]).total_seconds() > 3 * EVERY_S:
            series.append((at, None))
        series.append((at, one[number]))
    return series
