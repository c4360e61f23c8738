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

from ..schedule.planner import Planner

if TYPE_CHECKING:
    from ..config import Apply
    from ..gtid import GtidSet
    from ..schedule.group import Group, Records, StagedGroup
    from .stager import Stager

# Beyond these the batch is there; each takes room below ``_repl/staging``.
_GROUPS = 2


class HeadStart:
    """``begin`` and ``take`` are for the one thread that stages. Nothing is said of it in the
    status, where the groups have no slot yet."""

    def __init__(self, stager: Stager, apply: Apply) -> None:
        self._stager, self._apply = stager, apply
        self._staged: deque[StagedGroup] = deque()
        self._lock = threading.Lock()
        self._batch_is_there = threading.Event()

    def begin(self, records: Records, executed: GtidSet, idempotent: Container[str]) -> None:
        """Stages groups one after the other, until the batch is there. Raises what staging does:
        nobody has to listen, it is said again when the group is staged in its turn.

        It ends at a statement: what rows behind it mean is known when it has been carried out."""
        self._forget()
        self._batch_is_there.clear()
        planner = Planner(self._apply)
        batch = planner.batch(records)
        group = planner.group(batch, 0)
        while group is not None and group.with_rows:
            known = replace(group, executed=executed, idempotent=idempotent)
            staged = self._stage(known)
            planner.observe(group, staged.changes)
            if len(self._staged) == _GROUPS or self._batch_is_there.is_set():
                return
            executed = executed.union(group.gtids)
            group = planner.group(batch, group.last)

    def _stage(self, group: Group) -> StagedGroup:
        staged = self._stager.stage(self._stager.ready(group))
        self._stager.learn(staged)
        with self._lock:
            self._staged.append(staged)
        return staged

    def has(self, group: Group) -> bool:
        """Whether this very group is there: ``take`` gives it at once, in any thread."""
        self._batch_is_there.set()
        with self._lock:
            return bool(self._staged) and self._staged[0].group.reads_as(group)

    def take(self, group: Group) -> StagedGroup | None:
        """What was staged of this very group, once; whose it is then."""
        if not self.has(group):
            self._forget()
            return None
        with self._lock:
            return replace(self._staged.popleft(), group=group)

    def _forget(self) -> None:
        with self._lock:
            while self._staged:
                self._stager.drop(self._staged.popleft())
