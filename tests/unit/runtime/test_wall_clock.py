"""A clock that jumps ahead makes nothing old for a day; one that is set back is followed."""

from __future__ import annotations

import time

import pytest

from spark_repl.runtime.wall_clock import SteadyTime, WallClock

HOUR, DAY = 3600.0, 86400.0


class Host:
    """``ahead``: so far the time of day is from the right one, in seconds."""

    def __init__(self) -> None:
        self.running, self.ahead = 1000.0, 0.0
        self.clock = WallClock(lambda: 1.7e9 + self.running + self.ahead, lambda: self.running)

    def is_ahead(self, after: float = 1.0) -> bool:
        self.running += after
        return self.clock.is_ahead()


@pytest.fixture
def host() -> Host:
    return Host()


def test_a_clock_that_goes(host):
    assert not any(host.is_ahead(after) for after in (1, 60, HOUR, 30 * DAY, 365 * DAY))


def test_a_jump_is_not_believed_until_it_is_set_back(host, caplog):
    host.ahead = 8 * DAY
    assert host.is_ahead()
    assert host.is_ahead(HOUR)
    assert caplog.text.count("jumped 691200 s ahead") == 1
    host.ahead = 0
    assert not host.is_ahead()
    host.ahead = 8 * DAY
    assert host.is_ahead(), "again"


def test_a_jump_that_stands_for_a_day_is_believed(host):
    host.ahead = 2 * HOUR
    assert host.is_ahead()
    assert host.is_ahead(DAY - 1)
    assert not host.is_ahead(2)
    assert not host.is_ahead(HOUR)


def test_a_clock_that_was_ahead_at_the_start_and_is_set_right(host):
    host.ahead = -8 * DAY
    assert not host.is_ahead()
    host.ahead = 0
    assert host.is_ahead(), "by what was seen last"


def test_small_steps_are_no_jump(host):
    for _ in range(5):
        host.ahead += HOUR / 10
        assert not host.is_ahead(DAY)


def test_this_hosts_clock_is_not_ahead():
    clock = WallClock()
    time.sleep(0.01)  # the real clocks of this host advance
    assert not clock.is_ahead()


def steady(host: Host) -> SteadyTime:
    return SteadyTime(lambda: 1.7e9 + host.running + host.ahead, lambda: host.running)


def test_a_time_of_day_that_never_goes_back(host: Host) -> None:
    one = steady(host)
    first = one.now_s()
    host.running, host.ahead = host.running + 60, -10 * DAY
    assert one.now_s() == first + 60, "it goes on as the host runs"
    host.running, host.ahead = host.running + 60, 0.0
    assert one.now_s() == first + 120, "set right again"
    host.ahead = HOUR
    assert one.now_s() == first + 120 + HOUR


def test_what_was_written_before_is_never_later_than_now(host: Host) -> None:
    """Also by another process, before the clock was set back."""
    right = steady(host).now_s()
    host.ahead = -10 * DAY
    one = steady(host)
    assert one.now_s() == right - 10 * DAY
    one.follow(right)
    one.follow(right - DAY)
    host.running += 5
    assert one.now_s() == right + 5 and one.now_ms() == int(1000 * (right + 5))
