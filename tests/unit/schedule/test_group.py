"""Groups as they pass between rooms: what they say of their transactions, and when two are one."""

from __future__ import annotations

import random
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest

from spark_repl.binlog.events.xid import Xid
from spark_repl.config import Apply
from spark_repl.decode.stage_task import Part, Staged
from spark_repl.gtid import GtidSet
from spark_repl.position import RelayPosition
from spark_repl.relay.record import RECORD, Kind
from spark_repl.relay.xa_branches import Branch, XaGroup
from spark_repl.schedule.group import (
    BY_HAND_MAX,
    NO_SLOT,
    WITH_ROWS,
    ByHand,
    Group,
    StagedGroup,
    columns_of,
    of_kinds,
)
from spark_repl.schedule.planner import Planner, assign_workers
from spark_repl.schedule.waves import GroupLimits, first_group

UUID = "11111111-2222-3333-4444-555555555555"
OTHERS = GtidSet.parse(f"{UUID}:1-4")
BRANCH = Branch(Xid(1, b"a", b""), 77, f"{UUID}:9", 5_000_000, "/x", 10, 50, True, False, 40)


def records(count: int, kind: Kind = Kind.ROWS) -> np.ndarray:
    """Transactions 5, 6, ... of 100 bytes each, from offset 200 of file 1 on."""
    made = np.zeros(count, RECORD)
    starts = 200 + 100 * np.arange(count)
    made["position"] = [RelayPosition(1, int(start)).packed for start in starts]
    made["end"] = made["position"] + 100
    made["length"] = made["uncompressed"] = 100
    made["kind"] = kind
    made["uuid"] = np.frombuffer(bytes.fromhex(UUID.replace("-", "")), made["uuid"].dtype)[0]
    made["gno"] = 5 + np.arange(count)
    return made


def group(count: int = 3, **more: Any) -> Group:
    made = Group.of(records(count), np.arange(count, dtype=np.int32), count)
    return replace(made, executed=OTHERS, **more)


def test_a_group_tells_its_place_and_gtids() -> None:
    found = records(3)
    found["length"] = 40  # compressed
    one = Group.of(found, np.arange(3, dtype=np.int32), 3)
    one = replace(one, worker=np.array([1, 0, 1], np.int32))
    assert one.start == RelayPosition(1, 200).packed and one.end == RelayPosition(1, 500).packed
    assert one.uncompressed == 300 and one.slot == NO_SLOT and one.waves == 3
    assert one.shares == {0: f"{UUID}:6", 1: f"{UUID}:7"}, "the last transaction of each"
    assert str(one.gtids) == f"{UUID}:5-7"


@pytest.mark.parametrize(
    ("kind", "with_rows"),
    [
        (Kind.ROWS, True), (Kind.XA_COMMIT, True), (Kind.XA_PREPARE, True), (Kind.EMPTY, True),
        (Kind.ROLLBACK, True), (Kind.XA_ONE_PHASE, True), (Kind.XA_ROLLBACK, True),
        (Kind.QUERY, False), (Kind.STATEMENT, False), (Kind.INCIDENT, False),
    ],
)  # fmt: skip
def test_statements_go_another_way(kind: Kind, with_rows: bool) -> None:
    assert Group.of(records(1, kind), np.zeros(1, np.int32), 1).with_rows is with_rows


@pytest.mark.parametrize(
    ("position", "count"),
    [(None, 0), ("1:199", 0), ("1:200", 0), ("1:299", 0), ("1:300", 1), ("1:450", 2), ("1:500", 0)],
)
def test_a_group_counts_transactions_before_a_place(position: str | None, count: int) -> None:
    assert group().count_before(position) == count


def test_a_group_cut_short_keeps_its_first_transactions() -> None:
    before, xa = group(slot=4, worker=np.array([0, 1, 0], np.int32)), XaGroup(prepared=(BRANCH,))
    part = before.first(2, xa)
    assert str(part.gtids) == f"{UUID}:5-6" and part.end == RelayPosition(1, 400).packed
    assert (part.slot, part.executed, part.xa) == (4, OTHERS, xa)
    assert part.worker.tolist() == [0, 1] and part.wave.tolist() == [0, 1]
    assert len(before.records) == 3, "the group itself stays as it was"


def test_groups_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        group().slot = 3  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        StagedGroup(group(), []).folder = "x"  # type: ignore[misc]


def test_a_branch_that_is_in_no_log() -> None:
    xa = XaGroup(commits={0: BRANCH})
    at = ByHand(1000, 2, f"{UUID}:9", 4_000_000)
    one = Group.of_branch(BRANCH, at, xa, OTHERS)
    assert (one.start, one.end, one.uncompressed) == (1000, 1003, 40)
    assert one.records["position"][0] == 1000 - BY_HAND_MAX + 2
    assert one.gtids_by_hand == (BRANCH.gtid, f"{UUID}:9") and not one.gtids
    assert Group.of_branch(BRANCH, replace(at, committed_us=7), xa, OTHERS).records[
        "commit_time"
    ] == [5_000_000]
    assert one.executed == OTHERS and one.xa is xa and one.with_rows and one.last == 0
    assert one.records["commit_time"][0] == 5_000_000 and one.records["uncompressed"][0] == 40


def staged() -> StagedGroup:
    parts = [Part("t.a", 0, 2), Part("t.b", 0, 1)]
    definitions: Any = dict.fromkeys(("t.b", "t.a"))
    first = Staged(0, definitions, parts, {"t.a": 3, "t.b": 1})
    second = Staged(1, {"t.a": definitions["t.a"]}, [Part("t.a", 1, 5)], {"t.a": 5})
    return StagedGroup(group(), [first, second], "/staging/group-1", 1)


def test_a_staged_group_counts_its_changes_by_table() -> None:
    assert staged().tables == ["t.a", "t.b"] and staged().changes == 9
    assert staged().changes_by_table == {"t.a": 8, "t.b": 1}
    assert StagedGroup(group(), []).already == 0


def test_a_staged_group_gives_the_part_of_one_table() -> None:
    """Its files are the whole group's, who drops them."""
    part = staged().of_table("t.b")
    assert part.tables == ["t.b"] and part.changes == 1 and part.folder is None
    assert [[piece.table for piece in one.parts] for one in part.by_worker] == [["t.b"], []]
    assert part.already == 1 and part.group.slot == NO_SLOT


def test_waves_are_split_among_workers() -> None:
    """Waves are split among workers; what has no rows is the first one's."""
    found = records(4)
    found["kind"][1] = Kind.EMPTY
    one = Group.of(found, np.zeros(4, np.int32), 4)
    assert assign_workers(one, 1).worker.tolist() == [0, 0, 0, 0]
    two = assign_workers(one, 2).worker
    assert two[1] == 0 and {*two[[0, 2, 3]].tolist()} == {0, 1}
    assert one.worker.tolist() == [0, 0, 0, 0]


def test_a_batch_is_cut_into_groups() -> None:
    """Bounded by transactions; a statement is alone, with its warning's place."""
    found = records(5)
    found["kind"][2] = Kind.QUERY
    planner = Planner(Apply(group_max_transactions=2))
    batch = planner.batch(found)
    assert batch.barrier.tolist() == [False, False, True, False, False] and batch.warnings == []
    cut, first = list[tuple[int, bool]](), 0
    while (one := planner.group(batch, first)) is not None:
        cut.append((len(one.records), one.with_rows))
        first = one.last
    assert cut == [(2, True), (1, False), (2, True)] and first == 5


@pytest.mark.parametrize("most", [1, 3, 50])
def test_a_group_ends_where_it_would_in_the_whole_rest(most: int) -> None:
    """The planner looks no further than it has to, wherever statements are."""
    choose = random.Random(most)
    found = records(60)
    for at in choose.sample(range(60), 9):
        found["kind"][at] = Kind.QUERY
    planner, limits = (
        Planner(Apply(group_max_transactions=most)),
        GroupLimits(most, 1 << 20, 1 << 28),
    )
    batch, first = planner.batch(found), 0
    while (one := planner.group(batch, first)) is not None:
        rest = batch.barrier[first:], batch.records["uncompressed"][first:], np.zeros(60 - first)
        assert one.last == first + first_group(*rest, limits)
        first = one.last
    assert first == 60


def test_transactions_of_some_kinds() -> None:
    some = records(4)
    some["kind"] = [Kind.ROWS, Kind.DDL_ROWS, Kind.XA_COMMIT, Kind.EMPTY]
    assert of_kinds(some["kind"], WITH_ROWS).tolist() == [True, False, True, False]
    assert of_kinds(some["kind"][:0], WITH_ROWS).tolist() == []


def test_columns_of_more_records_than_a_block() -> None:
    some = np.zeros(10_000, RECORD)
    some["end"], some["kind"] = np.arange(10_000), np.arange(10_000) % 7
    columns = columns_of(some)
    assert all((column == some[name]).all() for name, column in columns.items())
    assert {"end", "kind"} < columns.keys()


def test_columns_follow_the_records() -> None:
    for one in (group().first(2, XaGroup()), group(2).of_rows()):
        assert all((column == one.records[name]).all() for name, column in one.columns.items())
        assert {len(column) for column in one.columns.values()} == {2}
