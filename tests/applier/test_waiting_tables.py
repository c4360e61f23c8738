"""Tables that wait for a copy: what cuts show of them, whatever a crash leaves."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from spark_repl.control.cuts.cut_reader import CutReader
from spark_repl.control.table.layout import Layout
from spark_repl.errors import ConfigError, StatementError
from spark_repl.observe.status.status import status
from tests.support import binlog_writer
from tests.support.binlog_writer import SOURCE, Table
from tests.support.local_delta import cuts, last_shown, run, stopped
from tests.support.made_copy import plan
from tests.support.waiting_source import (
    BOUND,
    NUMBERED,
    WIDE,
    A,
    B,
    Source,
    assert_cuts,
    copy_a,
    waiting,
)

AS_C = Table("c", WIDE.columns)
TABLE_MAP = binlog_writer._table_map
STRIDE = int(os.environ.get("SPARK_REPL_STRIDE", "13"))
"""of the steps that are tried; 1 takes minutes"""


@pytest.fixture
def source(tmp_path: Path) -> Source:
    made = Source(tmp_path)
    made.put(B, (1, "b"))
    made.number()
    made.put(WIDE, (3, "changed", 97))
    made.put(B, (2, "b"))
    return made


def cut_off_at(step: int, folder: Path, *, again: bool, ordered: bool) -> bool:
    """A run that a crash cuts off at a step, and one behind it, before a table waits and when its
    copy is taken in; False where there was a step to cut each off."""
    source, target = Source(folder), folder / "lake"
    bound = {**BOUND, "preserve_commit_order": ordered}
    source.number()
    source.put(WIDE, (3, "changed", 97))
    source.put(B, (2, "b"))
    whole = run(source.folder, target, crash=step, **bound)
    log = source.logs[again].folder
    assert run(log, target, **bound)
    assert cuts(target)[-1].waiting.keys() == {"t.a"} and last_shown(target).keys() == {"t.b"}

    def ahead() -> None:
        if step % 2:
            run(log, target, crash=step % 7 * 4, **bound)

    copy_a(source, target, meanwhile=ahead)
    whole &= run(log, target, crash=step, **bound)
    assert run(log, target, **bound)
    assert_cuts(source, target)
    assert not cuts(target)[-1].waiting and last_shown(target).keys() == {"t.a", "t.b"}
    return not whole


@pytest.mark.slow
@pytest.mark.parametrize(
    ("again", "ordered"),
    [(False, True), pytest.param(True, False, marks=pytest.mark.slow)],
    ids=["the same log", "another log, without commit order"],
)
def test_a_crash_at_any_step_leaves_a_waiting_table_consistent(
    tmp_path: Path, again: bool, ordered: bool
) -> None:
    """Before the table waits, while it does, and when its copy is taken in; the others are ahead of
    the copy's end by then, or they are not."""
    step = 1
    while cut_off_at(step, tmp_path / f"run{step}", again=again, ordered=ordered):
        step += STRIDE
    assert step > 40


def test_status_and_readers_say_why(source: Source, tmp_path: Path) -> None:
    target = tmp_path / "lake"
    why = waiting(source, target)["t.a"]
    assert why.since == f"{SOURCE}:11"
    assert "the numbers that column x gives" in why.reason and NUMBERED in why.reason
    shown = status(str(target))["waiting"]
    assert shown == {"t.a": {"reason": why.reason, "since": why.since, "copy": "not begun"}}
    plan(target, "t.a")
    assert status(str(target))["waiting"]["t.a"]["copy"] == "under way"
    with pytest.raises(ConfigError, match=r"does not show t\.a, which waits for a copy since"):
        CutReader(MagicMock(), Layout(str(target)), cuts(target)[-1]).table("t.a")


def test_without_a_source_an_unknown_value_stops(source: Source, tmp_path: Path) -> None:
    assert "column x gives" in str(stopped(source.folder, tmp_path / "lake"))
    error = stopped(source.folder, tmp_path / "other", copies=True, ddl={"unknown": "stop"})
    assert isinstance(error, StatementError) and error.table == "t.a"


def test_a_value_that_no_copy_could_keep_stops(source: Source, tmp_path: Path) -> None:
    source.ddl("ALTER TABLE t.b ADD COLUMN d DATETIME NOT NULL", source.tables)
    error = stopped(source.folder, tmp_path / "lake", copies=True)
    assert isinstance(error, StatementError) and "target.zero_dates" in str(error.hint)


def test_names_of_tables_that_wait(source: Source, tmp_path: Path) -> None:
    """Their other statements are passed over. A table that CREATE TABLE LIKE makes from one waits
    as well."""
    target, tables = tmp_path / "lake", source.tables
    renamed = {"t.b": tables["t.b"], "t.c": tables["t.a"]}
    source.ddl("ALTER TABLE t.a DROP COLUMN v, RENAME TO t.c", renamed)
    source.put(AS_C, (7, "c", 7))
    assert waiting(source, target).keys() == {"t.c"}
    source.ddl("CREATE TABLE IF NOT EXISTS t.c (other INT PRIMARY KEY)", source.tables)
    source.ddl("CREATE TABLE t.d LIKE t.c", {**source.tables, "t.d": {}})
    source.ddl("TRUNCATE t.c", {**source.tables, "t.c": {}})
    assert waiting(source, target).keys() == {"t.c", "t.d"}
    source.ddl("RENAME TABLE t.b TO t.e, t.c TO t.b, t.e TO t.c",
               {"t.b": {}, "t.c": source.tables["t.b"], "t.d": {}})  # fmt: skip
    assert waiting(source, target).keys() == {"t.b", "t.d"}
    assert last_shown(target)["t.c"] == sorted(tables["t.b"].values())
    source.ddl("DROP TABLE t.b, t.d /* generated */", {"t.c": source.tables["t.c"]})
    source.ddl(WIDE.create, {**source.tables, "t.a": {}})
    source.put(WIDE, (1, "new", 1))
    assert not waiting(source, target)
    assert last_shown(target)["t.a"] == [(1, "new", 1)]
    source.ddl("ALTER TABLE t.a DROP PARTITION p", {**source.tables, "t.a": {}})
    assert waiting(source, target).keys() == {"t.a"}
    source.ddl("DROP DATABASE t", {})
    assert not waiting(source, target)


def test_a_table_that_gets_another_name_waits_under_it(tmp_path: Path) -> None:
    """By the statement whose rows the log does not tell."""
    source, target = Source(tmp_path), tmp_path / "lake"
    numbered = {key: (*row, 100 - key) for key, row in source.tables["t.a"].items()}
    source.ddl(f"{NUMBERED}, RENAME TO t.c", {"t.b": source.tables["t.b"], "t.c": numbered})
    assert waiting(source, target).keys() == {"t.c"}
    source.put(AS_C, (7, "c", 7))
    copy_a(source, target, AS_C)
    assert not waiting(source, target)
    assert last_shown(target)["t.c"] == sorted(source.tables["t.c"].values())


def test_both_tables_of_an_exchange_wait(tmp_path: Path) -> None:
    source, target = Source(tmp_path), tmp_path / "lake"
    source.put(B, (1, "b"))
    by = "PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (100))"
    source.ddl(f"ALTER TABLE t.a {by}", source.tables)
    exchange = "ALTER TABLE t.{} EXCHANGE PARTITION p WITH TABLE t.{}"
    source.ddl(exchange.format("a", "b"), source.tables)
    assert waiting(source, target).keys() == {"t.a", "t.b"}
    source.ddl(A.create.replace("t.a", "t.c"), {**source.tables, "t.c": {}})
    assert waiting(source, target).keys() == {"t.a", "t.b"}
    source.ddl(exchange.format("c", "b"), source.tables)
    assert waiting(source, target).keys() == {"t.a", "t.b", "t.c"}


def test_an_exchange_of_empty_tables_that_is_met_again(tmp_path: Path) -> None:
    """They have rows by then, where the applier goes back for the copy of another one."""
    source, target = Source(tmp_path), tmp_path / "lake"
    for name in ("c", "d"):
        source.ddl(A.create.replace("t.a", f"t.{name}"), {**source.tables, f"t.{name}": {}})
    source.number()
    assert waiting(source, target).keys() == {"t.a"}

    def ahead() -> None:
        source.ddl("ALTER TABLE t.c EXCHANGE PARTITION p WITH TABLE t.d", source.tables)
        source.put(Table("c"), (1, "c"))
        source.put(Table("d"), (1, "d"))
        assert waiting(source, target).keys() == {"t.a"}

    copy_a(source, target, meanwhile=ahead)
    assert not waiting(source, target)


def test_rows_of_a_table_that_waits_may_cascade(tmp_path: Path) -> None:
    """Into one that is kept: the log does not hold what changes there."""
    source, target = Source(tmp_path), tmp_path / "lake"
    source.ddl("CREATE TABLE t.c (id INT PRIMARY KEY, a INT, FOREIGN KEY (a) REFERENCES t.a (id)"
               " ON DELETE CASCADE)", {**source.tables, "t.c": {}})  # fmt: skip
    source.number()
    source.put(WIDE, (1, "changed", 99))
    assert waiting(source, target).keys() == {"t.a"}
    source.take(WIDE, 1)
    assert "the source has changed rows of t.c" in str(stopped(source.folder, target, copies=True))


def unnamed(table: Table) -> bytes:
    """A TABLE_MAP as a server logs it with binlog_row_metadata=MINIMAL."""
    body, count = TABLE_MAP(table), len(table.columns)
    at = 13 + len(table.database) + len(table.name) + count
    at += 1 + body[at] + (count + 7) // 8
    kept = body[:at]
    while at < len(body):
        end = at + 2 + body[at + 1]
        kept += b"" if body[at] in (4, 8) else body[at:end]
        at = end
    return kept


def test_what_is_left_out_needs_no_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which columns of a parent change is not known then: every UPDATE may cascade."""
    monkeypatch.setattr(binlog_writer, "_table_map", unnamed)
    source, target = Source(tmp_path), tmp_path / "lake"
    source.number()
    source.put(WIDE, (1, "changed", 99))
    source.take(WIDE, 2)
    source.put(B, (1, "b"))
    assert waiting(source, target).keys() == {"t.a"}
    source.ddl("CREATE TABLE t.c (id INT PRIMARY KEY, a INT, FOREIGN KEY (a) REFERENCES t.a (id)"
               " ON UPDATE CASCADE)", {**source.tables, "t.c": {}})  # fmt: skip
    source.put(WIDE, (50, "new", 50))
    source.take(WIDE, 3)
    assert waiting(source, target).keys() == {"t.a"}
    source.put(WIDE, (50, "changed", 50))
    assert "the source has changed rows of t.c" in str(stopped(source.folder, target, copies=True))


def undecodable(table: Table) -> bytes:
    """A TABLE_MAP of t.a whose columns have no character sets: it is cut there."""
    return TABLE_MAP(table) + (bytes([3, 0]) if table == WIDE else b"")


@pytest.mark.parametrize("child", [False, True], ids=["alone", "with a child"])
def test_a_table_that_waits_is_read_no_further_than_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, child: bool
) -> None:
    """The foreign key is one that carries on what changes in t.a, so its columns are wanted."""
    monkeypatch.setattr(binlog_writer, "_table_map", undecodable)
    source, target = Source(tmp_path), tmp_path / "lake"
    if child:
        source.ddl("CREATE TABLE t.c (id INT PRIMARY KEY, a INT, FOREIGN KEY (a) REFERENCES t.a"
                   " (id) ON DELETE CASCADE)", {**source.tables, "t.c": {}})  # fmt: skip
    source.number()
    source.put(WIDE, (1, "changed", 99))
    source.put(B, (1, "b"))
    assert waiting(source, target).keys() == {"t.a"}
    source.put(WIDE, (2, "changed", 98))
    assert waiting(source, target).keys() == {"t.a"}  # a start of its own
    if child:
        source.take(WIDE, 1)
        error = stopped(source.folder, target, copies=True)
        assert "the source has changed rows of t.c" in str(error)


def test_what_cascades_into_a_table_that_waits_is_in_its_copy(tmp_path: Path) -> None:
    source, target = Source(tmp_path), tmp_path / "lake"
    source.ddl("ALTER TABLE t.a ADD FOREIGN KEY (id) REFERENCES t.b (id) ON DELETE CASCADE,"
               " DROP PARTITION p", source.tables)  # fmt: skip
    source.put(B, (1, "b"))
    source.take(B, 1)
    assert waiting(source, target).keys() == {"t.a"}
