"""Staging: groups are read one after the other, in the order of the log, by a thread of its own.

While one group commits, the next is being staged, and waits for its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from ..errors import SparkReplError
from ..observe.worker_status import STAGING
from .head_start import HeadStart

if TYPE_CHECKING:
    from ..config import Apply
    from ..gtid import GtidSet
    from ..observe.applier_status import ApplierStatus
    from ..runtime.retry import Retries
    from ..schedule.group import Group, Records, StagedGroup
    from .stager import Stager


class Staging:
    """``staged`` is told of each group that was read, in the order of the log, ``refused`` when one
    can't be; both in the thread that reads."""

    def __init__(
        self,
        stager: Stager,
        apply: Apply,
        status: ApplierStatus,
        retries: Retries,
        *,
        staged: Callable[[StagedGroup], None],
        refused: Callable[[], None],
    ) -> None:
        self._stager, self._status, self._retries = stager, status, retries
        self._staged, self._refused = staged, refused
        self._head_start = HeadStart(stager, apply)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="stage")

    def begin_ahead(self, records: Records, executed: GtidSet, idempotent: Container[str]) -> None:
        """Has the first groups of what a stream will bring staged, while the stream is started."""
        self._thread.submit(self._head_start.begin, records, executed, idempotent)

    def submit(self, group: Group) -> Future[StagedGroup]:
        """The group, as soon as it is read. Its result raises LogError, DecodeError, OSError;
        TargetError when all attempts were in vain."""
        if not self._head_start.has(group):
            return self._thread.submit(self._stage, group)
        ready: Future[StagedGroup] = Future()
        try:
            ready.set_result(self._stage(group))
        except SparkReplError as error:  # raised in the group's turn, as any other of staging
            ready.set_exception(error)
        return ready

    def _stage(self, group: Group) -> StagedGroup:
        try:
            staged = self._retries.run(lambda: self._read(group), slot=group.slot)
        except BaseException:
            self._refused()
            raise
        self._staged(staged)
        return staged

    def _read(self, group: Group) -> StagedGroup:
        self._says(group)
        return self._checked(self._head_start.take(group) or self._stager.stage(group))

    def again(self, group: Group) -> StagedGroup:
        """Read anew, in the caller's thread: a retry begins with the relay log again."""
        self._says(group)
        return self._checked(self._stager.stage(group))

    def _says(self, group: Group) -> None:
        """Also of one that was read ahead: its slot is known now."""
        self._status.works(group.slot, group.shares, STAGING, str(group.gtids))

    def _checked(self, staged: StagedGroup) -> StagedGroup:
        try:
            self._stager.check_cascades(staged)
        except SparkReplError:
            self._stager.drop(staged)
            raise
        return staged

    def learn(self, staged: StagedGroup) -> None:
        self._stager.learn(staged)

    def drop(self, staged: StagedGroup) -> None:
        """Removes what was staged of a group."""
        self._stager.drop(staged)

    @property
    def task_retries(self) -> int:
        """Attempts at a task that Spark has made anew."""
        return self._stager.task_retries

    @property
    def seconds(self) -> float:
        return self._stager.seconds

    def close(self) -> None:
        """Returns when nothing is read any more."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def clean(self) -> None:
        self._stager.clean()
