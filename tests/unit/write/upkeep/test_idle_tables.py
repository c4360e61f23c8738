"""Idle tables are due once, when all may go that nothing needs."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spark_repl.config import Target
from spark_repl.control.records.replaced_tables import touch
from spark_repl.control.records.retention import pin, unpin
from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut
from spark_repl.control.table.layout import Layout
from spark_repl.write.upkeep.file_retention import properties
from spark_repl.write.upkeep.idle_tables import IdleTables

AGE_H = 100
"""hours for which t.a has not changed"""


@pytest.fixture
def made(tmp_path: Path) -> Any:
    layout = Layout(str(tmp_path))
    control = Control(layout.control)
    control.claim()
    commit = tmp_path / "t" / "a" / "_delta_log" / f"{3:020d}.json"
    commit.parent.mkdir(parents=True)
    commit.touch()
    os.utime(commit, (0, time.time() - 3600 * AGE_H))
    snapshot = SimpleNamespace(version=3, configuration=properties(24))
    table = SimpleNamespace(path="t/a", folder=str(tmp_path / "t" / "a"), snapshot=snapshot)
    tracking = SimpleNamespace(layout=layout, control=control, tables={"t.a": table})
    return SimpleNamespace(tracking=tracking, table=table, note=layout.vacuumed("t/a"))


def due(made: Any, *, since: IdleTables | None = None, **keys: int) -> int:
    """How often the table is given, of five times that somebody asks."""
    idle = since or IdleTables(made.tracking, Target(path="", **keys))
    found = 0
    for _ in range(5):
        idle._next = 0
        found += idle.next() is not None
    return found


def vacuumed(made: Any, hours_ago: float) -> None:
    touch(made.note)
    os.utime(made.note, (0, time.time() - 3600 * hours_ago))


@pytest.mark.parametrize(
    ("keys", "found"),
    [({}, 1), ({"vacuum_hours": 0}, 1), ({"commit_retention_hours": AGE_H + 1}, 0)],
)
def test_it_is_due_once(made: Any, keys: dict[str, int], found: int) -> None:
    assert due(made, **keys) == found


@pytest.mark.parametrize(("kept", "found"), [(AGE_H - 1, 1), (AGE_H + 1, 0)])
def test_files_stay_as_long_as_the_table_says(made: Any, kept: int, found: int) -> None:
    made.table.snapshot.configuration = properties(kept)
    assert due(made) == found


@pytest.mark.parametrize(("hours_ago", "found"), [(AGE_H - 23, 1), (1, 0)])
def test_not_again_behind_a_restart(made: Any, hours_ago: int, found: int) -> None:
    """The last VACUUM came too soon, or was enough."""
    vacuumed(made, hours_ago)
    assert due(made) == found


def test_a_vacuum_is_due_though_none_is_noted(made: Any) -> None:
    """The working state was lost: to ``Tending`` the table would be a new one."""
    assert due(made)
    assert time.time() - os.path.getmtime(made.note) > 3600 * (AGE_H - 1)


def test_again_when_it_has_changed_or_a_pin_has_ended(made: Any) -> None:
    control = made.tracking.control
    control.publish(Cut(1, "", "log", {}, {}))
    pin(control, control.cuts()[-1], "month_end")
    idle = IdleTables(made.tracking, Target(path=""))
    assert due(made, since=idle) == 1
    vacuumed(made, 25)
    assert due(made, since=idle) == 0
    unpin(control, "month_end")
    assert due(made, since=idle) == 1
    made.table.snapshot.version = 4
    assert due(made, since=idle) == 0, "nobody knows when it has changed"


def test_it_asks_rarely_where_nothing_is_due(made: Any) -> None:
    idle = IdleTables(made.tracking, Target(path=""))
    assert idle.next() is made.table
    assert idle.next() is None
    made.tracking.tables = None  # else it would ask again
    assert idle.next() is None


def test_tables_that_are_no_more_are_forgotten(made: Any) -> None:
    """However many names ever came."""
    idle = IdleTables(made.tracking, Target(path=""))
    assert due(made, since=idle) == 1
    assert idle._given and idle._changed
    made.tracking.tables = {}
    assert due(made, since=idle) == 0
    assert not idle._given and not idle._changed
