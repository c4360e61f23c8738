"""RowTimes: when rows of the control table are written, which is how one is told from a later one.

A clock may be set back, and another host's may be slow: a row whose time were before that of the
row which it follows would count as the older one, a copy that is done as planned, say. So a row is
at least a microsecond behind. Cuts, which are kept for a time by their own, are only behind another
one of their place: else positions tell their order.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from .held_rows import CUT

if TYPE_CHECKING:
    from .held_rows import HeldRows

_STEP = timedelta(microseconds=1)


class RowTimes:
    """Those of the rows that one process writes."""

    def __init__(self) -> None:
        self._cut: tuple[int, datetime] | None = None

    def follow(self, held: HeldRows) -> None:
        """Takes in the newest cut of an owner before."""
        last = held.last_cut()
        self._cut = (last["position"], last["at"]) if last else None

    def of(self, kind: str, position: int, held: Callable[[], HeldRows]) -> datetime:
        """The time of a row that is about to be written behind those that are ``held``, which are
        asked for where a cut is none. Raises as that."""
        if kind != CUT:
            return _behind(held().newest)
        place, last = self._cut or (-1, None)
        at = _behind(last if place == position else None)
        self._cut = position, at
        return at


def _behind(before: datetime | None) -> datetime:
    now = datetime.now(UTC)
    return now if before is None else max(now, before + _STEP)
