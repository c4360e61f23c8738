"""A stream's first group, staged while the stream is started: used when the batch begins with the
very same group, and else of no effect."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_repl.apply.start.replica import Replica
from spark_repl.decode.stage import stage
from spark_repl.decode.staged import Staged, StageTask
from spark_repl.errors import LogError
from spark_repl.observe.reports.applier_status import ApplierStatus
from spark_repl.observe.reports.worker_status import APPLYING, STAGING
from tests.support import local_delta
from tests.support.binlog_writer import LogWriter, Table, delete, insert
from tests.support.local_delta import HERE, Here, applier, rows, run

A, B = Table("a"), Table("b")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of how many transactions rows were read, each time."""
    found = list[int]()

    class Counting(Here):
        def begins(self, function: Any, tasks: Any) -> None:
            if tasks and isinstance(tasks[0], StageTask):
                found.append(sum(len(span.starts) for task in tasks for span in task.spans))

    monkeypatch.setattr(local_delta, "HERE", replace(local_delta.HERE, workers=Counting))
    return found


def grown(log: LogWriter, target: Path) -> None:
    """Tables that are there, and three transactions more."""
    run(log.folder, target)
    for number in (1, 2, 3):
        log.transaction(insert(A, (number, "x")))


def left(found: Replica) -> list[str]:
    """What is staged by the one that holds the target."""
    return os.listdir(found.coordinator._pipeline.reader.stager._folder)


def apply(log: LogWriter, target: Path, change: Callable = lambda records: records) -> list[str]:
    """Returns what is left of staged files while the applier still holds the target."""
    with applier(log.folder, target) as found:
        found.coordinator.begin_ahead(found.index)
        records = found.index.slice(found.coordinator.mark.position, found.index.end)
        found.coordinator.apply(change(records))
        said = found.coordinator._status._workers.rows("", service="ON")
        assert {row["APPLYING_TRANSACTION"] for row in said} == {""}, "as if it went on for ever"
        return left(found)


def test_the_same_group_is_staged_once(log, target, reads):
    grown(log, target)
    reads.clear()
    assert apply(log, target) == []
    assert reads == [3]
    assert rows(target, A) == [(1, "x"), (2, "x"), (3, "x")]


def test_it_is_said_when_its_turn_comes(log, target):
    """Found: a group that was read ahead was in no status until its files were written."""
    grown(log, target)
    said = list[str]()

    class Told(ApplierStatus):
        def works(self, group: Any, state: str) -> None:
            said.append(state)

    with applier(log.folder, target, parts=replace(HERE, status=Told)) as found:
        coordinator = found.coordinator
        coordinator.begin_ahead(found.index)
        coordinator._pipeline.reader._thread.submit(lambda: None).result()
        assert said == []
        coordinator.apply(found.index.slice(coordinator.mark.position, found.index.end))
    assert said == [STAGING, APPLYING]


def test_two_groups_are_staged_if_the_batch_lets_them(log, target, reads):
    grown(log, target)
    for number in range(4, 9):
        log.transaction(insert(A, (number, "x")))
    reads.clear()
    with applier(log.folder, target, group_max_transactions=2) as found:
        coordinator = found.coordinator
        coordinator.begin_ahead(found.index)
        coordinator._pipeline.reader._thread.submit(lambda: None).result()
        assert reads == [2, 2]
        coordinator.apply(found.index.slice(coordinator.mark.position, found.index.end))
        assert reads == [2, 2, 2, 2]
        assert left(found) == []
    assert rows(target, A) == [(number, "x") for number in range(1, 9)]


def test_another_group_is_staged_anew(log, target, reads):
    grown(log, target)
    reads.clear()
    assert apply(log, target, lambda records: records[:2]) == []
    assert reads == [3, 2]
    assert rows(target, A) == [(1, "x"), (2, "x")]


def test_it_ends_at_a_statement(log, target, reads):
    """What rows behind it mean is known when it has been carried out."""
    grown(log, target)
    log.ddl("TRUNCATE TABLE t.a")
    log.transaction(insert(A, (1, "again")))
    reads.clear()
    with applier(log.folder, target) as found:
        coordinator = found.coordinator
        coordinator.begin_ahead(found.index)
        coordinator._pipeline.reader._thread.submit(lambda: None).result()
        assert reads == [3]
        coordinator.apply(found.index.slice(coordinator.mark.position, found.index.end))
        assert reads == [3, 1]
    assert rows(target, A) == [(1, "again")]


def test_what_goes_wrong_then_is_met_in_its_turn(log, target, reads, monkeypatch):
    grown(log, target)
    reads.clear()

    def once(task: StageTask) -> Staged:
        if len(reads) == 1:
            raise LogError("once")
        return stage(task)

    monkeypatch.setattr(local_delta, "HERE", replace(local_delta.HERE, stage=once))
    assert apply(log, target) == []
    assert reads == [3, 3]
    assert rows(target, A) == [(1, "x"), (2, "x"), (3, "x")]


def test_groups_whose_meaning_may_change_get_none(log, target, reads):
    """XA parts are followed group by group; a delayed replica has time."""
    grown(log, target)
    log.xa_prepare((b"a", b"b", 1), insert(A, (4, "x")))
    log.transaction(delete(A, (1, "x")))
    reads.clear()
    run(log.folder, target)
    assert reads == [4], "together; a branch is read when it ends"
    log.transaction(insert(A, (5, "x")))
    reads.clear()
    run(log.folder, target, delay_s=1)
    assert reads == [1]
    assert rows(target, A) == [(2, "x"), (3, "x"), (5, "x")]
