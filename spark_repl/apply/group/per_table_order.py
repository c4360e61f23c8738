"""PerTableOrder: without commit order, each table applies its parts of the groups on its own.

Each table applies its parts in log order. A part has two steps. First the applier checks the part:
it plans the part on its table and writes its files, so that every failure that the data can cause
happens here. Then it commits the part. Between the two steps the parts of a group *meet*.

Invariant: no part of a group is committed before all parts of the group are found to fit. So a
transaction is in all of its tables or in none, except while a group is being committed. If the
commit is cut off (a crash, storage that fails for good), the next start completes it, and publishes
no cut before.

If a part fails, none of its group is committed, and all tables of the group are stuck. A stuck
table takes no later group, so such a group can't be committed to its other tables either. Groups
without a stuck table continue, while at most ``groups_max`` are in progress. A part that is planned
again after the meeting (a retry, a user's OPTIMIZE) is also checked again. That check can fail only
if another writer has changed the table's rows, and the error reports this.

No deadlock: a part waits for the earlier parts in its lane, and at the meeting for the other parts
of its group. A group enters all its lanes at once, and groups enter in the order of the log. So the
first unfinished group is at the head of all its lanes, each of which is a thread of its own. None
of its parts waits for another group, and each part reaches the meeting or breaks it. Meanwhile a
part holds only the lock of its own table. Compaction, which also uses that lock, holds no other
table's lock.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from ...errors import CommitOrderError, RowError, SparkReplError, TargetError, Withdrawn
from ...position import RelayPosition
from ...runtime.threads import Pool

if TYPE_CHECKING:
    from ...schedule.group import Group, StagedGroup
    from .commit_order import CommitOrder


class Meeting:
    """A barrier at which the parts of one group, one per table, wait for each other. Any thread may
    call it."""

    def __init__(self, tables: Iterable[str]) -> None:
        self._awaited = set(tables)
        self._broken = False
        self._changed = threading.Condition()

    def comes(self, table: str) -> None:
        """Return when all parts of the group have been checked and fit. Raise Withdrawn if one does
        not fit."""
        with self._changed:
            self._awaited.discard(table)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._broken or not self._awaited)
            if self._awaited:
                raise Withdrawn("another table can't take its part of this group")

    def breaks(self) -> None:
        """Break the barrier because a part can't reach it. Do nothing if all parts have reached
        it."""
        with self._changed:
            self._broken = True
            self._changed.notify_all()

    @property
    def is_held(self) -> bool:
        """Return whether all parts have reached the barrier, so that each may be committed."""
        return not self._awaited


class PerTableOrder:
    """A ``CommitStrategy`` that orders the parts of each table, but not the groups.

    ``write_part`` writes one table's part of a group, with retries. For each table it is called in
    the order in which the groups entered, and it calls its argument between check and commit. Only
    one thread calls ``enter``.
    """

    # As long as MySQL's queue of assigned groups would be with one thread for each group.
    groups_max, reads_on = 64, True
    idle_max = 256
    """number of threads that are kept for tables without work"""

    def __init__(
        self,
        order: CommitOrder,
        write_part: Callable[[StagedGroup, Callable[[], None]], object],
    ) -> None:
        self._order, self._write_part = order, write_part
        self._lanes: dict[str, Pool] = {}
        self._queued = Counter[str]()  # parts that have not ended, by table
        self._parts: dict[int, list[Future[None]]] = {}  # by slot
        self._meetings: list[Meeting] = []  # of groups that may be in progress
        self._lock = threading.Lock()
        self._running = 0
        self._stuck: set[str] = set()
        self._closed = False

    def refuse(self) -> None:
        """Record that a group can't enter, so that no later group may enter."""
        self._closed = True

    def enter(self, staged: StagedGroup) -> None:
        """Queue a part for each table of the group. Raise CommitOrderError after a group that was
        refused."""
        if self._closed:
            raise CommitOrderError("a group before this one could not be read", number=3030)
        meeting = Meeting(staged.tables)
        unfinished = [existing for existing in self._meetings if not existing.is_held]
        self._meetings = [*unfinished, meeting]
        parts = []
        with self._lock:
            self._queued.update(staged.tables)
        self._end_idle()
        for name in staged.tables:
            if name not in self._lanes:
                self._lanes[name] = Pool(1, thread_name_prefix=f"lane-{name}")
            part = staged.of_table(name)
            parts.append(self._lanes[name].submit(self._run_part, name, part, meeting))
        self._parts[staged.group.slot] = parts

    def _end_idle(self) -> None:
        """End the lanes without work if there are more than ``idle_max`` lanes: each lane is a
        thread."""
        if len(self._lanes) <= self.idle_max:
            return
        with self._lock:
            idle = [name for name in self._lanes if name not in self._queued]
        for name in idle:
            self._lanes.pop(name).shutdown(wait=False)

    def _run_part(self, name: str, part: StagedGroup, meeting: Meeting) -> None:
        with self._lock:
            self._running += 1
        try:
            if name in self._stuck:
                raise CommitOrderError("a group before this one failed in its table", number=3030)
            self._write_part(part, partial(meeting.comes, name))
        except BaseException as error:
            self._stuck.add(name)
            meeting.breaks()
            # All parts fitted when they were checked, and others may be committed already.
            if isinstance(error, RowError) and meeting.is_held:
                raise _changed_by_others(error) from error
            raise
        finally:
            with self._lock:
                self._running -= 1
                self._queued[name] -= 1
                self._queued += Counter()  # removes tables with no part

    def write(self, staged: StagedGroup, begins: Callable[[], None]) -> None:
        """Wait for the group's parts, then for the turn of its cut; the tables may have the group
        before that turn. ``begins`` is not called, because no thread waits for it."""
        self.finish(staged.group)
        self._order.wait_to_commit(staged.group)

    def finish(self, group: Group) -> None:
        """Return when all parts of the group are in their tables.

        If a part failed, raise its error as soon as no part of the group is in progress. Raise
        RowError, the first one in the log, only if all failures are rows that don't fit. In that
        case no part is committed.
        """
        parts = self._parts.pop(group.slot)
        errors = [error for part in parts if (error := part.exception()) is not None]
        # A part withdraws because of another part's error, which is among these.
        errors = [error for error in errors if not isinstance(error, Withdrawn)]
        if errors:
            raise min(errors, key=_rank)

    @contextmanager
    def standstill(self) -> Iterator[bool]:
        """Return a context that tells whether no table is being written. No write begins within the
        context."""
        with self._lock:
            yield not self._running

    def close(self) -> None:
        """Break the open meetings, cancel the queued parts, and return when no part runs."""
        for lane in self._lanes.values():
            lane.shutdown(wait=False, cancel_futures=True)
        for meeting in self._meetings:  # first: parts that wait in one would never end
            meeting.breaks()
        for lane in self._lanes.values():
            lane.shutdown(wait=True)


def _rank(error: BaseException) -> tuple[int, int]:
    """Return the rank of an error; the lowest is raised. A row that doesn't fit ranks last."""
    if isinstance(error, RowError):
        return 2, RelayPosition.parse(str(error.position)).packed
    return int(isinstance(error, CommitOrderError)), 0


def _changed_by_others(fault: SparkReplError) -> TargetError:
    return TargetError(
        f"rows that fitted when their group was checked don't any more: {fault.message}",
        number=fault.number,
        position=fault.position,
        table=fault.table,
        hint="another writer changed the table meanwhile, and other tables may have their part of"
        " the group: correct the rows, or copy the table again, and start again",
    )
