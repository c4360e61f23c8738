"""What holds of both orders in which tables take groups, and wherein they differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from spark_repl.apply.group.commit_strategy import TableOrder
from spark_repl.apply.group.per_table_order import Lanes
from spark_repl.apply.group.strict_order import InOrder
from spark_repl.decode.staged import Staged
from spark_repl.errors import CommitOrderError, RowError
from spark_repl.relay.record import RECORD
from spark_repl.schedule.group import Group, StagedGroup

ORDERS = pytest.mark.parametrize("kind", [InOrder, Lanes])
Kind = Callable[[Callable[[StagedGroup, Callable[[], None]], object]], TableOrder]


def group() -> StagedGroup:
    definitions: Any = {"t.a": None}
    records = Group.of(np.zeros(1, RECORD), np.zeros(1, np.int32), 1)
    return StagedGroup(records, [Staged(0, definitions, [], {"t.a": 1})])


class Landed:
    """What happens to a group, in its order."""

    def __init__(self, kind: Kind, fault: Exception | None = None) -> None:
        self.steps: list[str] = []
        self._fault, self._order = fault, kind(self._write)

    def _write(self, part: StagedGroup, told: Callable[[], None]) -> None:
        if self._fault is not None:
            raise self._fault
        told()
        self.steps.append("written")

    def bring(self, turn: Exception | None = None) -> list[str]:
        def waited() -> None:
            if turn is not None:
                raise turn
            self.steps.append("turn")

        one = group()
        self._order.enter(one)
        try:
            self._order.bring(one, turn=waited, begins=lambda: self.steps.append("begins"))
            with self._order.standstill() as still:
                assert still
        finally:
            self._order.close()
        return self.steps


@ORDERS
def test_a_group_has_been_written_and_had_its_turn(kind: Kind) -> None:
    steps = ["turn", "begins", "written"] if kind is InOrder else ["written", "turn"]
    assert Landed(kind).bring() == steps


@ORDERS
def test_rows_that_do_not_fit_are_named(kind: Kind) -> None:
    with pytest.raises(RowError, match="no such row"):
        Landed(kind, RowError("no such row", position="000001:4", number=1032)).bring()


@ORDERS
def test_a_group_that_is_turned_away(kind: Kind) -> None:
    """With commit order before a table has any of it, without it behind the commits."""
    landed = Landed(kind)
    with pytest.raises(CommitOrderError):
        landed.bring(CommitOrderError("one before it failed", number=3030))
    assert landed.steps == ([] if kind is InOrder else ["written"])


@ORDERS
def test_behind_a_group_that_could_not_be_read(kind: Kind) -> None:
    """Without commit order nothing enters; with it the turn says so."""
    order = kind(lambda part, told: None)
    order.refuse()
    if kind is Lanes:
        with pytest.raises(CommitOrderError, match="could not be read"):
            order.enter(group())
    else:
        order.enter(group())
    order.close()


def test_how_many_are_under_way() -> None:
    """Of MySQL's queue of assigned groups, or one behind the one that commits."""
    assert (InOrder.groups_max, InOrder.reads_on) == (2, False)
    assert (Lanes.groups_max, Lanes.reads_on) == (64, True)
