"""Staging: groups are read one after the other, in the order of the log, by a thread of its own.

While one group commits, the next is being staged, and waits for its turn. Where a worker has to
read again, the next group is begun all the same; a second thread hands them on in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from concurrent.futures import Future
from typing import TYPE_CHECKING

from ...observe.reports.worker_status import STAGING
from ...runtime.threads import Pool
from .cascading import Cascading
from .head_start import HeadStart
from .reading import Completion

if TYPE_CHECKING:
    from ...config import Apply
    from ...gtid import GtidSet
    from ...observe.reports.applier_status import ApplierStatus
    from ...runtime.retry import Retries
    from ...schedule.group import Group, Records, StagedGroup
    from .cut_publisher import CutPublisher
    from .stager import Stager


class Staging:
    """``staged`` is told of each group that was read, in the order of the log, ``refused`` when one
    can't be."""

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
        self._thread = Pool(1, thread_name_prefix="stage")
        self._in_order = Pool(1, thread_name_prefix="staged")

    def begin_ahead(self, records: Records, executed: GtidSet, idempotent: Container[str]) -> None:
        """Has the first groups of what a stream will bring staged, while the stream is started."""
        self._thread.submit(self._head_start.begin, records, executed, idempotent)

    def submit(self, group: Group) -> tuple[Future[Completion], Future[StagedGroup]]:
        """(every worker has tried once, the group is read): the next group is read from the first
        on. The second raises LogError, DecodeError, OSError; GivenUpError when all attempts were in
        vain; CommitOrderError behind a group that can't be read."""
        if self._head_start.has(group):  # at once: the thread may be reading the one behind it
            begun: Future[Completion] = Future()
            begun.set_result(self._begin(group))
        else:
            begun = self._thread.submit(self._begin, group)
        return begun, self._in_order.submit(self._complete, begun)

    def _begin(self, group: Group) -> Completion:
        self._says(group)
        reading = self._head_start.take(group) or self._retries.run(
            lambda: self._stager.read(group), slot=group.slot
        )
        return Completion.of(reading, self._stager.read_again, self._retries)

    def _complete(self, begun: Future[Completion]) -> StagedGroup:
        try:
            staged = self._checked(begun.result())
            try:
                self._staged(staged)
            except BaseException:
                self._stager.drop(staged)
                raise
        except BaseException:
            self._refused()
            raise
        return staged

    def again(self, group: Group, workers: Container[int] | None = None) -> StagedGroup:
        """Read anew, in the caller's thread: a retry begins with the relay log again. Of these
        ``workers`` alone where they are named, in a folder of its own."""
        self._says(group)
        reading = self._stager.read(group, workers)
        return self._checked(Completion.of(reading, self._stager.read_again, self._retries))

    def _says(self, group: Group) -> None:
        """Also of one that was read ahead: its slot is known now."""
        self._status.works(group.slot, group.shares, STAGING, str(group.gtids))

    def _checked(self, completion: Completion) -> StagedGroup:
        try:
            staged = completion.wait()
            self._stager.check_cascades(staged)
        except BaseException:
            self._stager.drop(completion.reading)
            raise
        return staged

    def learn(self, staged: StagedGroup) -> None:
        self._stager.learn(staged)

    def keep(self, staged: StagedGroup) -> None:
        """Keeps what tables in quarantine would have of a group that has landed."""
        self._stager.quarantining.keep(staged)

    def cascading(self, cuts: CutPublisher) -> Cascading:
        """Who adds to a group what foreign keys have changed with it."""
        return Cascading(self._stager, cuts)

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
        self._in_order.shutdown(wait=True, cancel_futures=True)

    def clean(self) -> None:
        self._stager.clean()
