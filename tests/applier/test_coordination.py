"""What the coordinator takes of a log, where it says that it has come to the end, how it stops."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from spark_repl.decode.stage_task import Staged, StageTask
from spark_repl.decode.stage_worker import stage
from spark_repl.schedule.until import Until
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import (
    HERE,
    Here,
    applier,
    apply_without_stream,
    rows,
    run,
)

A, B = Table("a"), Table("b")


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    """Of two statements."""
    made = LogWriter(tmp_path / "log")
    for statement in (A.create, B.create):
        made.ddl(statement)
    return made


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def test_what_a_checkpoint_is_ahead_of_is_applied_first(log: LogWriter, target: Path) -> None:
    log.transaction(insert(A, (1, "x")))
    run(log.folder, target)
    for key in (2, 3, 4):
        log.transaction(insert(A, (key, "x")))
    with applier(log.folder, target) as replica:
        coordinator, end = replica.coordinator, replica.index.end
        for offset in (None, 0, coordinator.mark.position):
            coordinator.apply_before_checkpoint(offset)
        assert rows(target, A) == [(1, "x")]
        for _ in range(2):
            coordinator.apply_before_checkpoint(end)
            assert rows(target, A) == [(key, "x") for key in (1, 2, 3, 4)]
        assert coordinator.mark.position == end
        assert replica.result(0.0).counters.at_start == 3
        assert not coordinator.has_met_until(), "nothing was said of an end"


def test_an_end_that_the_log_has_not_come_to_is_not_reached(log: LogWriter, target: Path) -> None:
    until = Until.parse(f"after-gtids:{log.gtid(2)}")
    with applier(log.folder, target, until=until) as replica:
        apply_without_stream(replica)
        assert not replica.coordinator.has_met_until()
        for key in (1, 2):
            log.transaction(insert(A, (key, "x")))
        index = replica.opened.applied.refresh()
        replica.coordinator.apply(index.slice(replica.coordinator.mark.position, index.end))
        assert replica.coordinator.has_met_until()
    assert rows(target, A) == [(1, "x")]


@pytest.mark.parametrize("order", [True, False])
def test_a_stop_ends_the_wait_for_another_attempt(
    log: LogWriter, target: Path, faults: Callable[..., list[str]], order: bool
) -> None:
    """Neither the group that waits nor those behind it are errors; the next run applies them."""
    for key in (1, 2, 3):
        log.transaction(insert(A, (key, "x")))
    bounds = {"group_max_transactions": 1, "preserve_commit_order": order}
    tried = faults(("t/a",), 1)
    stops = list[Callable[[], None]]()

    def wait(stopping: threading.Event, seconds: float) -> bool:
        stops[0]()
        return stopping.is_set()

    with applier(log.folder, target, parts=replace(HERE, wait=wait), **bounds) as replica:
        stops.append(replica.stop)
        apply_without_stream(replica)
        assert replica.coordinator.stopping.is_set()
        assert replica.result(0.0).counters.retries == 1
    assert tried == ["t/a"]
    run(log.folder, target, **bounds)
    assert rows(target, A) == [(key, "x") for key in (1, 2, 3)]


class Small(Here):
    def is_small(self, **_: int) -> bool:
        return True


def test_one_worker_has_all_of_a_small_group(log: LogWriter, target: Path) -> None:
    """A second one would cost more than it helps."""
    log.parent = log.gno - 1
    for key in range(4):
        log.transaction(insert(A, (key, "x")))
    seen = list[int]()

    def noted(task: StageTask) -> Staged:
        seen.append(task.worker)
        return stage(task)

    with applier(
        log.folder, target, workers=2, parts=replace(HERE, stage=noted, workers=Small)
    ) as replica:
        apply_without_stream(replica)
    assert set(seen) == {0}
