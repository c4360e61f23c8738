"""Idle tables are due once, when nothing needs their old files and commits any more."""

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
from spark_repl.delta.log.retention_properties import retention_properties
from spark_repl.write.upkeep.idle_tables import IdleTables

AGE_H = 100
"""hours for which t.a has not changed"""


@pytest.fixture
def case(tmp_path: Path) -> Any:
    layout = Layout(str(tmp_path))
    control = Control(layout.control)
    control.claim()
    commit = tmp_path / "t" / "a" / "_delta_log" / f"{3:020d}.json"
    commit.parent.mkdir(parents=True)
    commit.touch()
    os.utime(commit, (0, time.time() - 3600 * AGE_H))
    snapshot = SimpleNamespace(version=3, configuration=retention_properties(24))
    table = SimpleNamespace(path="t/a", folder=str(tmp_path / "t" / "a"), snapshot=snapshot)
    tracking = SimpleNamespace(layout=layout, control=control, tables={"t.a": table})
    return SimpleNamespace(tracking=tracking, table=table, note=layout.vacuumed("t/a"))


def due(case: Any, *, since: IdleTables | None = None, **keys: int) -> int:
    """Return how often the table is due in five checks."""
    idle = since or IdleTables(case.tracking, Target(path="", **keys))
    found = 0
    for _ in range(5):
        idle._next = 0
        found += idle.next() is not None
    return found


def vacuumed(case: Any, hours_ago: float) -> None:
    touch(case.note)
    os.utime(case.note, (0, time.time() - 3600 * hours_ago))


@pytest.mark.parametrize(
    ("keys", "found"),
    [({}, 1), ({"vacuum_hours": 0}, 1), ({"commit_retention_hours": AGE_H + 1}, 0)],
)
def test_an_idle_table_is_due_once(case: Any, keys: dict[str, int], found: int) -> None:
    assert due(case, **keys) == found


@pytest.mark.parametrize(("kept", "found"), [(AGE_H - 1, 1), (AGE_H + 1, 0)])
def test_an_idle_table_is_due_after_its_own_retention(case: Any, kept: int, found: int) -> None:
    case.table.snapshot.configuration = retention_properties(kept)
    assert due(case) == found


@pytest.mark.parametrize(("hours_ago", "found"), [(AGE_H - 23, 1), (1, 0)])
def test_an_idle_table_is_not_due_again_after_a_restart(
    case: Any, hours_ago: int, found: int
) -> None:
    """The last VACUUM came too soon, or was enough."""
    vacuumed(case, hours_ago)
    assert due(case) == found


def test_an_idle_table_without_a_recorded_vacuum_is_due(case: Any) -> None:
    """The working state was lost: to ``TableMaintenance`` the table would be a new one."""
    assert due(case)
    assert time.time() - os.path.getmtime(case.note) > 3600 * (AGE_H - 1)


def test_an_idle_table_is_due_again_after_a_change_or_the_end_of_a_pin(case: Any) -> None:
    control = case.tracking.control
    control.publish(Cut(1, "", "log", {}, {}))
    pin(control, control.cuts()[-1], "month_end")
    idle = IdleTables(case.tracking, Target(path=""))
    assert due(case, since=idle) == 1
    vacuumed(case, 25)
    assert due(case, since=idle) == 0
    unpin(control, "month_end")
    assert due(case, since=idle) == 1
    case.table.snapshot.version = 4
    assert due(case, since=idle) == 0, "nobody knows when it has changed"


def test_idle_tables_are_checked_rarely_if_none_is_due(case: Any) -> None:
    idle = IdleTables(case.tracking, Target(path=""))
    assert idle.next() is case.table
    assert idle.next() is None
    case.tracking.tables = None  # else it would ask again
    assert idle.next() is None


def test_removed_tables_are_forgotten(case: Any) -> None:
    """However many names ever came."""
    idle = IdleTables(case.tracking, Target(path=""))
    assert due(case, since=idle) == 1
    assert idle._given and idle._changed
    case.tracking.tables = {}
    assert due(case, since=idle) == 0
    assert not idle._given and not idle._changed
