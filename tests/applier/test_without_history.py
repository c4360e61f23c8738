"""``copy = "none"`` of ``[[tables]]``: a table begins empty at its copy, and follows the log."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from spark_repl.observe.metrics import metrics
from spark_repl.observe.screen import screen
from spark_repl.observe.status.status import status
from tests.support.binlog_writer import Change, LogWriter, Table, delete, insert, update
from tests.support.local_delta import last_shown, run, stopped
from tests.support.made_copy import finish, plan, plan_first, read

A, B = Table("a"), Table("b")
RULE: dict[str, Any] = {"tables": [{"match": "t.a", "copy": "none"}]}


def first_copy(log: LogWriter, target: Path, transactions: int = 0, **rule: Any) -> None:
    """A first copy of t.a without rows and of t.b with row 1, which ends that many ``transactions``
    of the log later."""
    begun = f"{log.source}:1-3"
    tables = [{**RULE["tables"][0], **rule}]
    plan_first(target, begun, "t.a", "t.b", tables=tables, empty=["t.a"])
    read(target, A, [], tables=tables)
    read(target, B, [(1, "x")], tables=tables)
    finish(target, f"{log.source}:1-{3 + transactions}")


@pytest.mark.parametrize("bound", [1, 100])
@pytest.mark.parametrize("catching_up", [0, 2, 9])
def test_changes_of_rows_from_before_are_passed_over_and_counted(
    log: LogWriter, target: Path, bound: int, catching_up: int
) -> None:
    """Also once the copy is shown, with strict exec_mode: t.a had rows 1 to 4."""
    first_copy(log, target, catching_up)
    log.transaction(update(A, ((1, "old"), (1, "changed"))))
    log.transaction(insert(A, (7, "new"), (8, "new"), (9, "new")))
    log.transaction(delete(A, (2, "old")))
    log.transaction(update(A, ((3, "old"), (30, "moved"))), update(A, ((7, "new"), (70, "moved"))))
    log.transaction(update(A, ((8, "new"), (8, "changed"))), delete(A, (9, "new")))
    log.transaction(update(B, ((1, "x"), (1, "y"))))
    log.transaction(delete(A, (1, "changed")), insert(A, (1, "again")))
    log.transaction(update(A, ({0: 4}, {1: "partial"})), update(A, ({0: 70}, {1: "partial"})))
    log.transaction(insert(A, (2, "again")))
    assert run(log.folder, target, group_max_transactions=bound, **RULE)
    want = [(1, "again"), (2, "again"), (8, "changed"), (70, "partial")]
    assert last_shown(target) == {"t.a": want, "t.b": [(1, "y")]}
    found = status(str(target))
    assert found["passed_over"]["t.a"] == 5
    assert "left out of t.a (mode append, or copy = none)" in screen(found)
    assert 'passed_over_total{channel="default",table="t.a"}' in metrics(found)


def test_a_table_stays_without_history_at_later_starts(log: LogWriter, target: Path) -> None:
    """Whatever the rule says then, and under another name."""
    first_copy(log, target)
    assert run(log.folder, target, **RULE)
    log.transaction(update(A, ((1, "old"), (1, "changed"))), insert(A, (5, "new")))
    assert run(log.folder, target)
    log.ddl("ALTER TABLE t.a ADD COLUMN x INT")
    wide = Table("a", (*A.columns, ("x", "int")))
    log.transaction(
        delete(wide, (1, "changed", None)), update(wide, ((5, "new", None), (5, "x", 1)))
    )
    log.ddl("RENAME TABLE t.a TO t.c")
    renamed = Table("c", wide.columns)
    log.transaction(delete(renamed, (2, "old", None)), insert(renamed, (6, "new", 2)))
    assert run(log.folder, target)
    assert last_shown(target) == {"t.b": [(1, "x")], "t.c": [(5, "x", 1), (6, "new", 2)]}


def test_tables_with_history_stay_strict_beside_those_without(log: LogWriter, target: Path) -> None:
    first_copy(log, target)
    log.transaction(update(A, ((1, "old"), (1, "changed"))))
    log.transaction(update(B, ((2, "none"), (2, "changed"))))
    error = stopped(log.folder, target, **RULE)
    assert (error.number, error.table) == (1032, "t.b")


@pytest.mark.parametrize("mode", ["append", "changelog"])
def test_modes_that_keep_what_the_log_has(log: LogWriter, target: Path, mode: str) -> None:
    first_copy(log, target, mode=mode)
    log.transaction(update(A, ((1, "old"), (1, "changed"))))
    log.transaction(insert(A, (2, "new")))
    log.transaction(delete(A, (2, "new")))
    assert run(log.folder, target, tables=[{"match": "t.a", "copy": "none", "mode": mode}])
    rows = [row[:2] for row in last_shown(target)["t.a"]]
    images = [(1, "old"), (1, "changed"), (2, "new"), (2, "new")]
    assert sorted(rows) == sorted([(2, "new")] if mode == "append" else images)


def test_a_table_begins_again_empty_beside_the_others(log: LogWriter, target: Path) -> None:
    """An existing table begins again, empty, after the newest cut."""
    log.transaction(insert(A, (1, "old"), (2, "old")), insert(B, (1, "x")))
    assert run(log.folder, target)
    plan(target, "t.a", empty=["t.a"])
    read(target, A, [], **RULE)
    log.transaction(insert(A, (3, "meanwhile")), insert(B, (2, "x")))
    log.transaction(update(A, ((1, "old"), (1, "changed"))))
    finish(target, f"{log.source}:1-6")
    log.transaction(delete(A, (2, "old")), insert(B, (3, "x")))
    assert run(log.folder, target, copies=True, **RULE)
    assert last_shown(target) == {"t.a": [(3, "meanwhile")], "t.b": [(1, "x"), (2, "x"), (3, "x")]}


def test_a_crash_at_any_step_leaves_tables_without_history_equal(tmp_path: Path) -> None:
    """Every step of a run that catches up with the copy, and goes on."""
    step = 0
    while True:
        step += 7
        log = LogWriter(tmp_path / f"log{step}")
        for statement in ("CREATE DATABASE t", A.create, B.create):
            log.ddl(statement)
        target = tmp_path / f"lake{step}"
        first_copy(log, target, 2)
        log.transaction(update(A, ((1, "old"), (1, "changed"))), insert(A, (5, "new")))
        log.transaction(insert(B, (2, "x")), delete(A, (2, "old")))
        log.transaction(
            update(A, ((5, "new"), (6, "moved"))), update(A, ((3, "old"), (4, "moved")))
        )
        whole = run(log.folder, target, crash=step, group_max_transactions=1, **RULE)
        assert run(log.folder, target, group_max_transactions=1, **RULE)
        assert last_shown(target) == {"t.a": [(6, "moved")], "t.b": [(1, "x"), (2, "x")]}
        if whole:
            return


def test_taking_the_last_key_stops(log: LogWriter, target: Path) -> None:
    """Without one, a row from before is not told from one that came since. No copy is made of it:
    the table's rows would be gone."""
    first_copy(log, target)
    log.transaction(insert(A, (5, "new")))
    log.ddl("ALTER TABLE t.a DROP PRIMARY KEY")
    error = stopped(log.folder, target, copies=True, **RULE)
    assert error.table == "t.a" and "has no key" in str(error)
    assert last_shown(target)["t.a"] == [(5, "new")]


def test_a_statement_whose_rows_the_log_lacks_stops(log: LogWriter, target: Path) -> None:
    """A new copy would remove the rows that came since."""
    first_copy(log, target)
    log.transaction(insert(A, (5, "new")))
    assert run(log.folder, target, copies=True, **RULE)
    log.ddl("ALTER TABLE t.a ADD COLUMN x INT AUTO_INCREMENT UNIQUE")
    error = stopped(log.folder, target, copies=True, **RULE)
    assert error.table == "t.a"
    assert last_shown(target)["t.a"] == [(5, "new")]


@pytest.mark.parametrize("seed", range(12))
def test_a_table_without_history_has_the_keys_inserted_since_its_copy(
    tmp_path: Path, seed: int
) -> None:
    """The table has the rows whose key was inserted since the copy."""
    rand = random.Random(seed)
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    for statement in ("CREATE DATABASE t", A.create, B.create):
        log.ddl(statement)
    source = {key: (key, "old") for key in range(6)}
    wanted: dict[int, tuple[int, str]] = {}
    transactions = rand.randint(2, 14)
    first_copy(log, target, rand.randint(0, transactions))
    for number in range(transactions):
        log.transaction(*(_change(rand, source, wanted, f"v{number}") for _ in range(3)))
    bound = rand.choice([1, 3, 100])
    assert run(log.folder, target, group_max_transactions=bound, workers=3, **RULE)
    assert last_shown(target)["t.a"] == sorted(wanted.values())


def _change(
    rand: random.Random,
    source: dict[int, tuple[int, str]],
    wanted: dict[int, tuple[int, str]],
    value: str,
) -> Change:
    """A change that the source may make, and what it makes of the rows that are wanted."""
    free = [key for key in range(10) if key not in source]
    kind = rand.choice(["insert", "delete", "update", "move"])
    if free and (kind == "insert" or not source):
        key = rand.choice(free)
        source[key] = wanted[key] = (key, value)
        return insert(A, source[key])
    key = rand.choice(sorted(source))
    old = source.pop(key)
    new = wanted.pop(key, None)
    if kind == "delete":
        return delete(A, old)
    to = rand.choice(free) if kind == "move" and free else key
    source[to] = (to, value)
    if new is not None:
        wanted[to] = source[to]
    return update(A, (old, source[to]))
