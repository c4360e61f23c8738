"""PerTableOrder: without commit order each table keeps its own; each group is whole or absent."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_repl.apply.group.commit_order import CommitOrder
from spark_repl.apply.group.per_table_order import Meeting, PerTableOrder
from spark_repl.decode.stage_task import Staged
from spark_repl.errors import CommitOrderError, RowError, TargetError, Withdrawn
from spark_repl.relay.record import RECORD
from spark_repl.schedule.group import Group, StagedGroup

WAIT_S = 60
Meets = Callable[[], None]


def group(slot: int) -> Group:
    return replace(Group.of(np.zeros(1, RECORD), np.zeros(1, np.int32), 1), slot=slot)


def staged(group: Group, *tables: str) -> StagedGroup:
    definitions: Any = dict.fromkeys(tables)
    return StagedGroup(group, [Staged(0, definitions, [], dict.fromkeys(tables, 1))])


def fault(position: str) -> RowError:
    return RowError("no such row", position=position, number=1032)


def table_of(part: StagedGroup) -> str:
    (name,) = part.tables
    return name


def test_each_table_keeps_the_logs_order():
    # Scenario 4: several that finish at once; the order of each table is the log's.
    seen: dict[str, list[int]] = {name: [] for name in "abc"}

    def write(part: StagedGroup, meets: Meets) -> None:
        time.sleep(random.random() / 500)  # threads meet in any order
        meets()
        time.sleep(random.random() / 500)  # and end in any order
        seen[table_of(part)].append(part.group.slot)

    lanes = PerTableOrder(CommitOrder(), write)
    groups = [group(slot) for slot in range(30)]
    dice = random.Random(1)
    for one in groups:
        lanes.enter(staged(one, *dice.sample("abc", dice.randint(1, 3))))
    for one in groups:
        lanes.finish(one)
    assert all(slots == sorted(slots) for slots in seen.values())
    assert sum(map(len, seen.values())) > 30
    lanes.close()


def test_a_table_that_is_stuck_holds_only_those_back_that_it_meets():
    # NF-1 of WL#6964: others keep running while one retries.
    go, passed = threading.Event(), threading.Event()

    def write(part: StagedGroup, meets: Meets) -> None:
        meets()
        if table_of(part) == "a":
            assert go.wait(WAIT_S)
        elif part.group.slot == 4:
            passed.set()

    lanes = PerTableOrder(CommitOrder(), write)
    groups = [group(slot) for slot in range(5)]
    lanes.enter(staged(groups[0], "a", "b"))
    for one in groups[1:]:
        lanes.enter(staged(one, "b"))
    assert passed.wait(WAIT_S), "b waits for a"
    with lanes.standstill() as still:
        assert not still
    go.set()
    for one in groups:
        lanes.finish(one)
    with lanes.standstill() as still:
        assert still
    lanes.close()


def test_nothing_is_committed_before_all_parts_fit():
    go, committed = threading.Event(), list[str]()

    def write(part: StagedGroup, meets: Meets) -> None:
        if table_of(part) == "a":
            assert go.wait(WAIT_S)
        meets()
        committed.append(table_of(part))

    lanes, one = PerTableOrder(CommitOrder(), write), group(0)
    lanes.enter(staged(one, "a", "b", "c"))
    time.sleep(0.1)  # b and c would commit now if they did not wait for a
    assert committed == []
    go.set()
    lanes.finish(one)
    assert sorted(committed) == ["a", "b", "c"]
    lanes.close()


def test_behind_a_failed_part_its_groups_tables_take_no_other():
    """a fails in group 1, so b has nothing of it; c meets b in group 2, so it has nothing of that;
    d meets none of them."""
    written: list[tuple[str, int]] = []

    def write(part: StagedGroup, meets: Meets) -> None:
        if (table_of(part), part.group.slot) == ("a", 1):
            raise fault("1:40")
        meets()
        written.append((table_of(part), part.group.slot))

    lanes = PerTableOrder(CommitOrder(), write)
    groups = [group(slot) for slot in range(5)]
    for one, tables in zip(groups, ("abcd", "ab", "bc", "c", "d"), strict=True):
        lanes.enter(staged(one, *tables))
    lanes.finish(groups[0])
    with pytest.raises(RowError):
        lanes.finish(groups[1])
    for one in groups[2:4]:
        with pytest.raises(CommitOrderError):
            lanes.finish(one)
    lanes.finish(groups[4])
    assert sorted(written) == [("a", 0), ("b", 0), ("c", 0), ("d", 0), ("d", 4)]
    lanes.close()


def test_an_error_that_is_no_rows_is_raised_first():
    errors: dict[str, Exception] = {
        "a": fault("1:40"),
        "b": TargetError("another writer changed the table"),
        "c": CommitOrderError("a group before this one failed"),
    }

    def write(part: StagedGroup, meets: Meets) -> None:
        raise errors[table_of(part)]

    for tables, first in (("abc", TargetError), ("ac", CommitOrderError), ("a", RowError)):
        lanes, one = PerTableOrder(CommitOrder(), write), group(0)
        lanes.enter(staged(one, *tables))
        with pytest.raises(first):
            lanes.finish(one)
        lanes.close()


def test_the_first_fault_in_the_log_is_named():
    def write(part: StagedGroup, meets: Meets) -> None:
        raise fault({"a": "1:90", "b": "1:100", "c": "2:4"}[table_of(part)])

    lanes, one = PerTableOrder(CommitOrder(), write), group(0)
    lanes.enter(staged(one, "c", "b", "a"))
    with pytest.raises(RowError) as found:
        lanes.finish(one)
    assert found.value.position == "1:90"
    lanes.close()


def test_rows_that_fitted_at_the_meeting_and_do_not_later_stop_by_name():
    """A part is planned again behind the meeting: other tables may have landed, so there is no
    prefix that all of them could stop at."""

    def write(part: StagedGroup, meets: Meets) -> None:
        meets()
        if table_of(part) == "a":
            meets()  # as a part that is tried again does
            raise fault("1:40")

    lanes, one = PerTableOrder(CommitOrder(), write), group(0)
    lanes.enter(staged(one, "a", "b"))
    with pytest.raises(TargetError, match="no such row") as found:
        lanes.finish(one)
    assert (found.value.number, found.value.position) == (1032, "1:40")
    assert found.value.hint is not None and "another writer" in found.value.hint
    lanes.close()


def test_close_ends_what_waits_for_a_part_that_will_never_come():
    busy, go = threading.Event(), threading.Event()

    def write(part: StagedGroup, meets: Meets) -> None:
        if part.group.slot == 0:
            busy.set()
            assert go.wait(WAIT_S)
        meets()

    lanes = PerTableOrder(CommitOrder(), write)
    lanes.enter(staged(group(0), "a"))
    lanes.enter(staged(group(1), "a", "b"))
    assert busy.wait(WAIT_S)
    closing = threading.Thread(target=lanes.close)
    closing.start()
    time.sleep(0.1)  # a's part of group 1 is cancelled in its queue; b's waits for it
    go.set()
    closing.join(WAIT_S)
    assert not closing.is_alive()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sets(st.sampled_from("abcd"), min_size=1), max_size=25),
    st.sets(st.tuples(st.sampled_from("abcd"), st.integers(0, 24))),
)
def test_groups_are_whole_and_none_waits_for_ever(tables: list[set[str]], bad: set[Any]) -> None:
    """For any tables of the groups and any failing parts: each group is committed to all its tables
    or to none, in the log's order, and to none after a stuck table."""
    landed: dict[int, set[str]] = {slot: set() for slot in range(len(tables))}

    def write(part: StagedGroup, meets: Meets) -> None:
        if (table_of(part), part.group.slot) in bad:
            raise fault("1:40")
        meets()
        landed[part.group.slot].add(table_of(part))

    lanes = PerTableOrder(CommitOrder(), write)
    groups = [group(slot) for slot in range(len(tables))]
    for one in groups:
        lanes.enter(staged(one, *tables[one.slot]))
    stuck: set[str] = set()
    for one in groups:
        mine = tables[one.slot]
        if stuck & mine or any((name, one.slot) in bad for name in mine):
            with pytest.raises(CommitOrderError if stuck & mine else RowError):
                lanes.finish(one)
            assert not landed[one.slot]
            stuck |= mine
        else:
            lanes.finish(one)
            assert landed[one.slot] == mine
    lanes.close()


def test_nothing_enters_behind_what_could_not_be_read():
    lanes = PerTableOrder(CommitOrder(), lambda part, meets: meets())
    lanes.refuse()
    with pytest.raises(CommitOrderError):
        lanes.enter(staged(group(1), "a"))


def test_a_tables_part_of_a_group_keeps_the_slot():
    found = staged(group(3), "a", "b").of_table("b")
    assert found.tables == ["b"] and found.group.slot == 3 and found.folder is None
    assert [list(part.changes) for part in found.by_worker] == [["b"]]


def test_what_all_have_agreed_on_goes_on_whatever_breaks_behind_it() -> None:
    """A part that is planned again after the meeting (a retry) does not wait for the other parts
    again."""
    meeting = Meeting(["t.a", "t.b"])
    with ThreadPoolExecutor(2) as pool:
        for came in [pool.submit(meeting.comes, name) for name in ("t.a", "t.b")]:
            came.result(30)
    meeting.breaks()
    assert meeting.is_held
    meeting.comes("t.a")


def test_before_all_have_agreed_none_goes_on() -> None:
    meeting = Meeting(["t.a", "t.b"])
    meeting.breaks()
    assert not meeting.is_held
    with pytest.raises(Withdrawn):
        meeting.comes("t.a")


def test_tables_that_have_nothing_to_do_keep_no_threads() -> None:
    """However many names come, and a table that comes again goes on in order."""
    seen: list[tuple[str, int]] = []

    def write(part: StagedGroup, meets: Meets) -> None:
        meets()
        seen.append((table_of(part), part.group.slot))

    lanes = PerTableOrder(CommitOrder(), write)
    lanes.idle_max = 3
    before = threading.active_count()
    for slot in range(40):
        one = group(slot)
        lanes.enter(staged(one, f"t{slot}", "always"))
        lanes.finish(one)
    assert len(lanes._lanes) <= 2 + lanes.idle_max and not +lanes._queued
    assert threading.active_count() - before <= 4 + lanes.idle_max
    assert [slot for name, slot in seen if name == "always"] == [*range(40)]
    again = group(40)
    lanes.enter(staged(again, "t0"))
    lanes.finish(again)
    assert seen[-1] == ("t0", 40)
    lanes.close()


def test_a_table_that_is_busy_keeps_its_thread() -> None:
    go = threading.Event()
    order: list[int] = []

    def write(part: StagedGroup, meets: Meets) -> None:
        meets()
        if table_of(part) == "busy":
            assert go.wait(WAIT_S)
            order.append(part.group.slot)

    lanes = PerTableOrder(CommitOrder(), write)
    lanes.idle_max = 0
    groups = [group(slot) for slot in range(6)]
    for one in groups:
        lanes.enter(staged(one, "busy" if one.slot % 2 == 0 else f"t{one.slot}"))
    go.set()
    for one in groups:
        lanes.finish(one)
    assert order == [0, 2, 4]
    lanes.close()
