"""Rows before they are written: those that wait for the next commit, and the times of rows.

Times tell a row from a later one. A clock may be set back, and another host's may be slow. A row
older than the one before it would count as the earlier one: a finished copy as planned, for
example. So a row is at least a microsecond later than the newest. Cuts keep their own time, since
retention depends on it, and are only later than another cut at the same position: positions order
the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from .control_snapshot import CUT

if TYPE_CHECKING:
    from .control_snapshot import ControlSnapshot
    from .cut_tables import Tables


@dataclass(frozen=True)
class PendingRow:
    """A row to write. ``detail``: its detail before the format's number is added; ``tables``: the
    tables of a cut."""

    row: dict[str, Any]
    detail: str
    tables: Tables | None = None


class PendingRows:
    """Rows that the next commit writes. Not thread-safe: the caller holds the control table's
    lock."""

    def __init__(self) -> None:
        self.rows: list[PendingRow] = []
        self._checks: list[Callable[[], object]] = []

    def add(self, row: PendingRow, check: Callable[[], object] = bool) -> None:
        """Add a row. ``check`` raises if the row must not follow the newest version."""
        self.rows.append(row)
        if check is not bool:
            self._checks.append(check)

    def check(self) -> None:
        """Call the checks of all rows. Raise what they raise."""
        for check in self._checks:
            check()

    def clear(self) -> None:
        """Drop the rows, after they were written or given up."""
        self.rows.clear()
        self._checks.clear()


_STEP = timedelta(microseconds=1)


class RowTimes:
    """Times of the rows that one process writes."""

    def __init__(self) -> None:
        self._cut: tuple[int, datetime] | None = None

    def follow(self, snapshot: ControlSnapshot) -> None:
        """Start after the newest cut that a former owner has written."""
        last = snapshot.last_cut()
        self._cut = (last["position"], last["at"]) if last else None

    def of(self, kind: str, position: int, snapshot: Callable[[], ControlSnapshot]) -> datetime:
        """Return the time for a row that is about to be written. ``snapshot`` returns the rows
        before it; it is called only for a row that is not a cut. Raise as ``snapshot`` does."""
        if kind != CUT:
            return _time_after(snapshot().newest)
        place, last = self._cut or (-1, None)
        at = _time_after(last if place == position else None)
        self._cut = position, at
        return at


def _time_after(before: datetime | None) -> datetime:
    now = datetime.now(UTC)
    return now if before is None else max(now, before + _STEP)
