"""A server whose statements make of rows what its log doesn't hold, and copies of its table t.a."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from spark_repl.gtid import GtidSet
from tests.support.binlog_writer import SOURCE, Change, LogWriter, Table, delete, insert, update
from tests.support.local_delta import at_cut, cuts, run
from tests.support.made_copy import finish, plan, read

A, B = Table("a"), Table("b")
WIDE = Table("a", (("id", "int"), ("v", "varchar(40)"), ("x", "int")))
NUMBERED = "ALTER TABLE t.a ADD COLUMN x INT AUTO_INCREMENT UNIQUE"
State = dict[str, dict[int, tuple[Any, ...]]]


class Source:
    """A server that does what it logs; ``states``: its tables behind each transaction."""

    def __init__(self, folder: Path) -> None:
        self.logs = LogWriter(folder / "log"), LogWriter(folder / "again", created=1_800_000_000)
        self.tables, self.states = State(), list[State]()
        self.ddl("CREATE DATABASE t", {})
        self.ddl(A.create, {"t.a": {}})
        self.ddl(B.create, {"t.a": {}, "t.b": {}})
        for key in range(1, 7):
            self.put(A, (key, f"v{key}"))

    @property
    def folder(self) -> Path:
        return self.logs[0].folder

    @property
    def executed(self) -> str:
        return f"{SOURCE}:1-{len(self.states)}"

    def _look(self) -> None:
        self.states.append({name: dict(rows) for name, rows in self.tables.items()})

    def ddl(self, statement: str, tables: State, error: int = 0) -> None:
        for number, log in enumerate(self.logs):
            log.ddl(f"{'/* again */ ' * number}{statement}", error=error)
        self.tables = tables
        self._look()

    def number(self) -> None:
        """Gives t.a a column whose values no log holds."""
        rows = {key: (*row, 100 - key) for key, row in self.tables["t.a"].items()}
        self.ddl(NUMBERED, {**self.tables, "t.a": rows})

    def put(self, table: Table, row: tuple[Any, ...]) -> None:
        rows = self.tables[f"{table.database}.{table.name}"]
        before, rows[row[0]] = rows.get(row[0]), row
        self._transaction(update(table, (before, row)) if before else insert(table, row))

    def take(self, table: Table, key: int) -> None:
        self._transaction(delete(table, self.tables[f"t.{table.name}"].pop(key)))

    def _transaction(self, change: Change) -> None:
        for log in self.logs:
            log.transaction(change)
        self._look()

    def rows(self, name: str, number: int) -> list[tuple[Any, ...]]:
        """Return the rows of a table after the transaction of that number."""
        return list(self.states[number - 1][name].values())


def assert_cuts(source: Source, target: Path) -> None:
    """Every cut shows the source's tables as they were there, but for those that it says wait."""
    for cut in cuts(target):
        number = GtidSet.parse(cut.gtid_executed).count()
        want = {name: sorted(rows.values()) for name, rows in source.states[number - 1].items()}
        shown = at_cut(target, cut)
        assert not shown.keys() & cut.waiting.keys()
        assert shown.keys() | cut.waiting.keys() == want.keys(), cut.gtid_executed
        assert {name: want[name] for name in shown} == shown, cut.gtid_executed


def copy_a(
    source: Source,
    target: Path,
    table: Table = WIDE,
    *,
    asked: str = "",
    meanwhile: Callable[[], object] = lambda: None,
) -> None:
    """A copy whose rows are of two moments, while the source goes on. ``meanwhile``: what happens
    before the copy is known to be done, behind its last row."""
    name = f"t.{table.name}"
    plan(target, name, asked=asked)
    first = len(source.states)
    source.put(table, (2, "while it is read", *(55,) * (len(table.columns) - 2)))
    source.take(table, 5)
    source.put(B, (len(source.states), "while it is read"))
    source.put(table, (9, "new", *(91,) * (len(table.columns) - 2)))
    last, until = len(source.states), source.executed
    rows = [row for row in source.rows(name, first) if row[0] % 2]
    rows += [row for row in source.rows(name, last) if row[0] % 2 == 0]
    read(target, table, rows)
    source.put(table, (4, "behind it", *(44,) * (len(table.columns) - 2)))
    source.put(B, (3, "behind it"))
    meanwhile()
    finish(target, until)
    source.put(B, (4, "behind it"))


BOUND: dict[str, Any] = {"copies": True, "group_max_transactions": 1}


def waiting(source: Source, target: Path) -> Any:
    """Applies what there is; why tables wait at the last cut."""
    assert run(source.folder, target, copies=True, group_max_transactions=1)
    assert_cuts(source, target)
    return cuts(target)[-1].waiting
