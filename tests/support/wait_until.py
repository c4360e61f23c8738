"""Waiting for a condition instead of for a time.

A limit ends only a wait for a condition that never holds. The limits are long, because a busy
machine is several times slower than an idle one.
"""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(
    condition: Callable[[], object], most_s: float = 120.0, *, each_s: float = 0.01
) -> None:
    """Return as soon as the condition holds.

    Raise AssertionError if it does not hold after ``most_s`` seconds. Look again each ``each_s``
    seconds. An error of the condition ends the wait.
    """
    end = time.monotonic() + most_s
    while not condition():
        assert time.monotonic() < end, f"the condition does not hold after {most_s} s"
        time.sleep(each_s)  # between two looks
