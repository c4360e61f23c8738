"""A table that the log makes and a copy of its name have two folders, whichever comes first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_repl.apply.start.replica import Replica
from spark_repl.control.records.copies import Copy, last_copy, record_copy
from spark_repl.control.records.table_paths import announce, check_free, given_paths, used_paths
from spark_repl.control.table.layout import Layout
from spark_repl.copy.copy_plan import plan_again
from spark_repl.errors import ConcurrentChangeError, TargetError
from spark_repl.gtid import GtidSet
from spark_repl.sql.classify import classify
from spark_repl.tables.target_table import TargetTable
from spark_repl.write.tables.new_tables import NewPaths
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import LocalDelta, applier, apply_without_stream, cuts, last_shown

A, B = Table("a"), Table("b")


def goes_on(found: Replica) -> None:
    found.opened.applied.refresh()
    apply_without_stream(found)


def planned(found: Replica, name: str, meanwhile: Any = lambda: None, **how: Any) -> Copy:
    """A copy of the table; ``meanwhile`` is done when its paths are chosen and not recorded."""

    def asks(config: Any, control: Any, only: tuple[str, ...], behind: Any) -> Copy:
        layout, used = Layout(config.target.path), given_paths(control)
        paths = {n: layout.fresh_path(*n.split("."), used) for n in only}
        meanwhile()
        return Copy(GtidSet(), dict.fromkeys(only, ()), paths, behind=behind)

    return plan_again(found.config, found.tracking.control, (name,), asks=asks, **how)


def test_the_log_makes_the_table_while_its_copy_is_planned(log: LogWriter, target: Path) -> None:
    log.transaction(insert(B, (1, "old")))
    with applier(log.folder, target) as found:
        apply_without_stream(found)

        def meanwhile() -> None:
            log.ddl("DROP TABLE t.b")
            log.ddl(B.create)
            log.transaction(insert(B, (1, "new")))
            goes_on(found)

        copy = planned(found, "t.b", meanwhile)
        assert found.tracking.tables["t.b"].path == "t/b@2" and copy.paths == {"t.b": "t/b@3"}
        recorded = last_copy(found.tracking.control)
        assert recorded is not None and recorded.paths == copy.paths
        log.transaction(insert(B, (2, "new")))
        goes_on(found)
    assert last_shown(target)["t.b"] == [(1, "new"), (2, "new")]


def test_the_log_makes_the_table_behind_the_plan(log: LogWriter, target: Path) -> None:
    """A table waits for its first copy, and its folder does not exist yet."""
    other = Table("x")
    log.ddl(other.create)
    log.transaction(insert(A, (1, "a")), insert(other, (1, "old")))
    log.ddl("RENAME TABLE t.x TO t.c")
    filters = {"filters": {"ignore_table": ["t.x"]}, "copies": True}
    with applier(log.folder, target, **filters) as found:
        apply_without_stream(found)
        assert planned(found, "t.c", waits=True).paths == {"t.c": "t/c"}
        table = Table("c")
        log.ddl("DROP TABLE t.c")
        log.ddl(table.create)
        log.transaction(insert(table, (1, "new")))
        goes_on(found)
        assert found.tracking.tables["t.c"].path == "t/c@2"
    assert cuts(target)[-1].tables["t.c"].path == "t/c@2"


def test_a_copy_is_planned_while_the_table_is_announced(log: LogWriter, target: Path) -> None:
    """Between the choice of its path and the row that says so."""
    with applier(log.folder, target) as found:
        apply_without_stream(found)
        control, layout = found.tracking.control, found.tracking.layout
        definition = classify("CREATE TABLE t.n (id INT PRIMARY KEY)", "t").definition
        assert definition is not None
        paths = NewPaths(control, layout)
        paths.load()
        path = paths.new(TargetTable.mirror_of(definition), LocalDelta())
        record_copy(control, Copy(GtidSet(), {"t.n": ()}, {"t.n": path}, error="no such table"))
        with pytest.raises(ConcurrentChangeError, match="t/n was given to another table"):
            announce(control, "t.n", path, 1, "", lambda: paths.check(path))
        assert paths.new(TargetTable.mirror_of(definition), LocalDelta()) == "t/n@2"
        made = found.tracking.create(definition, found.tracking.stamp(cuts(target)[-1]))
        assert made.path == "t/n@2"
        with pytest.raises(ConcurrentChangeError):
            check_free(control, ["t/m", made.path])
        assert made.path in used_paths(control)


@pytest.mark.parametrize("made_by", ["a statement", "rows"])
def test_a_copy_refuses_a_table_of_the_log(log: LogWriter, target: Path, made_by: str) -> None:
    log.transaction(insert(A, (1, "a")))
    table = Table("n")
    if made_by == "a statement":
        log.ddl(table.create)
    log.transaction(insert(table, (1, "a")))
    with applier(log.folder, target) as found:
        apply_without_stream(found)
        tracking, cut = found.tracking, cuts(target)[-1]
        definition = classify(table.create, "t").definition
        assert definition is not None
        with pytest.raises(TargetError, match="holds rows of the log") as caught:
            tracking.create_copy(definition, "t/n", tracking.stamp(cut))
        assert caught.value.table == "t.n"
        # A copy's own, which goes on where it was ended, is taken.
        assert tracking.create_copy(definition, "t/n@2", tracking.stamp(cut)).path == "t/n@2"
        assert tracking.create_copy(definition, "t/n@2", tracking.stamp(cut)).path == "t/n@2"
        with pytest.raises(TargetError, match="holds rows of the log"):
            tracking.create_copy(definition, "t/n@2", tracking.stamp(replace(cut, position=1)))
