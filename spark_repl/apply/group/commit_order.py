"""CommitOrder: groups commit in the order in which they were dispatched (WL#6813).

Invariant: the committed groups are always a prefix of the log. Every group takes a slot when it is
dispatched, whatever its transactions are. Its first commit waits until all earlier slots have
ended. After a slot has failed, every later one is turned away with MySQL's error 3030.

A ``CommitStrategy`` defines how tables take groups. With ``apply.preserve_commit_order`` they take
one group after the other (``StrictOrder``). Without it each table proceeds on its own
(``PerTableOrder``), and only the low-water mark and the cuts keep the order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol

from ...errors import CommitOrderError

if TYPE_CHECKING:
    from ...schedule.group import Group, StagedGroup

_XA_RETRY = (
    "XA_RETRY: The resource manager is not able to commit the transaction branch at this time."
    " Please retry later: the branch stays prepared."
)
_TURNED_AWAY = (
    "Replica worker has stopped after at least one previous worker encountered an error when"
    " replica-preserve-commit-order was enabled. To preserve commit order, the last transaction"
    " executed by this thread has not been committed. When restarting the replica after fixing any"
    " failed threads, you should fix this worker as well."
)


def turned_away(*, ends_branch: bool = False) -> CommitOrderError:
    """Return the error of a transaction after a failed one. The number is 3030, or 3197 if the
    transaction was to end an XA branch."""
    if ends_branch:
        return CommitOrderError(_XA_RETRY, number=3197)
    return CommitOrderError(_TURNED_AWAY, number=3030)


class CommitOrder:
    """A queue of slots. One thread calls ``dispatch``; any thread may call the rest.

    ``on_wait`` is called with (slot, True) when a slot's wait begins, and with (slot, False) when
    it ends. With ``PerTableOrder`` the slots order only the cuts.
    """

    def __init__(self, on_wait: Callable[[int, bool], None] | None = None) -> None:
        self._turn = threading.Condition()
        self._next = self._head = 0  # next slot to give out; first slot that has not ended
        self._failed: int | None = None
        self._done: set[int] = set()
        self._on_wait = on_wait or (lambda slot, begins: None)

    def dispatch(self) -> int:
        """Return the slot of the next group, in the order of the log."""
        with self._turn:
            slot, self._next = self._next, self._next + 1
            return slot

    def wait(self, slot: int, *, ends_branch: bool = False) -> None:
        """Return when it is the slot's turn. Raise CommitOrderError if an earlier slot failed, with
        the number 3030, or 3197 if the group was to end an XA branch."""
        with self._turn:
            if self._head != slot:
                self._on_wait(slot, True)
                self._turn.wait_for(lambda: self._head == slot or self._turns_away(slot))
                self._on_wait(slot, False)
            if self._turns_away(slot):
                raise turned_away(ends_branch=ends_branch)

    def _turns_away(self, slot: int) -> bool:
        """Return whether a slot before this one failed. Later failures do not matter to it."""
        return self._failed is not None and self._failed < slot

    def done(self, slot: int) -> None:
        """End a slot whose group is committed, or was empty, so that the next one may commit."""
        with self._turn:
            self._done.add(slot)
            while self._head in self._done:
                self._done.remove(self._head)
                self._head += 1
            self._turn.notify_all()

    def fail(self, slot: int) -> None:
        """End a slot whose group can't be committed. All later slots then fail also."""
        with self._turn:
            self._failed = slot if self._failed is None else min(slot, self._failed)
            self._turn.notify_all()

    @property
    def failed(self) -> bool:
        return self._failed is not None

    def wait_to_commit(self, group: Group) -> None:
        """Return when it is the turn of a group of rows. Raise what ``wait`` does."""
        self.wait(group.slot, ends_branch=bool(group.xa.ended))


class CommitStrategy(Protocol):
    """The way in which the changes of groups are committed to tables.

    One thread calls ``enter`` or ``refuse`` for each group, in the order of the log. Then a
    separate thread for each group that entered calls ``write``. ``groups_max``: how many groups may
    be between their dispatch and their cut. ``reads_on``: whether the next group is read while
    earlier ones are still being written.
    """

    groups_max: int
    reads_on: bool

    def enter(self, staged: StagedGroup) -> None:
        """Accept a group that was read. Raise CommitOrderError if no more groups are accepted."""

    def refuse(self) -> None:
        """Record that a group can't be read, so that no later group may enter."""

    def write(self, staged: StagedGroup, begins: Callable[[], None]) -> None:
        """Return when the group is in all of its tables and its turn has come. A strategy may call
        ``begins`` when it begins to write the group's files.

        Raise what ``CommitOrder.wait_to_commit`` and writing raise. After a RowError, which means
        that a row doesn't fit, no table has any change of the group.
        """

    def standstill(self) -> AbstractContextManager[bool]:
        """Return a context that tells whether no later group is being written. No write begins
        within the context."""

    def close(self) -> None:
        """Return when all writes have ended. No group may enter or be written afterwards."""


class StrictOrder:
    """A
    ``CommitStrategy`` that writes each group as a whole, in its turn (WL#6813). ``write_group``
    writes a group to its tables, with retries, and calls its argument when it begins to write
    files."""

    # One group commits while the next one is read and waits; later ones are not read yet.
    groups_max, reads_on = 2, False

    def __init__(
        self,
        order: CommitOrder,
        write_group: Callable[[StagedGroup, Callable[[], None]], object],
    ) -> None:
        self._order, self._write_group = order, write_group

    def enter(self, staged: StagedGroup) -> None:
        """Do nothing: a group waits only for its turn."""

    def refuse(self) -> None:
        """Do nothing: later groups fail when their turn comes."""

    def write(self, staged: StagedGroup, begins: Callable[[], None]) -> None:
        self._order.wait_to_commit(staged.group)
        self._write_group(staged, begins)

    def standstill(self) -> AbstractContextManager[bool]:
        """Return a context of True: only the group whose turn it is writes."""
        return nullcontext(True)

    def close(self) -> None:
        """Do nothing: only the groups' own threads write."""
