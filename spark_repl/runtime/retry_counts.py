"""RetryCounts: how often a group's transactions were tried again so far, wherever they failed
(WL#6964).

MySQL counts a transaction's retries until it is committed. A transaction's way here leads through
staging, by its worker, then with its group: keeping of XA branches, writing, the cut. What fails of
one worker counts for its own transactions, what fails of the group for those that it fails with.
Without commit order the tables of a group go beside each other: each lane counts for itself, on top
of what was before them, and the longest one counts for the cut.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping

NO_GROUP = -2


class RetryCount:
    """How often one group was tried again, by ``workers``; ``had``: before it began. ``on_wait`` is
    told that one of them begins to wait for its next attempt. Any thread may call it."""

    def __init__(
        self,
        workers: Iterable[int] = (0,),
        on_wait: Callable[[], None] = lambda: None,
        had: Mapping[int, int] = {},
    ) -> None:
        self._counts = {worker: had.get(worker, 0) for worker in workers}
        self._lanes: dict[str, int] = {}
        self._lock = threading.Lock()
        self.waits = on_wait

    @property
    def workers(self) -> tuple[int, ...]:
        return tuple(self._counts)

    def next(self, workers: Collection[int], lane: str, most: int) -> int:
        """Counts a retry of these workers, in a lane where one is named; returns its number, which
        is that of the one with the most. 0, and nothing is counted, when that has had ``most``."""
        with self._lock:
            had = max((self._counts.get(worker, 0) for worker in workers), default=0)
            had += self._lanes.get(lane, 0) if lane else max(self._lanes.values(), default=0)
            if had >= most:
                return 0
            if lane:
                self._lanes[lane] = self._lanes.get(lane, 0) + 1
            else:
                self._counts.update({one: self._counts.get(one, 0) + 1 for one in workers})
            return had + 1


class RetryCounts:
    """Those of the groups that are under way, by their slot in the commit order. Any thread may
    call it."""

    def __init__(self) -> None:
        self._counts: dict[int, RetryCount] = {}

    def begin(
        self,
        slot: int,
        workers: Iterable[int],
        on_wait: Callable[[], None],
        had: Mapping[int, int] = {},
    ) -> None:
        """A group sets out that these workers have a share in; they ``had`` so many before."""
        self._counts[slot] = RetryCount(workers, on_wait, had)

    def end(self, slot: int) -> None:
        """It has arrived, or never will."""
        self._counts.pop(slot, None)

    def of(self, slot: int) -> RetryCount:
        """The group's; one of its own for work that is no group's."""
        return self._counts.get(slot) or RetryCount()
