"""How far apart groups begin."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from spark_repl.apply.group.coordinator import Pace
from spark_repl.config import Apply, Config
from spark_repl.errors import ConfigError


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_by_default_no_group_waits(clock):
    pace = Pace(Apply(), datetime.now(UTC), clock)
    pace.begin_batch()
    pace.begin_group()
    pace.end_batch()
    assert (pace.until_group(), pace.until_batch()) == (0, 0)


def test_groups_are_kept_apart(clock):
    pace = Pace(Apply(max_commits_per_hour=60), None, clock)
    assert pace.until_group() == 0
    pace.begin_batch()
    pace.begin_group()
    clock.now += 20
    assert pace.until_group() == pace.until_batch() == 40
    clock.now += 41
    assert pace.until_group() == 0


def test_the_pace_counts_commits_before_a_restart(clock):
    ago = datetime.now(UTC) - timedelta(seconds=20)
    left_s = Pace(Apply(max_commits_per_hour=60), ago, clock).until_group()
    assert 59.99 - (datetime.now(UTC) - ago).total_seconds() <= left_s <= 40
    future = datetime.now(UTC) + timedelta(days=9)  # somebody has set the clock back
    assert Pace(Apply(max_commits_per_hour=60), future, clock).until_group() == 60


def test_a_change_is_taken_up_before_it_is_too_old(clock):
    pace = Pace(Apply(max_latency_ms=5000), None, clock)
    for took, left in ((1, 3), (2, 1), (0.5, 2.5)):  # the slowest of the last batches counts
        pace.begin_batch()
        pace.begin_group()
        clock.now += took
        pace.end_batch()
        assert (pace.until_group(), pace.until_batch()) == (0, left)
        clock.now += left
        assert pace.until_batch() == 0


def test_an_end_is_not_waited_for():
    pace = Pace(Apply(max_commits_per_hour=1), datetime.now(UTC))
    assert not pace.wait(pace.until_group, lambda: True)
    assert pace.wait(lambda: 0.0, lambda: True)


def test_two_bounds_that_can_not_both_hold():
    with pytest.raises(ConfigError, match=r"needs apply\.max_commits_per_hour of 1800 at least"):
        Config.from_mapping({"apply": {"max_latency_ms": 2000, "max_commits_per_hour": 1799}})
    Config.from_mapping({"apply": {"max_latency_ms": 2000, "max_commits_per_hour": 1800}})
