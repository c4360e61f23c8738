"""The log behind a first copy, of tables that were read as of one moment: nothing comes twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from spark_repl.control.records.copies import last_copy
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.gtid import GtidSet
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import HERE, applier, broken, last_shown, run
from tests.support.made_copy import finish, plan_first, read

BAG = Table("bag", key=())


def test_a_crash_while_a_table_without_a_key_catches_up(
    log: LogWriter, target: Path, killed: Callable[..., None]
) -> None:
    """The copy has its first row, the applier had brought it the second."""
    log.ddl(BAG.create)
    plan_first(target, f"{log.source}:1-4", "t.bag")
    for key in range(1, 4):
        log.transaction(insert(BAG, (key, "x")))
    read(target, BAG, [(1, "x")])
    held = GtidSet.parse(f"{log.source}:1-5")
    finish(target, f"{log.source}:1-7", exact={"t.bag": held})
    killed(log, target, lambda name: name == "after_put", group_max_transactions=1)
    assert run(log.folder, target)
    assert last_shown(target)["t.bag"] == [(1, "x"), (2, "x"), (3, "x")]


def copied_bag(log: LogWriter, target: Path, until: int) -> None:
    """A first copy of a table of one row, from its CREATE TABLE to that transaction."""
    log.ddl(BAG.create)
    plan_first(target, f"{log.source}:1-4", "t.bag")
    read(target, BAG, [(1, "x")])
    finish(target, f"{log.source}:1-{until}")


def test_that_a_copy_was_shown_is_noted_where_the_source_is_idle(
    log: LogWriter, target: Path
) -> None:
    """With the cut that shows it, before any group: a copy of no tables is found by that alone."""
    copied_bag(log, target, until=4)
    with applier(log.folder, target):
        copy = last_copy(Control(Layout(str(target)).control))
        assert copy and copy.shown
    assert last_shown(target)["t.bag"] == [(1, "x")]


def test_that_a_copy_was_shown_is_noted_though_storage_fails_for_a_moment(
    log: LogWriter, target: Path
) -> None:
    copied_bag(log, target, until=5)
    log.transaction(insert(BAG, (2, "x")))
    fails = [broken()]

    class Broken(Control):
        def write(self, kind: str, *args: Any, **more: Any) -> Any:
            if kind == "copy" and fails:
                raise fails.pop()
            return super().write(kind, *args, **more)

    assert run(log.folder, target, parts=replace(HERE, control=Broken)) and not fails
    copy = last_copy(Control(Layout(str(target)).control))
    assert copy and copy.shown
