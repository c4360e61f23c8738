"""CommitOrder: groups pass in the order of their slots, whatever the threads do (WL#6813).

Also: what both orders in which tables take groups have in common, and where they differ.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from spark_repl.apply.group.commit_order import CommitOrder, CommitStrategy, StrictOrder
from spark_repl.apply.group.per_table_order import PerTableOrder
from spark_repl.decode.stage_task import Staged
from spark_repl.errors import CommitOrderError, RowError
from spark_repl.relay.record import RECORD
from spark_repl.schedule.group import Group, StagedGroup
from tests.support.wait_until import wait_until


def test_slots_pass_in_order_of_dispatch():
    # Scenario 17: commit order is source order under forced parallelism.
    order, passed = CommitOrder(), []
    slots = [order.dispatch() for _ in range(40)]

    def work(slot: int) -> None:
        time.sleep(random.random() / 200)  # threads come in any order
        order.wait(slot)
        passed.append(slot)
        order.done(slot)

    with ThreadPoolExecutor(8) as pool:  # the window: a slot that waits may hold all the others up
        for at in range(0, 40, 8):
            window = slots[at : at + 8]
            random.shuffle(window)
            list(pool.map(work, window))
    assert passed == slots


def test_a_group_that_waits_for_its_turn_is_reported():
    # Scenario 18: a later transaction is blocked until the earlier one commits; the state shows.
    said: list[tuple[int, bool]] = []
    order = CommitOrder(lambda *found: said.append(found))
    first, second = order.dispatch(), order.dispatch()
    waiting = threading.Thread(target=order.wait, args=(second,), daemon=True)
    waiting.start()
    wait_until(lambda: said)
    assert said == [(second, True)]
    assert waiting.is_alive()
    order.done(first)
    waiting.join(60)
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
        thread.join(60)
    assert [error.number for error in found] == [3030, 3030]
    assert "at least one previous worker encountered an error" in str(found[0])
    with pytest.raises(CommitOrderError, match="stays prepared") as retry:  # scenario 73
        order.wait(third, ends_branch=True)
    assert retry.value.number == 3197


def test_a_failure_leaves_earlier_groups_alone():
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


ORDERS = pytest.mark.parametrize("kind", [StrictOrder, PerTableOrder])
Kind = Callable[[CommitOrder, Callable[[StagedGroup, Callable[[], None]], object]], CommitStrategy]


def group() -> StagedGroup:
    definitions: Any = {"t.a": None}
    records = Group.of(np.zeros(1, RECORD), np.zeros(1, np.int32), 1)
    return StagedGroup(records, [Staged(0, definitions, [], {"t.a": 1})])


class Committed(CommitOrder):
    """What happens to a group, in its order."""

    def __init__(
        self, kind: Kind, fault: Exception | None = None, turn: Exception | None = None
    ) -> None:
        super().__init__()
        self.steps: list[str] = []
        self._fault, self._turned_away, self._strategy = fault, turn, kind(self, self._write)

    def wait(self, slot: int, *, ends_branch: bool = False) -> None:
        if self._turned_away is not None:
            raise self._turned_away
        self.steps.append("turn")

    def _write(self, part: StagedGroup, called: Callable[[], None]) -> None:
        if self._fault is not None:
            raise self._fault
        called()
        self.steps.append("written")

    def commit(self) -> list[str]:
        staged = group()
        self._strategy.enter(staged)
        try:
            self._strategy.write(staged, lambda: self.steps.append("begins"))
            with self._strategy.standstill() as still:
                assert still
        finally:
            self._strategy.close()
        return self.steps


@ORDERS
def test_a_group_has_been_written_and_had_its_turn(kind: Kind) -> None:
    steps = ["turn", "begins", "written"] if kind is StrictOrder else ["written", "turn"]
    assert Committed(kind).commit() == steps


@ORDERS
def test_rows_that_do_not_fit_are_named(kind: Kind) -> None:
    with pytest.raises(RowError, match="no such row"):
        Committed(kind, RowError("no such row", position="000001:4", number=1032)).commit()


@ORDERS
def test_a_group_that_is_turned_away(kind: Kind) -> None:
    """With commit order before a table has any of it, without it behind the commits."""
    committed = Committed(kind, turn=CommitOrderError("one before it failed", number=3030))
    with pytest.raises(CommitOrderError):
        committed.commit()
    assert committed.steps == ([] if kind is StrictOrder else ["written"])


@ORDERS
def test_behind_a_group_that_could_not_be_read(kind: Kind) -> None:
    """Without commit order nothing enters; with it the turn says so."""
    order = kind(CommitOrder(), lambda part, called: None)
    order.refuse()
    if kind is PerTableOrder:
        with pytest.raises(CommitOrderError, match="could not be read"):
            order.enter(group())
    else:
        order.enter(group())
    order.close()


def test_how_many_are_under_way() -> None:
    """The group is one of MySQL's queue of assigned groups, or comes after the one that commits."""
    assert (StrictOrder.groups_max, StrictOrder.reads_on) == (2, False)
    assert (PerTableOrder.groups_max, PerTableOrder.reads_on) == (64, True)
