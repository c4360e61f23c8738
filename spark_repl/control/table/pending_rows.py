"""Rows before they are written: those that wait for the next commit, and the times of rows.

Times tell a row from a later one. A clock may be set back, and another host's may be slow: a row
that is older than the row before it would count as the earlier one, a finished copy as planned, for
example. So a row is at least a microsecond later than the newest. Cuts keep their own time, since
retention depends on it, and are only later than another cut at the same position: positions order
the others.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from .control_snapshot import CUT

if TYPE_CHECKING:
    from .control_snapshot import HeldRows


class HeldBack:
    """``rows``: each with its detail as it was before a format's number was put to it. Not safe
    from several threads: the control table's lock is held."""

    def __init__(self) -> None:
        self.rows: list[tuple[dict[str, Any], str]] = []
        self._checks: list[Callable[[], object]] = []

    def add(self, row: dict[str, Any], detail: str, check: Callable[[], object] = bool) -> None:
        """``check`` raises where the row may not stand behind the newest version."""
        self.rows.append((row, detail))
        if check is not bool:
            self._checks.append(check)

    def check(self) -> None:
        """Raises what the rows' own checks raise."""
        for check in self._checks:
            check()

    def clear(self) -> None:
        """They have been written, or never will be."""
        self.rows.clear()
        self._checks.clear()


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
