"""Latency from the source's commit to the cut."""

from __future__ import annotations

import numpy as np
import pytest

from spark_repl.observe.reports.latency import BOUNDS_S, Latency, quantile


def test_latency_counts_when_the_cut_comes(clock):
    made, now = Latency(), clock[0]
    made.landed(np.array([0, (now - 2) * 1e6, (now - 0.05) * 1e6, (now + 9) * 1e6], np.int64))
    assert sum(made.fields()["counts"]) == 0 and quantile(made.fields(), 0.5) is None
    clock[0] += 5
    made.landed(np.array([(now - 10**6) * 1e6], np.int64))
    made.cut()
    made.cut()
    counts = dict(zip([*BOUNDS_S, "more"], made.fields()["counts"], strict=True))
    assert {bound: count for bound, count in counts.items() if count} == {
        0.1: 1, 10.0: 2, "more": 1,
    }  # fmt: skip
    assert quantile(made.fields(), 0.5) == 10.0 and quantile(made.fields(), 1) == float("inf")
    assert made.fields()["sum_s"] == pytest.approx(7 + 5.05 + 0 + 10**6 + 5)


def test_latency_is_bounded_while_no_cut_comes(clock):
    made, now = Latency(), clock[0]
    for number in range(10):
        made.landed(np.full(100_000, int((now - number) * 1e6), np.int64))
    kept = sum(len(times) for times, _ in made._waiting)
    assert kept < 300_000
    made.cut()
    assert sum(made.fields()["counts"]) == 1_000_000


@pytest.mark.parametrize("apart_s", [0, 1, 10**6])
def test_a_large_group_is_counted_by_seconds(clock, apart_s):
    """Whether its transactions were committed within days or years."""
    made, now = Latency(), clock[0]
    ages = np.array([5, 5, 7, 7 + apart_s]).repeat(50_000)
    made.landed(((now - ages) * 1e6).astype(np.int64))
    assert sum(len(times) for times, _ in made._waiting) <= 4
    made.cut()
    assert sum(made.fields()["counts"]) == 200_000
    assert made.fields()["sum_s"] == pytest.approx(ages.sum(), abs=200_000)
