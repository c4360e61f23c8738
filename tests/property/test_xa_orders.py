"""Every order of small XA histories, with a crash at every step, against serial apply.

Decisions only, without files: which branches are prepared behind each group, whose rows it holds,
whose bytes are kept. ``test_histories`` takes samples of the same through the whole applier.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest

from spark_repl.apply.group.xa_parts import XaParts
from spark_repl.binlog.events.transaction import Kind
from spark_repl.binlog.events.xid import Xid
from spark_repl.relay.record import RECORD
from spark_repl.relay.xa_branches import Branch, XaGroup

Step = tuple[str, int]  # "prepare" and "end" of a branch, or a "plain" transaction


class Kept:
    """``XaStore`` in memory: which branches' bytes are durable."""

    def __init__(self) -> None:
        self.held: set[int] = set()

    def keep(self, branch: Branch) -> Branch:
        self.held.add(branch.position)
        return branch.in_own_file(f"kept/{branch.position}")

    def forget(self, branches: Iterable[Branch]) -> None:
        self.held -= {branch.position for branch in branches}


def orders(branches: int, plain: int) -> Iterator[tuple[Step, ...]]:
    """Every order of the parts; branches and transactions are alike, so those that differ only in
    names come once: branches are named in the order of their XA PREPARE."""

    def grow(done: tuple[Step, ...], begun: int, open_: frozenset[int], left: int) -> Any:
        if begun == branches and not open_ and not left:
            yield done
            return
        if begun < branches:
            yield from grow((*done, ("prepare", begun)), begun + 1, open_ | {begun}, left)
        for one in sorted(open_):
            yield from grow((*done, ("end", one)), begun, open_ - {one}, left)
        if left:
            yield from grow((*done, ("plain", left)), begun, open_, left - 1)

    yield from grow((), 0, frozenset(), plain)


def records_of(order: tuple[Step, ...], commits: tuple[bool, ...]) -> Any:
    records = np.zeros(len(order), RECORD)
    records["position"] = np.arange(len(order)) * 10 + 4
    records["end"] = records["position"] + 10
    for i, (what, number) in enumerate(order):
        ended = Kind.XA_COMMIT if what == "end" and commits[number] else Kind.XA_ROLLBACK
        records["kind"][i] = {"prepare": Kind.XA_PREPARE, "plain": Kind.ROWS}.get(what, ended)
    return records


def branches_of(order: tuple[Step, ...], records: Any) -> dict[int, Branch]:
    """What ``resolve`` finds: by the position of each part."""
    found: dict[int, Branch] = {}
    by_number: dict[int, Branch] = {}
    for (what, number), position in zip(order, records["position"].tolist(), strict=True):
        if what == "prepare":
            xid = Xid(1, b"%d" % number, b"")
            by_number[number] = Branch(xid, position, "", 0, "log", 0, 10, True, False, 10)
        if what != "plain":
            found[position] = by_number[number]
    return found


def serial(order: tuple[Step, ...], commits: tuple[bool, ...]) -> list[tuple[set[str], set[int]]]:
    """(rows to be seen, branches that are prepared) behind each step."""
    seen: set[str] = set()
    prepared: set[int] = set()
    states = []
    for what, number in order:
        if what == "plain":
            seen.add(f"plain{number}")
        elif what == "prepare":
            prepared.add(number)
        else:
            prepared.remove(number)
            if commits[number]:
                seen.add(f"branch{number}")
        states.append((set(seen), set(prepared)))
    return states


class Applier:
    """What a target has: rows, the last cut (end, branches as JSON has them), kept bytes."""

    def __init__(self, order: tuple[Step, ...], commits: tuple[bool, ...]) -> None:
        self.order, self.states = order, serial(order, commits)
        self.records = records_of(order, commits)
        self.branches = branches_of(order, self.records)
        named = self.branches.values()
        self.numbers = {branch.position: int(branch.xid.gtrid) for branch in named}
        self.store, self.rows = Kept(), set[str]()
        self.cut: tuple[int, tuple[dict[str, Any], ...]] = (0, ())
        self.ahead = 0  # where the tables are, by a run that died before its cut
        self.ended: list[Branch] = []  # since the last cut

    def start(self) -> XaParts:
        prepared = [Branch.of_json(one, f"kept/{one['position']}") for one in self.cut[1]]
        assert {branch.position for branch in prepared} <= self.store.held
        self.store.held = {branch.position for branch in prepared}  # leftovers are removed
        self.ended = []
        return XaParts(self.store, prepared)  # type: ignore[arg-type]

    def group(self, parts: XaParts, first: int, last: int, crash: str = "") -> None:
        """One group's two phases; ``crash`` names the step before which it is cut off."""
        records = self.records[first:last]
        xa = parts.enter(records, self.branches, lambda branch: None)
        if crash == "commit":
            return
        self.rows |= self._visible(first, records, xa)
        self.ended += xa.ended
        if crash == "cut":
            self.ahead = last
            return
        if last < self.ahead:  # no cut says less than the tables hold
            return
        self.cut = last, tuple(branch.to_json() for branch in xa.prepared)
        if crash == "forget":
            return
        self.store.forget(self.ended)
        self.ended = []
        self.check()

    def _visible(self, first: int, records: Any, xa: XaGroup) -> set[str]:
        found = {f"branch{self.numbers[branch.position]}" for branch in xa.commits.values()}
        return found | {
            f"plain{self.order[first + i][1]}"
            for i in np.flatnonzero(records["kind"] == Kind.ROWS).tolist()
        }

    def check(self) -> None:
        rows, prepared = self.states[self.cut[0] - 1]
        assert self.rows == rows
        assert {self.numbers[one["position"]] for one in self.cut[1]} == prepared
        assert {self.numbers[position] for position in self.store.held} == prepared


def run(order: tuple[Step, ...], commits: tuple[bool, ...], bound: int, at: int, how: str) -> None:
    """Groups of ``bound``, cut off in the one that holds step ``at``, restarted with others."""
    applier = Applier(order, commits)
    parts, first, again = applier.start(), 0, bound
    while first < len(order):
        last = min(first + again, len(order))
        if first <= at < last:
            applier.group(parts, first, last, how)
            parts, first, again, at = applier.start(), applier.cut[0], 3 - bound % 3, -1
            continue
        applier.group(parts, first, last)
        first = last
    assert applier.cut[0] == len(order)
    assert not applier.store.held


def every(branches: int, plain: int) -> None:
    for order in orders(branches, plain):
        for ends in itertools.product((True, False), repeat=branches):
            for bound, how in ((1, "commit"), (1, "cut"), (2, "cut"), (2, "forget"), (3, "cut")):
                for at in range(0, len(order), bound):
                    run(order, ends, bound, at, how)


def test_orders_are_all_orders():
    """Of two branches and one transaction: 5!/(2! 2!) = 30, and half of them are names alone."""
    assert len(list(orders(2, 1))) == 15
    assert len(list(orders(4, 4))) == 51_975


def test_every_order_of_two_branches_and_two_transactions():
    # Scenarios 65, 67, 84.
    every(2, 2)


@pytest.mark.soak
@pytest.mark.parametrize("plain", [0, 2])
def test_every_order_of_three_branches_is_scheduled_serially(plain):
    every(3, plain)


@pytest.mark.soak
def test_every_order_of_four_branches_and_four_transactions():
    """Each of the 51,975 orders once, ends, bounds and crashes by turns."""
    ends = list(itertools.product((True, False), repeat=4))
    for number, order in enumerate(orders(4, 4)):
        for at in range(len(order)):
            how = ("commit", "cut", "forget")[(number + at // 3) % 3]
            run(order, ends[(number + at) % 16], 1 + (number + at) % 3, at, how)
