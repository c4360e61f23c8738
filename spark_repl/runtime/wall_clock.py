"""Clocks: whether the host's clock has jumped ahead, so that all seems old (``WallClock``), and a
time of day that never goes back (``SteadyTime``)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)

JUMP_S = 3600.0
"""what a clock that is set right now and then does not jump by: a time that is further ahead is of
one that was wrong"""
_BELIEVED_S = 86400.0


def running_s() -> float:
    """Seconds since the host began, also while it slept; another zero elsewhere than on Linux."""
    return time.clock_gettime(clock) if (clock := _BOOTTIME) is not None else time.monotonic()


_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)


class WallClock:
    """Compares the time of day with the time that the host has been running. What is removed by its
    age must not go because a clock was a week ahead for a minute: a jump ahead by more than an hour
    is believed when it has stood for a day. A clock that goes back makes nothing old."""

    def __init__(
        self, wall: Callable[[], float] = time.time, running: Callable[[], float] = running_s
    ) -> None:
        self._wall, self._running = wall, running
        self._offset = wall() - running()
        self._jumped_at: float | None = None

    def is_ahead(self) -> bool:
        """Whether it has jumped ahead, and nobody knows yet that it was set right by that."""
        now = self._running()
        jump = self._wall() - now - self._offset
        if jump <= JUMP_S:
            self._offset, self._jumped_at = self._offset + min(jump, 0.0), None
            return False
        if self._jumped_at is None:
            self._jumped_at = now
            logger.warning(
                "the clock has jumped %d s ahead: nothing is removed by its age until it is set"
                " back, or for a day", jump,
            )  # fmt: skip
        if now - self._jumped_at < _BELIEVED_S:
            return True
        self._offset, self._jumped_at = self._offset + jump, None
        return False


class SteadyTime:
    """The time of day, which goes on with the host where its clock is set back. Files that are
    retired are stamped by it. By a clock that is slow they would seem old as soon as it is set
    right, and the next VACUUM would remove what cuts still need."""

    def __init__(
        self, wall: Callable[[], float] = time.time, running: Callable[[], float] = running_s
    ) -> None:
        self._wall, self._running = wall, running
        self._offset = wall() - running()

    def follow(self, written_s: float) -> None:
        """Take in when something was written, perhaps by another host: it is not later now."""
        self._offset = max(self._offset, written_s - self._running())

    def now_s(self) -> float:
        """Return seconds since the epoch, never fewer than before."""
        running = self._running()
        self._offset = max(self._offset, self._wall() - running)
        return running + self._offset

    def now_ms(self) -> int:
        return int(self.now_s() * 1000)
