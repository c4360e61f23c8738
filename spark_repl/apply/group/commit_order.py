"""Commit order: groups commit in the order in which they were dispatched (WL#6813).

Invariant: what has been committed is always a prefix of the log. Every group takes a slot when it
is dispatched, whatever its transactions are; its first commit waits until all slots before are done
with. Once one has failed, every later one is turned away with MySQL's error 3030.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from ...errors import CommitOrderError

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
    """What is said of a transaction behind one that failed: 3030, or 3197 where it was to end an XA
    branch."""
    if ends_branch:
        return CommitOrderError(_XA_RETRY, number=3197)
    return CommitOrderError(_TURNED_AWAY, number=3030)


class CommitOrder:
    """A queue of slots. ``dispatch`` is the coordinator's; the rest may be called by any thread.

    ``on_wait`` is told where a slot's wait begins (True) and where it ends. Where the tables go on
    in lanes the slots order the cuts alone.
    """

    def __init__(self, on_wait: Callable[[int, bool], None] | None = None) -> None:
        self._turn = threading.Condition()
        self._next = self._head = 0  # slots given out; slots that are done with
        self._failed: int | None = None
        self._done: set[int] = set()
        self._on_wait = on_wait or (lambda slot, begins: None)

    def dispatch(self) -> int:
        """The slot of the next group, in the order of the log."""
        with self._turn:
            slot, self._next = self._next, self._next + 1
            return slot

    def wait(self, slot: int, *, ends_branch: bool = False) -> None:
        """Returns when it is the slot's turn. Raises CommitOrderError when one before it failed:
        3030, or 3197 where an XA branch was to end."""
        with self._turn:
            if self._head != slot:
                self._on_wait(slot, True)
                self._turn.wait_for(lambda: self._head == slot or self._turns_away(slot))
                self._on_wait(slot, False)
            if self._turns_away(slot):
                raise turned_away(ends_branch=ends_branch)

    def _turns_away(self, slot: int) -> bool:
        """Whether one before the slot failed. One behind it takes nobody's turn, and gives none."""
        return self._failed is not None and self._failed < slot

    def done(self, slot: int) -> None:
        """The slot's group has landed (or held nothing): the next one may commit."""
        with self._turn:
            self._done.add(slot)
            while self._head in self._done:
                self._done.remove(self._head)
                self._head += 1
            self._turn.notify_all()

    def fail(self, slot: int) -> None:
        """The slot's group can't be committed: all later ones are turned away."""
        with self._turn:
            self._failed = slot if self._failed is None else min(slot, self._failed)
            self._turn.notify_all()

    @property
    def failed(self) -> bool:
        return self._failed is not None
