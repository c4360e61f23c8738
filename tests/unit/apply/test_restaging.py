"""Which of a group's staged parts an attempt reads anew, and what is dropped of what was read."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from spark_repl.apply.group.restaging import Restaging
from spark_repl.decode.staged import Staged
from spark_repl.relay.record import RECORD
from spark_repl.schedule.group import Group, StagedGroup
from spark_repl.tables.table_definition import TableDefinition

_GROUP = Group.of(np.zeros(2, RECORD), np.zeros(2, np.int32), 1)


def staged_group(tables: dict[int, str]) -> StagedGroup:
    """Each worker has changes of one table."""
    definition = cast(TableDefinition, None)
    parts = [Staged(n, {name: definition}, [], {name: 1}) for n, name in tables.items()]
    return StagedGroup(_GROUP, parts)


class Read:
    """What is asked of ``Staging``: which workers read again, and what is dropped."""

    def __init__(self) -> None:
        self.again_for: list[frozenset[int] | None] = []
        self.made: list[StagedGroup] = []
        self.dropped: list[StagedGroup] = []

    def again(self, group: Any, lost: frozenset[int] | None) -> StagedGroup:
        self.again_for.append(lost)
        self.made.append(staged_group({n: f"t.{n}" for n in lost or (0, 1)}))
        return self.made[-1]

    def drop(self, staged: StagedGroup) -> None:
        self.dropped.append(staged)


@pytest.fixture
def read() -> Any:
    return Read()


def test_what_lacks_nothing_is_not_read(read: Any) -> None:
    staged = staged_group({0: "t.0", 1: "t.1"})
    parts = Restaging(read, staged.group, staged)
    assert parts.all() is staged
    parts.lose(["t.none"])
    assert parts.all() is staged and not read.again_for


def test_the_workers_of_a_table_that_lacks_its_part_read_again(read: Any) -> None:
    staged = staged_group({0: "t.0", 1: "t.1"})
    parts = Restaging(read, staged.group, staged)
    parts.lose(["t.1"])
    now = parts.all()
    assert read.again_for == [frozenset({1})]
    assert [one.worker for one in now.by_worker] == [0, 1]
    assert now.by_worker[0] is staged.by_worker[0]
    assert now.by_worker[1] is read.made[0].by_worker[0]
    assert parts.all() is now, "behind a conflict it is only planned anew"
    parts.close()
    parts.close()
    assert read.dropped == read.made, "its own part alone, once"


def test_on_a_full_disk_room_is_made_of_all_that_was_staged(read: Any) -> None:
    staged = staged_group({0: "t.0", 1: "t.1"})
    parts = Restaging(read, staged.group, staged)
    parts.lose(["t.0"])
    now = parts.all()
    parts.drop()
    assert read.dropped == [*read.made, now]
    parts.all()
    assert read.again_for[1:] == [None], "everything is read anew"
