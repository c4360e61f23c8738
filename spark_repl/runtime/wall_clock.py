"""Clocks: whether the host's clock has jumped ahead (``WallClock``), and a time of day that never
goes back (``SteadyTime``).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)

JUMP_S = 3600.0
"""a clock that is corrected now and then jumps by less: a time further ahead is of a wrong clock"""
_BELIEVED_S = 86400.0


def running_s() -> float:
    """Return seconds since the host's start, including sleep (on other systems another zero)."""
    return time.clock_gettime(clock) if (clock := _BOOTTIME) is not None else time.monotonic()


_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)


class WallClock:
    """Compares the time of day with the time since the host's start.

    Files must not be removed by their age because a clock was a week ahead for a minute. So a jump
    ahead by more than an hour is accepted only after a day. If a clock goes back, no file becomes
    older.
    """

    def __init__(
        self, wall: Callable[[], float] = time.time, running: Callable[[], float] = running_s
    ) -> None:
        self._wall, self._running = wall, running
        self._offset = wall() - running()
        self._jumped_at: float | None = None

    def is_ahead(self) -> bool:
        """Compare the clocks, log a new jump, and return whether the clock may be ahead.

        A jump may also have corrected a slow clock; after a day it counts as such a correction.
        """
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
    """Time of day that continues to increase if the host's clock is set back.

    It dates removed files. With a slow clock they would seem old when the clock is corrected, and
    the next VACUUM would remove files that cuts still need.
    """

    def __init__(
        self, wall: Callable[[], float] = time.time, running: Callable[[], float] = running_s
    ) -> None:
        self._wall, self._running = wall, running
        self._offset = wall() - running()

    def follow(self, written_s: float) -> None:
        """Advance to the time of something that was written, perhaps by another host, because that
        time is in the past."""
        self._offset = max(self._offset, written_s - self._running())

    def now_s(self) -> float:
        """Return seconds since the epoch, never fewer than before."""
        running = self._running()
        self._offset = max(self._offset, self._wall() - running)
        return running + self._offset

    def now_ms(self) -> int:
        return int(self.now_s() * 1000)
