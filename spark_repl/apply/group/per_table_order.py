"""PerTableOrder: without commit order each table takes its parts of the groups by itself, in log
order.

A part has two steps: it is checked (planned on its table, its files written: all that can fail by
data), then committed. Between them the parts of a group *meet*.

Invariant: nothing of a group is committed before all its parts were found to fit. So a transaction
is in all of its tables or in none, except while a group is being committed; if that is cut off (a
crash, storage that fails for good), the next start completes it, and no cut is published before.
Where a part fails, none of its group is committed and all tables of the group are stuck: they take
no later group, which then can't be committed to its other tables either. Groups that meet no stuck
table go on, while at most ``groups_max`` are under way. A part that is planned anew behind the
meeting (a retry, somebody's OPTIMIZE) is checked anew; it can only fail if somebody else has
changed the table's rows, and says so.

No deadlock: a part waits for the parts before it in its lane, and at the meeting for those of its
own group. A group enters all its lanes at once, and groups enter in the order of the log. So the
first group that is not done stands at the head of all its lanes, each a thread of its own: none of
its parts waits for another group, and each comes to the meeting or breaks it. Meanwhile it holds
the lock of its own table alone; whoever else wants that one (compaction) holds no other.
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
    """Where the parts of one group wait for each other, by table. Any thread may call it."""

    def __init__(self, tables: Iterable[str]) -> None:
        self._awaited = set(tables)
        self._broken = False
        self._changed = threading.Condition()

    def comes(self, table: str) -> None:
        """Returns when all parts of the group fit. Raises Withdrawn when one doesn't."""
        with self._changed:
            self._awaited.discard(table)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._broken or not self._awaited)
            if self._awaited:
                raise Withdrawn("another table can't take its part of this group")

    def breaks(self) -> None:
        """A part can't come. Of no effect when all have been there."""
        with self._changed:
            self._broken = True
            self._changed.notify_all()

    @property
    def is_held(self) -> bool:
        """Whether all were there, so that each may be committed."""
        return not self._awaited


class PerTableOrder:
    """A ``CommitStrategy``. ``write_part`` writes one table's part of a group, with retries. It is
    called for each table in the order in which the groups entered, and calls its argument between
    check and commit. Only one thread calls ``enter``."""

    # As long as MySQL's queue of assigned groups would be, had it one thread for each of them.
    groups_max, reads_on = 64, True
    idle_max = 256
    """so many threads stay for tables that have nothing to do"""

    def __init__(
        self,
        order: CommitOrder,
        write_part: Callable[[StagedGroup, Callable[[], None]], object],
    ) -> None:
        self._order, self._write_part = order, write_part
        self._lanes: dict[str, Pool] = {}
        self._queued = Counter[str]()  # parts that have not ended, by table
        self._parts: dict[int, list[Future[None]]] = {}  # by slot
        self._meetings: list[Meeting] = []  # of groups that may be under way
        self._lock = threading.Lock()
        self._running = 0
        self._stuck: set[str] = set()
        self._closed = False

    def refuse(self) -> None:
        """A group can't be entered, so none behind it may be."""
        self._closed = True

    def enter(self, staged: StagedGroup) -> None:
        """Queues a part for each table. Raises CommitOrderError behind a group that was refused."""
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
            parts.append(self._lanes[name].submit(self._one, name, part, meeting))
        self._parts[staged.group.slot] = parts

    def _end_idle(self) -> None:
        """End the lanes that have nothing to do, where there are many: each is a thread."""
        if len(self._lanes) <= self.idle_max:
            return
        with self._lock:
            idle = [name for name in self._lanes if name not in self._queued]
        for name in idle:
            self._lanes.pop(name).shutdown(wait=False)

    def _one(self, name: str, part: StagedGroup, meeting: Meeting) -> None:
        with self._lock:
            self._running += 1
        try:
            if name in self._stuck:
                raise CommitOrderError("a group before this one failed in its table", number=3030)
            self._write_part(part, partial(meeting.comes, name))
        except BaseException as error:
            self._stuck.add(name)
            meeting.breaks()
            if isinstance(error, RowError) and meeting.is_held:
                raise _changed_by_others(error) from error
            raise
        finally:
            with self._lock:
                self._running -= 1
                self._queued[name] -= 1
                self._queued += Counter()  # drops what is zero

    def write(self, staged: StagedGroup, begins: Callable[[], None]) -> None:
        """Wait for the group's parts, then for the turn of its cut: the tables may have the group
        before that. ``begins`` is not called: nobody waits for it."""
        self.finish(staged.group)
        self._order.wait_to_commit(staged.group)

    def finish(self, group: Group) -> None:
        """Returns when all parts of the group are in their tables.

        Raises what failed otherwise, when no part is under way any more. Only if nothing but rows
        that don't fit failed it is a RowError, the first one in the log, and no part is committed.
        """
        parts = self._parts.pop(group.slot)
        errors = [error for part in parts if (error := part.exception()) is not None]
        errors = [error for error in errors if not isinstance(error, Withdrawn)]
        if errors:
            raise min(errors, key=_rank)

    @contextmanager
    def standstill(self) -> Iterator[bool]:
        """Whether no table is being written; while it lasts none begins."""
        with self._lock:
            yield not self._running

    def close(self) -> None:
        """Parts that have not met by now never will."""
        for lane in self._lanes.values():
            lane.shutdown(wait=False, cancel_futures=True)
        for meeting in self._meetings:
            meeting.breaks()
        for lane in self._lanes.values():
            lane.shutdown(wait=True)


def _rank(error: BaseException) -> tuple[int, int]:
    """Which of a group's errors is said: a row that doesn't fit only if that is all."""
    if isinstance(error, RowError):
        return 2, RelayPosition.parse(str(error.position)).packed
    return int(isinstance(error, CommitOrderError)), 0


def _changed_by_others(fault: SparkReplError) -> TargetError:
    return TargetError(
        f"rows that fitted when their group was checked don't any more: {fault.message}",
        number=fault.number,
        position=fault.position,
        table=fault.table,
        hint="somebody else changed the table meanwhile, and other tables may have their part of"
        " the group: mend the rows, or copy the table again, and start again",
    )
