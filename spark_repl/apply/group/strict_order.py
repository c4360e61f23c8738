"""InOrder: with commit order a group is written as a whole, in its turn (WL#6813)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...schedule.group import StagedGroup


class InOrder:
    """A ``TableOrder``. ``write`` brings a group into its tables, retries and all, and calls what
    it is given when its files begin to be written."""

    # One commits while the next is staged and waits; what is read behind that waits for files.
    groups_max, reads_on = 2, False

    def __init__(self, write: Callable[[StagedGroup, Callable[[], None]], object]) -> None:
        self._write = write

    def enter(self, staged: StagedGroup) -> None:
        """Its turn is all that it waits for."""

    def refuse(self) -> None:
        """Those behind it are turned away when their turn comes."""

    def bring(
        self, staged: StagedGroup, *, turn: Callable[[], None], begins: Callable[[], None]
    ) -> None:
        turn()
        self._write(staged, begins)

    def standstill(self) -> AbstractContextManager[bool]:
        """True: nothing is written but by the group whose turn it is."""
        return nullcontext(True)

    def close(self) -> None:
        """Nothing is under way but in the groups' own threads."""
