"""GroupCommitter: what an attempt to write a group reads again, and what is dropped."""

from __future__ import annotations

import errno
import threading
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from spark_repl.apply.group.group_committer import RetryingWriter, StagedParts
from spark_repl.decode.stage_task import Staged
from spark_repl.relay.record import RECORD
from spark_repl.runtime.retry import Retries
from spark_repl.schedule.group import Group, StagedGroup
from spark_repl.tables.source_table import SourceTable

_GROUP = Group.of(np.zeros(2, RECORD), np.zeros(2, np.int32), 1)


class Reader:
    """A reader whose groups have folders below ``root``. ``again_for``: workers of each read."""

    def __init__(self, root: Path) -> None:
        self.again_for: list[frozenset[int] | None] = []
        self.read: list[StagedGroup] = []
        self._root = root

    def staged_group(self, tables: dict[int, str]) -> StagedGroup:
        """Each worker has changes of one table."""
        folder = self._root / str(len(list(self._root.iterdir())))
        folder.mkdir()
        definition = cast(SourceTable, None)
        parts = [Staged(n, {name: definition}, [], {name: 1}) for n, name in tables.items()]
        return StagedGroup(_GROUP, parts, str(folder))

    def read_again(self, group: Group, lost: frozenset[int] | None = None) -> StagedGroup:
        self.again_for.append(lost)
        self.read.append(self.staged_group({n: f"t.{n}" for n in lost or (0, 1)}))
        return self.read[-1]


@pytest.fixture
def reader(tmp_path: Path) -> Any:
    return Reader(tmp_path)


def dropped(*groups: StagedGroup) -> list[bool]:
    return [not Path(cast(str, group.folder)).exists() for group in groups]


def test_a_group_that_lacks_nothing_is_not_read_again(reader: Any) -> None:
    staged = reader.staged_group({0: "t.0", 1: "t.1"})
    parts = StagedParts(reader, staged.group, staged)
    assert parts.complete() is staged
    parts.lose(["t.none"])
    assert parts.complete() is staged and not reader.again_for


def test_the_workers_of_a_table_that_lacks_its_part_read_again(reader: Any) -> None:
    staged = reader.staged_group({0: "t.0", 1: "t.1"})
    parts = StagedParts(reader, staged.group, staged)
    parts.lose(["t.1"])
    now = parts.complete()
    assert reader.again_for == [frozenset({1})]
    assert [part.worker for part in now.by_worker] == [0, 1]
    assert now.by_worker[0] is staged.by_worker[0]
    assert now.by_worker[1] is reader.read[0].by_worker[0]
    assert parts.complete() is now, "after a conflict it is only planned again"
    parts.close()
    parts.close()
    assert dropped(*reader.read, staged) == [True, False], "only its own part"


def test_on_a_full_disk_all_that_was_staged_makes_room(reader: Any) -> None:
    staged = reader.staged_group({0: "t.0", 1: "t.1"})
    parts = StagedParts(reader, staged.group, staged)
    parts.lose(["t.0"])
    now = parts.complete()
    parts.drop()
    assert dropped(*reader.read, now) == [True, True]
    parts.complete()
    assert reader.again_for[1:] == [None], "everything is read again"


class FullDisk:
    """A writer for which there is no room at first. ``tried``: what it was given."""

    def __init__(self) -> None:
        self.tried: list[StagedGroup] = []

    def write(self, staged: StagedGroup, cut: Any, **_: Any) -> None:
        self.tried.append(staged)
        if len(self.tried) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")


def test_what_is_staged_makes_room_while_the_disk_is_full(reader: Any) -> None:
    writer, room = FullDisk(), list[list[bool]]()
    first = reader.staged_group({0: "t.0"})

    def wait(stopping: threading.Event, seconds: float) -> bool:
        room.append(dropped(first))
        return False

    retries = Retries(0, threading.Event(), lambda retry: None, wait=wait)
    cascading, cuts, status = (
        SimpleNamespace(followed=nullcontext),
        SimpleNamespace(cut_after=lambda group: None),
        SimpleNamespace(works=lambda *_: None, filtered=lambda *_: None),
    )
    rows = RetryingWriter(*cast(Any, (reader, cascading, writer, cuts, status, retries)))
    written = rows.write(first.group, first)
    assert room == [[True]], "before anybody waits"
    assert writer.tried == [first, written] and written is not first
