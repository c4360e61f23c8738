"""How often a group's transactions were tried again, wherever they failed."""

from __future__ import annotations

from spark_repl.runtime.ways import NO_GROUP, Way, Ways


def test_a_workers_failures_are_its_own():
    way = Way((0, 1, 2))
    assert [way.next((1,), "", 2) for _ in range(3)] == [1, 2, 0]
    assert way.next((0,), "", 2) == 1


def test_a_groups_failure_counts_for_all_that_it_hits():
    way = Way((0, 1, 2))
    assert way.next((1,), "", 3) == 1
    assert way.next((0, 1), "", 3) == 2  # the number of the one with the most
    assert way.next((0,), "", 3) == 2
    assert way.next((2,), "", 3) == 1


def test_where_none_is_left_nothing_is_counted():
    way = Way((0, 1))
    assert way.next((1,), "", 1) == 1
    assert way.next((0, 1), "", 1) == 0
    assert way.next((0,), "", 1) == 1


def test_lanes_count_for_themselves_on_top_of_what_was_before():
    way = Way((0,))
    assert way.next((0,), "", 3) == 1
    assert [way.next((0,), "a", 3) for _ in range(3)] == [2, 3, 0]
    assert way.next((0,), "b", 3) == 2
    assert way.next((0,), "", 3) == 0  # the cut waits for the longest


def test_each_group_has_a_way_of_its_own():
    ways, told = Ways(), list[int]()
    ways.begin(7, (3, 4), lambda: told.append(7))
    ways.of(7).waits()
    assert told == [7]
    assert ways.of(7) is ways.of(7)
    assert ways.of(7).workers == (3, 4)
    assert ways.of(NO_GROUP) is not ways.of(NO_GROUP)
    ways.end(7)
    ways.end(7)
    assert ways.of(7).workers == (0,)
