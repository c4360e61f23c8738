"""Statements that make, drop, rename and empty tables, in their place in the order: whatever a
crash leaves, the end and every cut are states of the source."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.binlog_writer import Change, LogWriter, Table, delete, insert, update
from tests.support.local_delta import at_cut, cuts, run

A, B = Table("a"), Table("b")
STRIDE = int(os.environ.get("SPARK_REPL_STRIDE", "4"))
"""of the steps that are tried; 1 takes minutes"""
State = dict[str, list[tuple[int, str]]]


class Source:
    """A server that does what it logs; ``states``: its tables behind each transaction. ``again``:
    the same transactions at other places, as a relay log has them that was fetched again."""

    def __init__(self, log: LogWriter, again: LogWriter) -> None:
        self.log, self.again, self.tables = log, again, dict[str, dict[int, str]]()
        self.states: list[State] = []
        self.ddl("CREATE DATABASE t")

    def ddl(self, statement: str) -> None:
        self.log.ddl(statement)
        self.again.ddl(f"/* again */ {statement}")
        self._look()

    def transaction(self, change: Change) -> None:
        self.log.transaction(change)
        self.again.transaction(change)
        self._look()

    def _look(self) -> None:
        state = {f"t.{n}": sorted(rows.items()) for n, rows in self.tables.items()}
        self.states.append(state)

    def create(self, name: str) -> None:
        self.tables[name] = {}
        self.ddl(Table(name).create)

    def like(self, name: str, model: str) -> None:
        self.tables[name] = {}
        self.ddl(f"CREATE TABLE t.{name} LIKE t.{model}")

    def drop(self, *names: str) -> None:
        for name in names:
            del self.tables[name]
        self.ddl(f"DROP TABLE {', '.join(f't.{n}' for n in names)} /* generated */")

    def truncate(self, name: str) -> None:
        self.tables[name] = {}
        self.ddl(f"TRUNCATE t.{name}")

    def rename(self, *pairs: tuple[str, str]) -> None:
        for before, after in pairs:
            self.tables[after] = self.tables.pop(before)
        renames = ", ".join(f"t.{a} TO t.{b}" for a, b in pairs)
        self.ddl(f"RENAME TABLE {renames}")

    def put(self, name: str, key: int, value: str) -> None:
        table, rows = Table(name), self.tables[name]
        if key in rows:
            change = update(table, ((key, rows[key]), (key, value)))
        else:
            change = insert(table, (key, value))
        rows[key] = value
        self.transaction(change)

    def take(self, name: str, key: int) -> None:
        change = delete(Table(name), (key, self.tables[name].pop(key)))
        self.transaction(change)


def assert_states(source: Source, target: Path) -> None:
    """Every cut is a state of the source, and the last one the last."""
    shown = cuts(target)
    for cut in shown:
        number = int(cut.gtid_executed.rsplit(":")[-1].rsplit("-")[-1])
        assert at_cut(target, cut) == source.states[number - 1], cut.gtid_executed
    assert at_cut(target, shown[-1]) == source.states[-1]


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(LogWriter(tmp_path / "log"), LogWriter(tmp_path / "again", created=1_800_000_000))


def swaps(source: Source) -> None:
    """What a table's name means changes with every other statement."""
    source.create("a")
    source.create("b")
    source.put("a", 1, "of a")
    source.put("b", 1, "of b")
    source.rename(("a", "x"), ("b", "a"), ("x", "b"))
    source.put("a", 1, "of b, called a")
    source.put("b", 2, "of a, called b")
    source.rename(("a", "c"))
    source.like("a", "c")
    source.put("a", 1, "of the new a")
    source.drop("b", "a")
    source.create("b")
    source.put("b", 1, "of the new b")
    source.truncate("c")
    source.put("c", 5, "behind the truncation")


@pytest.mark.parametrize("bound", [1, 100])
@pytest.mark.parametrize("order", [True, False], ids=["in order", "apart"])
def test_names_mean_what_they_mean_at_their_place(source, tmp_path, bound, order):
    swaps(source)
    target = tmp_path / "lake"
    assert run(source.log.folder, target, group_max_transactions=bound, preserve_commit_order=order)
    assert_states(source, target)
    assert (target / "t" / "a@2").is_dir(), "a folder is never used twice"


@pytest.mark.parametrize("lost", [False, True], ids=["the same log", "another log"])
def test_a_crash_at_any_step(source, tmp_path, lost):
    """Behind it the log goes on, or is lost and fetched again: GTIDs alone say what was applied."""
    swaps(source)
    for step in range(1, 1000, STRIDE):
        target = tmp_path / f"lake{step}"
        if run(source.log.folder, target, crash=step):
            break
        then = source.again.folder if lost else source.log.folder
        run(then, target, crash=step % 7 + 1, group_max_transactions=2)
        assert run(then, target)
        assert_states(source, target)
    assert step > 40
