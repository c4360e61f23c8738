"""TableOrder: in what order the tables take what groups have for them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ...schedule.group import StagedGroup


class TableOrder(Protocol):
    """With commit order the tables take one group after the other (``InOrder``); without it each
    table goes on by itself (``Lanes``), and only the low-water mark and the cuts keep the order.

    ``enter`` or ``refuse`` is called for each group in the order of the log, by one thread; then
    ``bring`` for each that entered, by a thread of the group's own. ``groups_max``: so many groups
    may be between their dispatch and their cut; ``reads_on``: whether the next group is read
    without regard to what is being written.
    """

    groups_max: int
    reads_on: bool

    def enter(self, staged: StagedGroup) -> None:
        """A group was read. Raises CommitOrderError where it can't be taken any more."""

    def refuse(self) -> None:
        """A group can't be read, so none behind it may enter."""

    def bring(
        self, staged: StagedGroup, *, turn: Callable[[], None], begins: Callable[[], None]
    ) -> None:
        """Returns when the group is in all of its tables and its turn has come: ``turn`` waits for
        that. ``begins`` is called, if at all, when its files begin to be written.

        Raises what ``turn`` does, and what writing does: RowError where rows don't fit, and then
        nothing of the group is in a table.
        """

    def standstill(self) -> AbstractContextManager[bool]:
        """Whether no table is being written by a group behind; while it lasts none begins."""

    def close(self) -> None:
        """Returns when nothing is written any more; no group may enter or be brought behind it."""
