"""Pace: how far apart groups begin, so that what comes meanwhile is gathered into one.

``apply.max_commits_per_hour`` keeps any two groups apart, each of which commits to a table once;
``apply.max_latency_ms`` only what the stream brings: of a backlog groups are full already. A change
that comes while nothing was applied for so long is applied at once.
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
"""batches, the slowest of which says how long before a change is too old it has to be taken up"""
_LOOK_S = 0.1


class Pace:
    """``last``: when the group before, of an earlier run, was shown."""

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
        """The stream has brought what is applied now."""
        self._batch = self._clock()

    def end_batch(self) -> None:
        """All of it can be seen by readers."""
        self._took.append(self._clock() - self._batch)

    def begin_group(self) -> None:
        self._begun = self._clock()

    def until_group(self) -> float:
        """Seconds until the next group may begin."""
        return self._left(self._begun, self._apart)

    def until_batch(self) -> float:
        """Seconds until more has to be looked for: what comes right after that a look has missed is
        seen by the end of the next batch."""
        gathered = self._left(self._batch, self._latency - max(self._took))
        return max(self.until_group(), gathered)

    def wait(self, left: Callable[[], float], is_stopping: Callable[[], bool]) -> bool:
        """Waits until nothing is ``left``; False when it was to end first."""
        while (seconds := left()) > 0:
            if is_stopping():
                return False
            time.sleep(min(seconds, _LOOK_S))
        return True

    def _left(self, since: float | None, seconds: float) -> float:
        return 0.0 if since is None else max(0.0, since + seconds - self._clock())
