"""HeadStart: a stream's first groups, staged while Spark starts the stream.

That takes half a second of another Python process, and what the first batch will begin with is in
the log already. The batch decides all the same: what was staged counts when the groups that are cut
from the batch are the same ones, and else is dropped.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Container
from dataclasses import replace
from typing import TYPE_CHECKING

from ...schedule.planner import Planner

if TYPE_CHECKING:
    from ...config import Apply
    from ...gtid import GtidSet
    from ...schedule.group import Group, Records
    from .reading import Reading
    from .stager import Stager

# Beyond these the batch is there; each takes room below ``_repl/staging``.
_GROUPS = 2


class HeadStart:
    """``begin`` and ``take`` are for the one thread that stages. Nothing is said of it in the
    status, where the groups have no slot yet."""

    def __init__(self, stager: Stager, apply: Apply) -> None:
        self._stager, self._apply = stager, apply
        self._read: deque[Reading] = deque()
        self._lock = threading.Lock()
        self._batch_is_there = threading.Event()

    def begin(self, records: Records, executed: GtidSet, idempotent: Container[str]) -> None:
        """Stages groups one after the other, until the batch is there. What can't be read is
        forgotten: it is said when the group is staged in its turn.

        It ends at a statement: what rows behind it mean is known when it has been carried out."""
        self._forget()
        self._batch_is_there.clear()
        planner = Planner(self._apply)
        batch = planner.batch(records)
        group = planner.group(batch, 0)
        while group is not None and group.with_rows:
            known = replace(group, executed=executed, idempotent=idempotent)
            reading = self._stager.read(self._stager.ready(known))
            if not self._keep(reading):
                return
            staged = reading.whole()
            self._stager.learn(staged)
            planner.observe(group, staged.changes)
            if len(self._read) == _GROUPS or self._batch_is_there.is_set():
                return
            executed = executed.union(group.gtids)
            group = planner.group(batch, group.last)

    def _keep(self, reading: Reading) -> bool:
        """Whether the group is there, so that the next one may be read. Where a worker is to try
        again, that is done on the group's way, and counted."""
        if not reading.is_worth_a_retry:
            self._stager.drop(reading)
            return False
        with self._lock:
            self._read.append(reading)
        return reading.is_whole

    def has(self, group: Group) -> bool:
        """Whether this very group is there: ``take`` gives it at once, in any thread."""
        self._batch_is_there.set()
        with self._lock:
            return bool(self._read) and self._read[0].group.reads_as(group)

    def take(self, group: Group) -> Reading | None:
        """What was staged of this very group, once; whose it is then."""
        if not self.has(group):
            self._forget()
            return None
        with self._lock:
            return replace(self._read.popleft(), group=group)

    def _forget(self) -> None:
        with self._lock:
            while self._read:
                self._stager.drop(self._read.popleft())
