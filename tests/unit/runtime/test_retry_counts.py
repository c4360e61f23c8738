"""How often a group's transactions were tried again, wherever they failed."""

from __future__ import annotations

from spark_repl.runtime.retry import NO_GROUP, RetryCount, RetryCounts


def test_a_workers_failures_are_its_own():
    count = RetryCount((0, 1, 2))
    assert [count.next((1,), "", 2) for _ in range(3)] == [1, 2, 0]
    assert count.next((0,), "", 2) == 1


def test_a_groups_failure_counts_for_all_that_it_hits():
    count = RetryCount((0, 1, 2))
    assert count.next((1,), "", 3) == 1
    assert count.next((0, 1), "", 3) == 2  # the number of the one with the most
    assert count.next((0,), "", 3) == 2
    assert count.next((2,), "", 3) == 1


def test_where_none_is_left_nothing_is_counted():
    count = RetryCount((0, 1))
    assert count.next((1,), "", 1) == 1
    assert count.next((0, 1), "", 1) == 0
    assert count.next((0,), "", 1) == 1


def test_lanes_count_for_themselves_on_top_of_what_was_before():
    count = RetryCount((0,))
    assert count.next((0,), "", 3) == 1
    assert [count.next((0,), "a", 3) for _ in range(3)] == [2, 3, 0]
    assert count.next((0,), "b", 3) == 2
    assert count.next((0,), "", 3) == 0  # the cut waits for the longest


def test_each_group_has_a_way_of_its_own():
    counts, told = RetryCounts(), list[int]()
    counts.begin(7, (3, 4), lambda: told.append(7))
    counts.of(7).waits()
    assert told == [7]
    assert counts.of(7) is counts.of(7)
    assert counts.of(7).workers == (3, 4)
    assert counts.of(NO_GROUP) is not counts.of(NO_GROUP)
    counts.end(7)
    counts.end(7)
    assert counts.of(7).workers == (0,)
