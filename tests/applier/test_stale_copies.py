"""What makes a copy useless, and where the applier goes on then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_repl.control.records.copies import last_copy, logged_while_copied, standing
from spark_repl.control.records.operator_decisions import SKIP, decide
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.copy.recopy import Queue, Wanted
from spark_repl.errors import StaleCopyError
from tests.support.binlog_writer import SOURCE, Table
from tests.support.local_delta import applier, apply_without_stream, cuts, last_shown, run
from tests.support.made_copy import finish, plan, plan_first, read
from tests.support.waiting_source import (
    BOUND,
    WIDE,
    A,
    B,
    Source,
    assert_cuts,
    copy_a,
    waiting,
)


@pytest.fixture
def source(tmp_path: Path) -> Source:
    made = Source(tmp_path)
    made.number()
    made.put(WIDE, (3, "changed", 97))
    return made


@pytest.mark.parametrize("asked", ["", "1.json"])
@pytest.mark.parametrize("waits", [True, False])
def test_a_statement_makes_a_copy_useless(tmp_path: Path, waits: bool, asked: str) -> None:
    """Rows before it have another shape than the copy. The table stays as it is in the target, or
    waiting, and the user who asked for the copy gets another one."""
    source, target = Source(tmp_path), tmp_path / "lake"
    if waits:
        left = {key: row for key, row in source.tables["t.a"].items() if key > 4}
        source.ddl("ALTER TABLE t.a TRUNCATE PARTITION p", {**source.tables, "t.a": left})
    assert waiting(source, target).keys() == ({"t.a"} if waits else set())
    plan(target, "t.a", asked=asked)
    source.put(A, (20, "of the old shape"))
    rows = {key: (*row, None) for key, row in source.tables["t.a"].items()}
    source.ddl("ALTER TABLE t.a ADD COLUMN x INT", {**source.tables, "t.a": rows})
    source.put(WIDE, (21, "of the new one", 3))
    read(target, WIDE, source.rows("t.a", len(source.states)))
    source.put(B, (5, "b"))
    finish(target, source.executed)
    assert waiting(source, target).keys() == ({"t.a"} if waits else set())
    copy = last_copy(Control(Layout(str(target)).control))
    assert copy and bool(copy.again) != waits and bool(copy.error) == waits
    assert "ALTER TABLE while the table was copied" in (copy.again or copy.error)
    control = Control(Layout(str(target)).control)
    wanted = Queue(tmp_path / "requests").next(control, standing(control))
    assert wanted == Wanted(("t.a",), "" if waits else asked, waits=waits)
    copy_a(source, target)
    assert not waiting(source, target)
    assert last_shown(target)["t.a"] == sorted(source.tables["t.a"].values())


@pytest.mark.parametrize(
    "names",
    [{"filters": {"rewrite_db": ["t->u"]}}, {"tables": [{"match": "t.a", "to": "u.a"}]}],
)
def test_a_statement_about_a_table_of_another_name(tmp_path: Path, names: dict[str, Any]) -> None:
    source, target = Source(tmp_path), tmp_path / "lake"
    assert run(source.folder, target, **names)
    plan(target, "u.a")
    source.ddl("ALTER TABLE t.a ADD COLUMN x INT", source.tables)
    read(target, Table("a", WIDE.columns, database="u"), [(1, "v1", None)])
    finish(target, source.executed)
    assert run(source.folder, target, **names)
    copy = last_copy(Control(Layout(str(target)).control))
    assert copy and "ALTER TABLE while the table was copied" in copy.error
    assert len(last_shown(target)["u.a"]) == 6


def test_a_table_that_is_dropped_behind_its_copy(source: Source, tmp_path: Path) -> None:
    """Before a cut could show the copy, which stands no longer then."""
    target, log = tmp_path / "lake", source.folder
    assert waiting(source, target)

    def drop() -> None:
        left = {name: rows for name, rows in source.tables.items() if name != "t.a"}
        source.ddl("DROP TABLE t.a /* generated */", left)
        assert run(log, target, **BOUND)

    copy_a(source, target, meanwhile=drop)
    assert not waiting(source, target)
    assert standing(Control(Layout(str(target)).control)).copy is None


@pytest.mark.parametrize("again", [False, True], ids=["the same log", "another log"])
def test_a_table_that_its_rows_made_is_there_when_its_statement_is_met_again(
    source: Source, tmp_path: Path, again: bool
) -> None:
    """Its CREATE TABLE says no columns; the applier goes back before it, for another one's copy."""
    target = tmp_path / "lake"
    assert waiting(source, target)

    def ahead() -> None:
        source.ddl("CREATE TABLE t.c LIKE other.unknown", source.tables)
        source.tables["t.c"] = {}
        source.put(Table("c"), (1, "c"))
        assert waiting(source, target).keys() == {"t.a"}

    copy_a(source, target, meanwhile=ahead)
    assert run(source.logs[again].folder, target, **BOUND)
    assert_cuts(source, target)
    assert last_shown(target)["t.c"] == [(1, "c")]


def test_no_cut_is_published_before_the_newest(source: Source, tmp_path: Path) -> None:
    """The next start takes the newest, which shows no copy."""
    target, log = tmp_path / "lake", source.folder
    assert waiting(source, target)

    def ahead() -> None:
        source.ddl("CREATE DATABASE other", source.tables)  # changes no table
        source.ddl("CREATE DATABASE another", source.tables)
        assert run(log, target, **BOUND)

    copy_a(source, target, meanwhile=ahead)
    newest = cuts(target)[-1].position
    before = [cut for cut in cuts(target) if cut.position < newest]
    assert not waiting(source, target) and "t.a" in last_shown(target)
    assert [cut for cut in cuts(target) if cut.position < newest] == before


def test_a_statement_that_comes_later_than_was_looked(tmp_path: Path) -> None:
    """The log did not hold it yet when the copy was taken in."""
    source, target = Source(tmp_path), tmp_path / "lake"
    assert not waiting(source, target)
    plan(target, "t.a")
    read(target, A, source.rows("t.a", len(source.states)))
    source.put(A, (20, "before it"))
    finish(target, f"{SOURCE}:1-{len(source.states) + 3}")
    with applier(source.folder, target, copies=True) as found:
        apply_without_stream(found)
        source.ddl("TRUNCATE t.a", {**source.tables, "t.a": {}})
        source.put(A, (1, "behind it"))
        found.opened.applied.refresh()
        with pytest.raises(StaleCopyError):
            apply_without_stream(found)
    assert not waiting(source, target)
    assert last_shown(target)["t.a"] == [(1, "behind it")]


@pytest.mark.parametrize("unfinished", [{}, {"t.a": "Unknown column"}])
def test_statements_during_a_first_copy_copy_the_table_again(
    tmp_path: Path, unfinished: dict[str, str]
) -> None:
    source, target = Source(tmp_path), tmp_path / "lake"
    held = source.executed
    plan_first(target, held, "t.a", "t.b")
    source.put(B, (1, "b"))
    read(target, B, source.rows("t.b", len(source.states)))
    source.put(A, (20, "of the old shape"))
    source.number()
    source.put(WIDE, (21, "of the new one", 3))
    if not unfinished:
        read(target, WIDE, source.rows("t.a", len(source.states)))
    finish(target, source.executed, unfinished=unfinished)
    source.put(B, (2, "b"))
    waits = waiting(source, target)
    assert waits.keys() == {"t.a"}
    assert waits["t.a"].since == f"{SOURCE}:12", "the statement's, also of one left unfinished"
    copy_a(source, target)
    assert not waiting(source, target)
    assert last_shown(target)["t.a"] == sorted(source.tables["t.a"].values())


@pytest.mark.parametrize(
    ("statement", "error"),
    [("ALTER TABLE t.a ADD COLUMN x INT", 1205), ("ALTER TABLE t.b ADD COLUMN x INT", 0)],
    ids=["it failed", "of another table"],
)
@pytest.mark.parametrize("then", [False, True], ids=["alone", "before one that does"])
def test_a_statement_that_changes_no_copied_table(
    tmp_path: Path, statement: str, error: int, then: bool
) -> None:
    source, target = Source(tmp_path), tmp_path / "lake"
    assert not waiting(source, target)
    plan(target, "t.a")
    source.ddl(statement, source.tables, error)
    if then:
        source.ddl("TRUNCATE t.a", {**source.tables, "t.a": {}})
    source.put(A, (1, "behind it"))
    read(target, A, source.rows("t.a", len(source.states)))
    finish(target, source.executed)
    assert not waiting(source, target)
    copy = last_copy(Control(Layout(str(target)).control))
    assert copy and copy.shown != then and bool(copy.again) == then
    assert last_shown(target)["t.a"] == sorted(source.tables["t.a"].values())


@pytest.mark.parametrize("statement", [True, False])
def test_a_copy_that_was_left_unfinished_is_made_again_behind_a_statement(
    tmp_path: Path, statement: bool
) -> None:
    """The user who asked for the copy gets another one. If the log has no statement, the answer is
    the source's error."""
    source, target = Source(tmp_path), tmp_path / "lake"
    assert run(source.folder, target)
    plan(target, "t.a", asked="1.json")
    if statement:
        source.ddl("TRUNCATE t.a", {**source.tables, "t.a": {}})
    finish(target, source.executed, unfinished={"t.a": "Unknown column"})
    assert run(source.folder, target)
    copy = last_copy(Control(Layout(str(target)).control))
    assert copy and bool(copy.again) == statement
    assert copy.error == ("" if statement else "Unknown column")
    assert_cuts(source, target)


def test_a_table_that_was_left_unfinished_waits(tmp_path: Path) -> None:
    """Whatever the log has: it is unknown which of the table's rows were copied."""
    source, target = Source(tmp_path), tmp_path / "lake"
    plan_first(target, source.executed, "t.a", "t.b")
    source.put(B, (1, "b"))
    read(target, A, source.rows("t.a", len(source.states)))
    finish(target, source.executed, unfinished={"t.b": "Unknown column"})
    source.put(B, (2, "b"))
    assert waiting(source, target)["t.b"].reason == "Unknown column"


def test_a_skipped_statement_leaves_the_copy_as_it_is(tmp_path: Path) -> None:
    """The user skips the statement, so the copy is shown as it was read."""
    source, target = Source(tmp_path), tmp_path / "lake"
    assert not waiting(source, target)
    plan(target, "t.a")
    source.ddl("ALTER TABLE t.a TRUNCATE PARTITION p", {**source.tables, "t.a": {}})
    control = Control(Layout(str(target)).control)
    decide(control, "skip", {}, gtid_executed=source.executed.replace(":1-", ":"))
    source.put(A, (1, "behind it"))
    read(target, A, source.rows("t.a", len(source.states)))
    finish(target, source.executed)
    assert run(source.folder, target, **BOUND)
    assert last_shown(target)["t.a"] == [(1, "behind it")]


def test_a_first_copy_of_which_nothing_is_left(tmp_path: Path) -> None:
    source, target = Source(tmp_path), tmp_path / "lake"
    plan_first(target, source.executed, "t.a")
    source.number()
    read(target, WIDE, source.rows("t.a", len(source.states)))
    finish(target, source.executed)
    source.states = [{n: r for n, r in s.items() if n != "t.b"} for s in source.states]
    source.tables.pop("t.b")
    source.put(WIDE, (1, "changed", 99))
    assert waiting(source, target).keys() == {"t.a"}
    assert standing(Control(Layout(str(target)).control)).copy is None


def test_the_log_need_not_have_what_the_target_had_or_what_was_left_out(tmp_path: Path) -> None:
    """``run`` waits for the rest. An errant transaction that is purged and left out never comes."""
    source, target = Source(tmp_path), tmp_path / "lake"
    waiting(source, target)
    had = cuts(target)[-1].gtid_executed
    errant = "eeeeeeee-eeee-eeee-eeee-eeeeeeeeeeee:1-3"
    control = Control(Layout(str(target)).control, "default")
    decide(control, SKIP, {}, gtid_executed=errant)
    plan(target, "t.a")
    finish(target, f"{had},{SOURCE}:900,{errant}")
    copy = last_copy(control)
    assert copy is not None and copy.until is not None
    assert str(logged_while_copied(control, copy)) == f"{SOURCE}:900"
