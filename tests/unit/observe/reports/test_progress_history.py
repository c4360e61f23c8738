"""The past that the applier keeps: what a sample says, how many there are, who goes on with it."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import pytest

from spark_repl.observe.reports.progress_history import (
    COLUMNS,
    EVERY_S,
    MOST,
    Backlog,
    Counts,
    ProgressHistory,
    history_points,
)

NOW = 2_000_000_000.0
DONE = Backlog()


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    found = [NOW]
    monkeypatch.setattr(time, "time", lambda: found[0])
    return found


def samples(past):
    said = json.loads(json.dumps(past.fields()))
    assert tuple(said["columns"]) == COLUMNS
    return said["samples"]


def test_a_sample_has_the_worst_and_the_mean_since_the_one_before(clock):
    past = ProgressHistory()
    for seconds, log, transactions in (
        (0, Backlog(5, NOW - 3), 0), (4, Backlog(7, NOW - 3), 60), (9, DONE, 90), (10, DONE, 100),
        (15, DONE, 100), (20, DONE, 100),
    ):  # fmt: skip
        clock[0] = NOW + seconds
        groups, waves = transactions // 20, transactions // 2
        past.record(log, Counts(transactions, 10 * transactions, groups, waves))
    assert samples(past) == [
        [NOW + 10, 7.0, 7, 10.0, 100.0, 20.0, 2.0], [NOW + 20, 0.0, 0, 0.0, 0.0, None, None]
    ]  # fmt: skip


def test_what_is_not_known_is_not_said(clock):
    past = ProgressHistory()
    past.record(Backlog(5, 0.0), Counts(0, 0))
    clock[0] += 10
    past.record(DONE, Counts(5, 5))
    clock[0] += 10
    past.record(DONE, Counts(5, 5))
    assert [one[1] for one in samples(past)] == [None, 0.0]


def test_a_clock_that_was_set_back_makes_no_negative_rate(clock):
    past = ProgressHistory()
    past.record(DONE, Counts(10, 10))
    clock[0] -= 3600
    past.record(DONE, Counts(20, 20))
    clock[0] += 10
    past.record(DONE, Counts(30, 30))
    assert [one[0] for one in samples(past)] == [NOW - 3590]
    assert all(one[3] >= 0 for one in samples(past))


def test_it_is_an_hour_however_long_it_runs(clock):
    past = ProgressHistory()
    for number in range(3 * MOST):
        clock[0] = NOW + number * EVERY_S
        past.record(Backlog(10**9, NOW), Counts(*[10**12 * number] * 2, number, number))
    found = samples(past)
    assert len(found) == MOST and found[-1][0] == NOW + (3 * MOST - 1) * EVERY_S
    assert found[-1][0] - found[0][0] == 3600 - EVERY_S
    assert len(json.dumps(found)) < 40_960


def test_the_next_run_goes_on_with_a_gap(clock):
    before = ProgressHistory()
    clock[0] += 10
    before.record(DONE, Counts(1, 1))
    clock[0] += 1000
    past = ProgressHistory(samples(before))
    clock[0] += 10
    past.record(DONE, Counts(4, 4))
    said = past.fields()
    first, last = (datetime.fromtimestamp(NOW + after, UTC) for after in (10, 1020))
    assert history_points(said, "transactions_per_s") == [(first, 0.1), (last, None), (last, 0.4)]
    assert history_points({}, "late_s") == []


def test_what_an_earlier_version_has_noted_is_shown_and_gone_on_with(clock):
    old = {"columns": COLUMNS[:5], "samples": [[NOW - 10, 0.5, 1, 2.0, 3.0]]}
    assert history_points(old, "transactions_per_wave") == []
    assert history_points(old, "late_s") == [(datetime.fromtimestamp(NOW - 10, UTC), 0.5)]
    past = ProgressHistory(old["samples"])
    clock[0] += 10
    past.record(DONE, Counts(8, 8, 1, 2))
    assert [value for _, value in history_points(past.fields(), "transactions_per_wave")] == [
        None,
        4.0,
    ]
