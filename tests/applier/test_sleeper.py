"""An applier that slept while another took the target over: it wakes, is fenced, and disturbs
nothing that its successor has in work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from spark_repl import Config
from spark_repl.apply.group.xa_parts import XaParts
from spark_repl.apply.start.replica import Replica
from spark_repl.control.transaction_files.xa_store import XaStore
from spark_repl.crash_points import listening
from spark_repl.errors import FencedError
from spark_repl.observe.reports.applier_status import read_applier_status
from spark_repl.observe.status.status import status
from tests.support import local_delta
from tests.support.binlog_writer import LogWriter, Table, insert, update
from tests.support.local_delta import applier, rows, run

A = Table("a")


@contextmanager
def two_owners(log: LogWriter, target: Path, **aim: Any) -> Iterator[tuple[Replica, Replica]]:
    """The sleeper, and the one that took over."""
    values = {"path": str(target), "column_mapping": False, **aim}
    config = Config.from_mapping({"relay": {"path": str(log.folder)}, "target": values})
    with local_delta.without_spark():
        old = Replica(MagicMock(), config, parts=local_delta.HERE)
        old.start()
        new = Replica(MagicMock(), config, take_over=True, parts=local_delta.HERE)
        new.start()
        yield old, new
        new.close()


def apply(one: Replica) -> None:
    one.coordinator.apply(one.index.slice(0, one.index.end))


def go_on(sleeper: Replica) -> FencedError | None:
    """It tries to carry out the statement that comes next, and ends."""
    try:
        apply(sleeper)
    except FencedError as error:
        sleeper.close(error)
        return error
    return None


@pytest.fixture
def changed(log: LogWriter, target: Path) -> LogWriter:
    run(log.folder, target)
    log.ddl("CREATE TABLE t.c (id INT PRIMARY KEY)")
    log.transaction(insert(A, *[(key, "a") for key in range(50)]))
    log.transaction(update(A, ((1, "a"), (1, "b"))))
    return log


@pytest.mark.parametrize("step", ["before_statement", "staged"])
def test_the_successor_goes_on(changed, target, step):
    with two_owners(changed, target) as (old, new):
        fenced = list[FencedError | None]()

        def reach(name: str) -> None:
            if name == step and not fenced:
                fenced.append(None)  # the sleeper passes here too
                fenced[0] = go_on(old)

        with listening(reach):
            apply(new)
        assert fenced[0] is not None
        assert (
            read_applier_status(new.tracking.layout.status)["coordinator"]["SERVICE_STATE"] == "ON"
        )
    assert rows(target, A) == sorted([(1, "b"), *((k, "a") for k in range(50) if k != 1)])


def test_the_status_is_the_owners(changed, target):
    with two_owners(changed, target) as (old, new):
        apply(new)
        old.close(FencedError("taken over"))
        (said,) = status(str(target))["replication_applier_status_by_coordinator"]
        assert (said["SERVICE_STATE"], said["LAST_ERROR_MESSAGE"]) == ("ON", "")


def test_a_status_of_an_owner_before_is_not_shown_for_the_one_that_runs(changed, target):
    """It has written none yet, or the sleeper's came last."""
    with two_owners(changed, target) as (old, _):
        old.coordinator._status.stopped(FencedError("an old story"))
        (said,) = status(str(target))["replication_applier_status_by_coordinator"]
        assert said["SERVICE_STATE"] == "ON" and "an old story" not in json.dumps(said)


def test_what_dead_owners_left_is_removed(changed, target):
    staging = target / "_repl" / "staging"
    with two_owners(changed, target) as (old, new):
        apply(new)
        left = staging / str(old.tracking.control.epoch) / "group-7"
        left.mkdir(parents=True)
        (staging / "group-1").mkdir()
        (left / "x.arrow").write_bytes(b"")
    with two_owners(changed, target):
        assert not left.exists() and not (staging / "group-1").exists()


def test_a_checkpoint_is_its_owners_until_that_has_ended(changed, target):
    """A sleeper's stream may still write into the one that it had."""
    with applier(changed.folder, target) as found:
        noted = Path(found.opened.checkpoint, "commits", "0")
        noted.parent.mkdir(parents=True)
        noted.write_text("v1")
    with applier(changed.folder, target) as found:
        assert Path(found.opened.checkpoint, "commits", "0").exists() and not noted.exists()
    with two_owners(changed, target) as (old, new):
        Path(old.opened.checkpoint, "commits").mkdir(parents=True, exist_ok=True)
        assert Path(old.opened.checkpoint) != Path(new.opened.checkpoint)
        assert not list(Path(new.opened.checkpoint).iterdir())
    with applier(changed.folder, target) as found:
        assert not list(Path(found.opened.checkpoint).iterdir())
        assert list(Path(found.tracking.layout.state, "checkpoint").iterdir()) == [
            Path(found.opened.checkpoint)
        ]


def test_one_that_sleeps_in_its_start_removes_no_branch(changed, target):
    """Prepared by its successor: the cut that the sleeper has read does not name it."""
    with two_owners(changed, target) as (old, new):
        store = XaStore(new.tracking.layout.xa)
        branch = Path(store.path(77))
        branch.parent.mkdir(parents=True, exist_ok=True)
        branch.write_bytes(b"its events")
        with pytest.raises(FencedError):
            XaParts.of(old.tracking, old.tracking.control.cuts()[-1], keep_all=False)
        assert branch.exists()
