"""Lanes: without commit order each table keeps its own, and holds no other one back."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import numpy as np
import pytest

from spark_repl.apply.stage import Staged
from spark_repl.errors import CommitOrderError, TargetError
from spark_repl.group import RowFault
from spark_repl.lanes import Lanes, of_tables
from spark_repl.plan import Group
from spark_repl.relay.index import RECORD

WAIT_S = 10


def group(slot: int) -> Group:
    return Group(np.zeros(1, RECORD), np.zeros(1, np.int32), 1, slot)


def staged(*tables: str) -> list[Staged]:
    definitions: Any = dict.fromkeys(tables)
    return [Staged(0, definitions, [], dict.fromkeys(tables, 1), 0)]


def table_of(part: Group) -> str:
    (name,) = part.tables or ()
    return name


def test_each_table_keeps_the_logs_order():
    # Scenario 4: several that finish at once; the order of each table is the log's.
    seen: dict[str, list[int]] = {name: [] for name in "abc"}

    def write(part: Group) -> None:
        time.sleep(random.random() / 500)
        seen[table_of(part)].append(part.slot)

    lanes = Lanes(write)
    groups = [group(slot) for slot in range(30)]
    dice = random.Random(1)
    for one in groups:
        lanes.enter(one, staged(*dice.sample("abc", dice.randint(1, 3))))
    for one in groups:
        lanes.finish(one)
    assert all(slots == sorted(slots) for slots in seen.values())
    assert sum(map(len, seen.values())) > 30
    lanes.close()


def test_a_table_that_is_stuck_holds_no_other_back():
    # NF-1 of WL#6964: others keep running while one retries.
    go, passed = threading.Event(), threading.Event()

    def write(part: Group) -> None:
        if table_of(part) == "a":
            assert go.wait(WAIT_S)
        elif part.slot == 4:
            passed.set()

    lanes = Lanes(write)
    groups = [group(slot) for slot in range(5)]
    for one in groups:
        lanes.enter(one, staged("a", "b"))
    assert passed.wait(WAIT_S), "b waits for a"
    with lanes.standstill() as still:
        assert not still
    go.set()
    for one in groups:
        lanes.finish(one)
    with lanes.standstill() as still:
        assert still
    lanes.close()


def test_behind_a_failed_part_its_table_takes_no_other():
    written: list[tuple[str, int]] = []

    def write(part: Group) -> None:
        if (table_of(part), part.slot) == ("a", 1):
            raise RowFault("no such row", position="1:40", number=1032)
        written.append((table_of(part), part.slot))

    lanes = Lanes(write)
    groups = [group(slot) for slot in range(3)]
    for one in groups:
        lanes.enter(one, staged("a", "b"))
    lanes.finish(groups[0])
    with pytest.raises(RowFault):
        lanes.finish(groups[1])
    assert groups[1].tables == frozenset("a")
    with pytest.raises(CommitOrderError):
        lanes.finish(groups[2])
    assert sorted(written) == [("a", 0), ("b", 0), ("b", 1), ("b", 2)]
    lanes.close()


def test_what_is_no_row_comes_first_and_has_no_prefix():
    errors: dict[str, Exception] = {
        "a": RowFault("no such row", position="1:40", number=1032),
        "b": TargetError("somebody else changed the table"),
    }

    def write(part: Group) -> None:
        raise errors[table_of(part)]

    lanes, one = Lanes(write), group(0)
    lanes.enter(one, staged("a", "b"))
    with pytest.raises(TargetError):
        lanes.finish(one)
    assert one.tables is None
    lanes.close()


def test_the_first_fault_in_the_log_is_named():
    def write(part: Group) -> None:
        place = {"a": "1:90", "b": "1:100", "c": "2:4"}[table_of(part)]
        raise RowFault("no such row", position=place, number=1032)

    lanes, one = Lanes(write), group(0)
    lanes.enter(one, staged("c", "b", "a"))
    with pytest.raises(RowFault) as found:
        lanes.finish(one)
    assert found.value.position == "1:90"
    assert one.tables == frozenset("abc")
    lanes.close()


def test_nothing_enters_behind_what_could_not_be_read():
    lanes = Lanes(lambda part: None)
    lanes.refuse()
    with pytest.raises(CommitOrderError):
        lanes.enter(group(1), staged("a"))


def test_of_tables():
    (found,) = of_tables(staged("a", "b"), frozenset("b"))
    assert list(found.definitions) == list(found.changes) == ["b"]
