"""Past: how late and how fast the applier was in its last hour, in samples that it keeps itself.

They stand in the status file, so that a report has them when the applier has ended, and the next
applier goes on with them. Cuts say the same of a longer time, but nothing while none is published.
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
"""so many samples there are at most: an hour"""
COLUMNS = ("at", "late_s", "behind", "transactions_per_s", "row_changes_per_s",
           "transactions_per_group", "transactions_per_wave")  # fmt: skip
"""``at``: seconds since 1970; ``late_s`` (None: not known), ``behind`` in transactions: the worst
since the sample before, both of them behind what was received; the others: the mean since then,
None where there was no group"""

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
    """What a run has applied by now."""

    transactions: int = 0
    row_changes: int = 0
    groups: int = 0
    waves: int = 0


class ProgressHistory:
    """``note`` what is so now. ``said``: the samples of the run before, which may have been of a
    version with fewer columns. Not thread-safe."""

    def __init__(self, said: Sequence[Sequence[float | None]] = ()) -> None:
        wide = ([*one, *[None] * len(COLUMNS)][: len(COLUMNS)] for one in said)
        self._samples = deque(wide, MOST)
        self._began, self._counted = time.time(), Counts()
        self._behind, self._late = 0, 0.0
        self._is_known = True

    def note(self, log: Backlog, counted: Counts) -> None:
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
            late = round(self._late, 1) if self._is_known else None
            means = _means(self._counted, counted, seconds)
            self._samples.append([round(now, 1), late, self._behind, *means])
            self._began, self._counted = now, counted
            self._behind, self._late, self._is_known = 0, 0.0, True

    def fields(self) -> dict[str, Any]:
        return {"columns": COLUMNS, "every_s": EVERY_S, "samples": list(self._samples)}


def _means(old: Counts, new: Counts, seconds: float) -> list[float | None]:
    transactions, row_changes, groups, waves = (b - a for a, b in zip(old, new, strict=True))
    return [
        round(transactions / seconds, 1), round(row_changes / seconds, 1),
        round(transactions / groups, 1) if groups else None,
        round(transactions / waves, 1) if waves else None,
    ]  # fmt: skip


def history_points(said: Mapping[str, Any], column: str) -> Points:
    """One column of what ``ProgressHistory.fields`` has said, without a value where none was noted
    for long: no applier ran, or it had nothing to say."""
    series, columns = Points(), list(said.get("columns", COLUMNS))
    if column not in columns:
        return series  # a version that did not note it has said this
    number = columns.index(column)
    for one in said.get("samples", ()):
        at = datetime.fromtimestamp(one[0], UTC)
        if series and (at - series[-1][0]).total_seconds() > 3 * EVERY_S:
            series.append((at, None))
        series.append((at, one[number]))
    return series
