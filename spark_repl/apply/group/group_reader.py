"""GroupReader: has the workers read groups one after the other, in the order of the log.

While one group commits, the next one is read, and then waits for its turn. A worker with a
temporary failure reads only its own spans again (WL#6964). What other workers have read remains,
the next group is read meanwhile, and only the group's commit waits for the pause.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import LogError, Stopped
from ...observe.reports.worker_status import STAGING
from ...position import RelayPosition
from ...runtime.threads import Pool
from .stager import drop_staged

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from ...decode.stage_task import Staged, StageTask
    from ...observe.reports.applier_status import ApplierStatus
    from ...runtime.retry import Retries
    from ...schedule.group import Group, StagedGroup
    from .stager import ReadAttempt, Stager


@dataclass(frozen=True)
class PendingRead:
    """An attempt to read a group, with the ``parts`` of its workers as they arrive."""

    attempt: ReadAttempt
    parts: Sequence[Future[Staged]]

    @classmethod
    def of(
        cls, attempt: ReadAttempt, read_again: Callable[[StageTask], Staged], retries: Retries
    ) -> PendingRead:
        """Start to read the tasks that failed again, each in its own thread; return immediately."""
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
        """Return the number of row changes in the group, or None while a worker retries."""
        return self.attempt.staged_group().changes if self.attempt.is_complete else None

    def wait(self) -> StagedGroup:
        """Return the group when every worker has read its part. If a worker failed, raise its error
        when all workers have ended. An error without a position has priority, then the error at the
        first position."""
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
    """Reads groups. Call ``submit`` for groups in the order of the log; ``finish`` waits until a
    group is read."""

    def __init__(self, stager: Stager, status: ApplierStatus, retries: Retries) -> None:
        self.stager, self._status, self._retries = stager, status, retries
        self._thread = Pool(1, thread_name_prefix="stage")

    def submit(self, group: Group) -> Future[PendingRead]:
        """Return immediately a future of the group. It has its result when every worker has tried
        once to read the group. It raises OSError if no task could be started."""
        return self._thread.submit(self._begin, group)

    def _begin(self, group: Group) -> PendingRead:
        self._status.works(group, STAGING)
        attempt = self._retries.run(lambda: self.stager.read(group), slot=group.slot)
        return PendingRead.of(attempt, self.stager.read_again, self._retries)

    def finish(self, pending: PendingRead) -> StagedGroup:
        """Return the group after it is read. Raise LogError, DecodeError and OSError, and
        GivenUpError after all attempts have failed."""
        try:
            staged = pending.wait()
            self.stager.check_cascades(staged)
        except BaseException:
            drop_staged(pending.attempt)
            raise
        return staged

    def read_again(self, group: Group, workers: Container[int] | None = None) -> StagedGroup:
        """Read a group from the relay log again, in the caller's thread, into a new folder. If
        ``workers`` are given, read only their parts."""
        self._status.works(group, STAGING)
        attempt = self.stager.read(group, workers)
        return self.finish(PendingRead.of(attempt, self.stager.read_again, self._retries))

    def close(self) -> None:
        """Return when all reading has ended."""
        self._thread.shutdown(wait=True, cancel_futures=True)
