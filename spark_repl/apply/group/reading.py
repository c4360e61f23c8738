"""Reading: what a group's workers have read of it, each for itself (WL#6964).

A worker that fails for a while reads its spans again, alone and in its own time: what others have
read stays as it is, and nobody waits for its pause but the group's landing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import LogError, Stopped
from ...position import RelayPosition
from ...runtime.retry import disk_full, temporary
from ...runtime.threads import Pool
from ...runtime.workers import all_of
from ...schedule.group import Group, StagedGroup

if TYPE_CHECKING:
    from ...decode.staged import Staged, StageTask
    from ...runtime.retry import Retries


@dataclass(frozen=True)
class Reading:
    """A group that every worker has tried to read once: ``outcomes`` of ``tasks``, in their order;
    the rest as in ``StagedGroup``."""

    group: Group
    tasks: Sequence[StageTask]
    outcomes: Sequence[Staged | Exception]
    folder: str | None
    already: int

    @property
    def errors(self) -> list[Exception]:
        return [outcome for outcome in self.outcomes if isinstance(outcome, Exception)]

    @property
    def is_whole(self) -> bool:
        """Whether everything is there."""
        return not self.errors

    @property
    def is_worth_a_retry(self) -> bool:
        """Whether everything is there, or will be, for all that is known."""
        return all(temporary(error) and not disk_full(error) for error in self.errors)

    def whole(self) -> StagedGroup:
        """Raises the first error, where there is one."""
        return self.staged(all_of(self.outcomes))

    def staged(self, parts: Sequence[Staged]) -> StagedGroup:
        return StagedGroup(self.group, parts, self.folder, self.already)


@dataclass(frozen=True)
class Completion:
    """A reading, and the ``parts`` of its workers as they come."""

    reading: Reading
    parts: Sequence[Future[Staged]]

    @classmethod
    def of(
        cls, reading: Reading, read_again: Callable[[StageTask], Staged], retries: Retries
    ) -> Completion:
        """Has what failed read again, each worker in a thread of its own; returns at once."""
        failed = len(reading.errors)
        pool = Pool(max(1, failed), f"retry-{reading.group.slot}")
        parts: list[Future[Staged]] = []
        for task, outcome in zip(reading.tasks, reading.outcomes, strict=True):
            if isinstance(outcome, Exception):
                work = _again(task, outcome, read_again)
                slot, failing = reading.group.slot, lambda worker=task.worker: (worker,)
                parts.append(pool.submit(retries.run, work, slot=slot, failed=failing))
            else:
                parts.append(Future())
                parts[-1].set_result(outcome)
        pool.shutdown(wait=False)
        return cls(reading, parts)

    @property
    def changes(self) -> int | None:
        """How many row changes the group holds; None while a worker tries again."""
        return self.reading.whole().changes if self.reading.is_whole else None

    def wait(self) -> StagedGroup:
        """The group, when all of it is there. Raises what a worker failed with, when none is at it
        any more: what is not about a place in the log first, else the first place."""
        errors = [error for part in self.parts if (error := part.exception()) is not None]
        if errors:
            raise min(errors, key=_rank)
        return self.reading.staged([part.result() for part in self.parts])


def _again(
    task: StageTask, error: Exception, read_again: Callable[[StageTask], Staged]
) -> Callable[[], Staged]:
    """The first attempt was made, and has failed."""
    first = [error]

    def work() -> Staged:
        if first:
            raise first.pop()
        return read_again(task)

    return work


def _rank(error: BaseException) -> tuple[int, int]:
    if isinstance(error, Stopped):
        return 2, 0
    if isinstance(error, LogError) and error.position is not None:
        return 1, RelayPosition.parse(error.position).packed
    return 0, 0
