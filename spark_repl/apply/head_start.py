"""HeadStart: a stream's first groups, staged while Spark starts the stream.

That takes half a second of another Python process, and what the first batch will begin with is in
the log already. The batch decides all the same: what was staged counts when the groups that are cut
from the batch are the same ones, and else is dropped.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Container

from ..config import Apply
from ..decode.stage import Staged
from ..gtid import GtidSet
from .plan import Group, Planner, Records, changed, same_group
from .stager import Stager

# Beyond these the batch is there; each takes room below ``_repl/staging``.
_GROUPS = 2


class HeadStart:
    """``begin`` and ``take`` are for the one thread that stages. ``read`` reads a group as it is
    shared out. Nothing is said of it in the status, where the groups have no slot yet."""

    def __init__(self, read: Callable[[Group], list[Staged]], stager: Stager, apply: Apply) -> None:
        self._read, self._stager, self._apply = read, stager, apply
        self._found: deque[tuple[Group, list[Staged]]] = deque()
        self._lock = threading.Lock()
        self._batch_is_there = threading.Event()

    def begin(self, records: Records, executed: GtidSet, idempotent: Container[str]) -> None:
        """Stages groups one after the other, until the batch is there. Raises what ``read`` does:
        nobody has to listen, it is said again when the group is staged in its turn.

        Statements are passed over, as if done: what is staged is what the log says of rows, and
        where it doesn't say all (binlog_row_metadata=MINIMAL) a table that is not there yet is an
        error. A statement that stops the applier stops it before what was staged behind it."""
        self._forget()
        self._batch_is_there.clear()
        planner = Planner(self._apply)
        batch = planner.batch(records)
        group = planner.group(batch, 0)
        while group is not None:
            if group.with_rows:
                group.executed, group.idempotent = executed, idempotent
                staged = self._stage(group)
                planner.observe(group, changed(staged))
                if len(self._found) == _GROUPS or self._batch_is_there.is_set():
                    return
            executed = executed.union(group.gtids)
            group = planner.group(batch, group.last)

    def _stage(self, group: Group) -> list[Staged]:
        staged: list[Staged] | None = None
        try:
            self._stager.share_out(group)
            staged = self._read(group)
        finally:
            if staged is None:
                self._stager.drop(group)
        self._stager.learn(staged)
        with self._lock:
            self._found.append((group, staged))
        return staged

    def has(self, group: Group) -> bool:
        """Whether this very group is there: ``take`` gives it at once, in any thread."""
        self._batch_is_there.set()
        with self._lock:
            return bool(self._found) and same_group(self._found[0][0], group)

    def take(self, group: Group) -> list[Staged] | None:
        """What was staged of this very group, once; whose it is then."""
        if not self.has(group):
            self._forget()
            return None
        with self._lock:
            early, staged = self._found.popleft()
        group.worker, group.folder, group.already = early.worker, early.folder, early.already
        return staged

    def _forget(self) -> None:
        with self._lock:
            while self._found:
                self._stager.drop(self._found.popleft()[0])
