"""GroupReader: has the workers read groups one after the other, in the order of the log.

While one group commits, the next one is read, and then waits for its turn. A worker with a
temporary failure reads only its own spans again (WL#6964). What other workers have read remains,
the next group is read meanwhile, and only the group's commit waits for the pause.

While Spark starts a stream (about half a second), the reader already reads the first groups that
the stream will bring: the head start. They count if the batch is cut into the same groups.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Container, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ...errors import LogError, Stopped
from ...observe.reports.worker_status import STAGING
from ...position import RelayPosition
from ...runtime.threads import Pool
from ...schedule.group import XA_PARTS, Group, Records, StagedGroup
from ...schedule.planner import Planner
from .stager import drop_staged

if TYPE_CHECKING:
    from ...decode.staged import Staged, StageTask
    from ...gtid import GtidSet
    from ...observe.reports.applier_status import ApplierStatus
    from ...runtime.retry import Retries
    from .stager import ReadAttempt, Stager

# The batch arrives while a third group would be read. Each group takes space in ``_repl/staging``.
_GROUPS_AHEAD_MAX = 2


@dataclass(frozen=True)
class PendingRead:
    """An attempt to read a group, and the ``parts`` of its workers as they arrive."""

    attempt: ReadAttempt
    parts: Sequence[Future[Staged]]

    @classmethod
    def of(
        cls, attempt: ReadAttempt, read_again: Callable[[StageTask], Staged], retries: Retries
    ) -> PendingRead:
        """Have the tasks that failed read again, each in a thread of its own; return at once."""
        slot = attempt.group.slot
        pool = Pool(max(1, len(attempt.errors)), f"retry-{slot}")
        parts: list[Future[Staged]] = []
        for task, outcome in zip(attempt.tasks, attempt.outcomes, strict=True):
            if isinstance(outcome, Exception):
                work, failed = _retried(task, outcome, read_again), _worker_of(task)
                parts.append(pool.submit(retries.run, work, slot=slot, failed=failed))
            else:
                parts.append(Future())
                parts[-1].set_result(outcome)
        pool.shutdown(wait=False)
        return cls(attempt, parts)

    @property
    def changes(self) -> int | None:
        """Return how many row changes the group holds, or None while a worker tries again."""
        return self.attempt.staged_group().changes if self.attempt.is_complete else None

    def wait(self) -> StagedGroup:
        """Return the group when every worker has read its part. If a worker failed, raise its error
        when no worker reads any more. An error without a place in the log comes first, else the
        error at the first place."""
        errors = [error for part in self.parts if (error := part.exception()) is not None]
        if errors:
            raise min(errors, key=_rank)
        return self.attempt.with_parts([part.result() for part in self.parts])


def _retried(
    task: StageTask, error: Exception, read_again: Callable[[StageTask], Staged]
) -> Callable[[], Staged]:
    """Return the work of a task whose first attempt has already failed. The work raises that error
    first, so that the retries count the attempt."""
    first = [error]

    def work() -> Staged:
        if first:
            raise first.pop()
        return read_again(task)

    return work


def _worker_of(task: StageTask) -> Callable[[], Sequence[int]]:
    return lambda: (task.worker,)


def _rank(error: BaseException) -> tuple[int, int]:
    if isinstance(error, Stopped):
        return 2, 0
    if isinstance(error, LogError) and error.position is not None:
        return 1, RelayPosition.parse(error.position).packed
    return 0, 0


class GroupReader:
    """``submit`` groups in the order of the log; ``finish`` waits until one is read."""

    def __init__(self, stager: Stager, status: ApplierStatus, retries: Retries) -> None:
        self.stager, self._status, self._retries = stager, status, retries
        self._head_start = HeadStart(stager)
        self._thread = Pool(1, thread_name_prefix="stage")

    def begin_ahead(self, records: Records, executed: GtidSet) -> None:
        """Have the first groups of these records read, while the stream is started. Do nothing
        if the records are not applied as they are in the log."""
        applied, catch_up = self.stager.applied, self.stager.catch_up
        if applied.history.renewed or catch_up.copied or not len(records):
            return
        if not np.isin(records["kind"], XA_PARTS).any():
            idempotent = self.stager.idempotent(executed)
            self._thread.submit(self._head_start.begin, records, executed, idempotent)

    def submit(self, group: Group) -> Future[PendingRead]:
        """Return at once a future of the group. It has its result when every worker has tried once
        to read the group. It raises OSError if no worker could be asked."""
        if self._head_start.has(group):  # without the thread, which may be reading a later group
            begun: Future[PendingRead] = Future()
            begun.set_result(self._begin(group))
            return begun
        return self._thread.submit(self._begin, group)

    def _begin(self, group: Group) -> PendingRead:
        self._status.works(group, STAGING)  # a group that was read ahead had no slot before
        attempt = self._head_start.take(group) or self._retries.run(
            lambda: self.stager.read(group), slot=group.slot
        )
        return PendingRead.of(attempt, self.stager.read_again, self._retries)

    def finish(self, pending: PendingRead) -> StagedGroup:
        """Return the group when it is read. Raise LogError, DecodeError and OSError, and
        GivenUpError after all attempts have failed."""
        try:
            staged = pending.wait()
            self.stager.check_cascades(staged)
        except BaseException:
            drop_staged(pending.attempt)
            raise
        return staged

    def read_again(self, group: Group, workers: Container[int] | None = None) -> StagedGroup:
        """Read a group from the relay log again, in the caller's thread, into a folder of its own.
        Read only the parts of ``workers`` if they are given."""
        self._status.works(group, STAGING)
        attempt = self.stager.read(group, workers)
        return self.finish(PendingRead.of(attempt, self.stager.read_again, self._retries))

    def close(self) -> None:
        """Return when nothing is read any more."""
        self._thread.shutdown(wait=True, cancel_futures=True)


class HeadStart:
    """The first groups of a stream, read before it brings them.

    Only the thread that reads calls ``begin`` and ``take``. The status shows nothing of it, as the
    groups have no slot yet.
    """

    def __init__(self, stager: Stager) -> None:
        self._stager = stager
        self._read: deque[ReadAttempt] = deque()
        self._lock = threading.Lock()
        self._batch_has_come = threading.Event()

    def begin(self, records: Records, executed: GtidSet, idempotent: Container[str]) -> None:
        """Read groups one after the other, until the batch arrives. Forget a group that can't be
        read: its error is raised when the group is read in its turn.

        Stop at a statement: the meaning of later rows is known only after the statement was
        executed.
        """
        self._forget()
        self._batch_has_come.clear()
        planner = Planner(self._stager.settings)
        batch = planner.batch(records)
        group = planner.group(batch, 0)
        while group is not None and group.with_rows:
            planned = replace(group, executed=executed, idempotent=idempotent)
            attempt = self._stager.read(self._stager.share_out(planned))
            if not self._keep(attempt):
                return
            staged = attempt.staged_group()
            self._stager.note_tables(staged)
            planner.observe(group, staged.changes)
            if len(self._read) == _GROUPS_AHEAD_MAX or self._batch_has_come.is_set():
                return
            executed = executed.union(group.gtids)
            group = planner.group(batch, group.last)

    def _keep(self, attempt: ReadAttempt) -> bool:
        """Keep an attempt, and return whether it is complete, so that the next group may be read.
        Retries of a worker begin, and are counted, after the group was dispatched."""
        if not attempt.is_worth_a_retry:
            drop_staged(attempt)
            return False
        with self._lock:
            self._read.append(attempt)
        return attempt.is_complete

    def has(self, group: Group) -> bool:
        """Return whether exactly this group was read. Then ``take`` returns it at once, in any
        thread."""
        self._batch_has_come.set()
        with self._lock:
            return bool(self._read) and self._read[0].group.reads_as(group)

    def take(self, group: Group) -> ReadAttempt | None:
        """Return the attempt to read exactly this group, once, or None. The caller then owns it."""
        if not self.has(group):
            self._forget()
            return None
        with self._lock:
            return replace(self._read.popleft(), group=group)

    def _forget(self) -> None:
        with self._lock:
            while self._read:
                drop_staged(self._read.popleft())
