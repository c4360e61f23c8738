"""What an attempt leaves behind that found no room."""

from __future__ import annotations

import errno
import threading
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from spark_repl.apply.group.group_commit import Bringing
from spark_repl.relay.record import RECORD
from spark_repl.runtime.retry import Retries
from spark_repl.schedule.group import Group, StagedGroup


class Staging:
    """``dropped``: what was staged and is gone."""

    def __init__(self) -> None:
        self.dropped: list[StagedGroup] = []

    def cascading(self, cuts: Any) -> Any:
        return SimpleNamespace(followed=nullcontext)

    def again(self, group: Group, lost: Any) -> StagedGroup:
        return StagedGroup(group, [])

    def drop(self, staged: StagedGroup) -> None:
        self.dropped.append(staged)


class Full:
    """A writer for which there is no room at first. ``tried``: what it was given."""

    def __init__(self) -> None:
        self.tried: list[StagedGroup] = []

    def write(self, staged: StagedGroup, cut: Any, **_: Any) -> None:
        self.tried.append(staged)
        if len(self.tried) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")


def test_what_is_staged_makes_room_while_the_disk_is_full() -> None:
    group = Group.of(np.zeros(1, RECORD), np.zeros(1, np.int32), 1)
    staging, writer, free = Staging(), Full(), list[list[StagedGroup]]()

    def wait(stopping: threading.Event, seconds: float) -> bool:
        free.append(list(staging.dropped))
        return False

    retries = Retries(0, threading.Event(), lambda retry: None, wait=wait)
    cuts, status = (
        SimpleNamespace(cut_after=lambda group: None),
        SimpleNamespace(works=lambda *_: None, filtered=lambda *_: None),
    )
    bringing = Bringing(*cast(Any, (staging, writer, cuts, status, retries)))
    first = StagedGroup(group, [])
    written = bringing.write(group, first)
    assert free == [[first]], "before anybody waits"
    assert writer.tried == [first, written] and written is not first
