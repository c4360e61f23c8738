"""Commit order: whatever the threads do, groups pass in the order of their slots (WL#6813)."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from spark_repl.apply.group.commit_order import CommitOrder
from spark_repl.errors import CommitOrderError


def test_slots_pass_in_order_of_dispatch():
    # Scenario 17: commit order is source order under forced parallelism.
    order, passed = CommitOrder(), []
    slots = [order.dispatch() for _ in range(40)]

    def work(slot: int) -> None:
        time.sleep(random.random() / 200)
        order.wait(slot)
        passed.append(slot)
        order.done(slot)

    with ThreadPoolExecutor(8) as pool:  # the window: a slot that waits may hold all the others up
        for at in range(0, 40, 8):
            window = slots[at : at + 8]
            random.shuffle(window)
            list(pool.map(work, window))
    assert passed == slots


def test_waiting_is_said():
    # Scenario 18: a later transaction is blocked until the earlier one commits; the state shows.
    said: list[tuple[int, bool]] = []
    order = CommitOrder(lambda *found: said.append(found))
    first, second = order.dispatch(), order.dispatch()
    waiting = threading.Thread(target=order.wait, args=(second,), daemon=True)
    waiting.start()
    while not said:
        time.sleep(0.001)
    assert said == [(second, True)]
    assert waiting.is_alive()
    order.done(first)
    waiting.join(5)
    assert not waiting.is_alive()
    assert said == [(second, True), (second, False)]


def test_all_behind_a_failed_one_are_turned_away():
    # Scenario 19: an earlier worker fails, later ones roll back with 3030.
    order = CommitOrder()
    first, second, third = (order.dispatch() for _ in range(3))
    found: list[BaseException] = []

    def wait(slot: int) -> None:
        try:
            order.wait(slot)
        except CommitOrderError as error:
            found.append(error)

    threads = [threading.Thread(target=wait, args=(slot,), daemon=True) for slot in (second, third)]
    for thread in threads:
        thread.start()
    order.fail(first)
    for thread in threads:
        thread.join(5)
    assert [error.number for error in found] == [3030, 3030]
    assert "at least one previous worker encountered an error" in str(found[0])
    with pytest.raises(CommitOrderError, match="stays prepared") as retry:  # scenario 73
        order.wait(third, ends_branch=True)
    assert retry.value.number == 3197


def test_failure_doesnt_touch_those_before_it():
    order = CommitOrder()
    first, second, third = (order.dispatch() for _ in range(3))
    order.fail(second)
    order.wait(first)
    order.done(first)
    order.wait(second)  # it may still land what stands before the transaction that failed
    with pytest.raises(CommitOrderError):
        order.wait(third)


def waiting(order: CommitOrder, slot: int) -> threading.Event:
    """Is set when the slot has its turn."""
    passed = threading.Event()

    def wait() -> None:
        order.wait(slot)
        passed.set()

    threading.Thread(target=wait, daemon=True).start()
    return passed


def test_failure_of_a_later_one_is_nobodys_turn():
    """Else a cut would be published behind a group that has not landed."""
    order = CommitOrder()
    slots = [order.dispatch() for _ in range(4)]
    passed = waiting(order, slots[1])
    order.fail(slots[3])
    assert not passed.wait(0.05)
    order.done(slots[0])
    assert passed.wait(30)


def test_done_out_of_order_waits_for_the_gap():
    # Scenario 4: the low-water mark is that of the prefix, whoever finishes first.
    order = CommitOrder()
    slots = [order.dispatch() for _ in range(3)]
    passed = waiting(order, slots[2])
    order.done(slots[1])
    order.wait(slots[0])
    assert not passed.wait(0.05)
    order.done(slots[0])
    assert passed.wait(30)
