"""Pace: the time between the starts of two groups, in which changes gather into one group.

``apply.max_commits_per_hour`` keeps any two groups apart, because each group commits once to a
table. ``apply.max_latency_ms`` applies only to changes that the stream brings, because groups of a
backlog are full already. A change that arrives after no group was applied for that long is applied
at once.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...config import Apply

_LOOKED_AT = 8
"""recent batches; the slowest of them is the time that the applier allows for the next one"""
_LOOK_S = 0.1


class Pace:
    """The pace of one applier. ``last``: when an earlier run's last group was published."""

    def __init__(
        self,
        apply: Apply,
        last: datetime | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        hourly = apply.max_commits_per_hour
        self._apart = 3600 / hourly if hourly else 0.0
        self._latency, self._clock = apply.max_latency_ms / 1000, clock
        self._took = deque([0.0], _LOOKED_AT)
        self._begun: float | None = None
        if last is not None:
            age = (datetime.now(UTC) - last).total_seconds()
            self._begun = clock() - max(0.0, age)
        self._batch = clock()

    def begin_batch(self) -> None:
        """Note that the stream has brought the batch that is applied now."""
        self._batch = self._clock()

    def end_batch(self) -> None:
        """Note that readers can see the whole batch."""
        self._took.append(self._clock() - self._batch)

    def begin_group(self) -> None:
        self._begun = self._clock()

    def until_group(self) -> float:
        """Return the seconds until the next group may begin."""
        return self._left(self._begun, self._apart)

    def until_batch(self) -> float:
        """Return the seconds until the applier has to look for more changes. A change that arrives
        right after a look is visible by the end of the next batch."""
        gathered = self._left(self._batch, self._latency - max(self._took))
        return max(self.until_group(), gathered)

    def wait(self, left: Callable[[], float], is_stopping: Callable[[], bool]) -> bool:
        """Wait until ``left`` returns 0 seconds. Return False if ``is_stopping`` came first."""
        while (seconds := left()) > 0:
            if is_stopping():
                return False
            time.sleep(min(seconds, _LOOK_S))
        return True

    def _left(self, since: float | None, seconds: float) -> float:
        return 0.0 if since is None else max(0.0, since + seconds - self._clock())
