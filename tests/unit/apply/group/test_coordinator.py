"""Coordinator: with delay_s a group waits by the clock as it is, not as it was for a moment."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import numpy as np

from spark_repl.apply.group.coordinator import Coordinator
from spark_repl.relay.record import RECORD

LONG_S = 1_000_000


class Clock:
    """``stopping`` of a coordinator, whose waits are counted. After ``wrong`` of them the records
    are as old as they have to be, as the host's clock is right again."""

    def __init__(self, wrong: int, *, stops: bool = False) -> None:
        self.records: Any = np.zeros(1, RECORD)
        self.records["commit_time"] = int(1e6 * (time.time() + LONG_S))
        self.wrong, self.stops, self.waits = wrong, stops, list[float]()

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        if len(self.waits) == self.wrong:
            self.records["commit_time"] = 0
        return self.stops

    def delay(self) -> bool:
        one: Any = SimpleNamespace(stopping=self, _apply=SimpleNamespace(delay_s=10))
        return Coordinator._delay(one, self.records, LONG_S)


def test_a_clock_that_was_wrong_for_a_moment_is_not_waited_for() -> None:
    clock = Clock(wrong=3)
    assert clock.delay()
    assert clock.waits == [1.0, 1.0, 1.0]


def test_stop_ends_the_wait() -> None:
    clock = Clock(wrong=3, stops=True)
    assert not clock.delay() and len(clock.waits) == 1
