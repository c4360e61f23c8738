"""Cells of the grid of statements, said to a server; its log applied; both sides compared."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql

from spark_repl.binlog.types.forms import USUAL
from spark_repl.control.records.copies import last_copy, record_copy
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.copy.copy_chunk import CopyTask, copy_rows
from spark_repl.copy.source_tables import table_definition
from spark_repl.delta.files.delta_columns import schema_json
from spark_repl.delta.log.stamp import Stamp
from spark_repl.delta.store.delta_rs_read import read
from spark_repl.demo.expected import differences
from spark_repl.errors import SparkReplError
from spark_repl.source.connection import connect
from spark_repl.tables.source_table import SourceTable
from spark_repl.write.tables.target_options import TargetOptions
from spark_repl.write.tables.tracking import Tracking
from tests.live.test_ddl_definitions import compare
from tests.support.local_delta import LocalDelta, applier, cuts, run
from tests.support.made_copy import finish, plan, plan_first

from .receiving import config_for
from .schema_load import table_state
from .server import Server
from .statement_grid import STATES, Cell

Look = tuple[Cell, str, int, tuple[list[dict[str, Any]], list[list[Any]]]]
"""a cell's table, by the name that it has then, at a GTID number: columns and rows"""


@dataclass
class Found:
    """``outcomes``: how often; ``wrong``: in words; ``copied``: cells whose rows no log tells, by
    the reason."""

    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    copied: dict[Cell, str] = field(default_factory=dict)


class GridLoad:
    """Says cells to a server."""

    def __init__(self, server: Server, state: str) -> None:
        for _, _, _, branch in server.query("XA RECOVER"):  # of one that was broken off
            server.query(f"XA ROLLBACK '{branch}'")
        server.query("RESET BINARY LOGS AND GTIDS", "DROP DATABASE IF EXISTS g")
        self.server, self.state = server, STATES[state]
        self._connection = server.connect(charset="utf8mb4")
        self._cursor = self._connection.cursor()
        self.looks: list[Look] = []
        self.refused: set[Cell] = set()
        self._say("CREATE DATABASE g", "USE g", "CREATE TABLE xs (id INT PRIMARY KEY, s TEXT)")
        self._branch = 0

    def close(self) -> None:
        self._connection.close()

    def _say(self, *statements: str) -> None:
        for statement in statements:
            self._cursor.execute(statement)

    def _tried(self, *statements: str) -> bool:
        """One transaction, or nothing of it."""
        try:
            self._say("BEGIN", *statements, "COMMIT")
        except pymysql.err.MySQLError:
            self._say("ROLLBACK")
            return False
        return True

    def make(self, cell: Cell) -> None:
        """Makes and fills the cell's table."""
        for transaction in cell.made():
            if not self._tried(*transaction):
                self.refused.add(cell)

    def change(self, cell: Cell) -> None:
        """The cell's statement, and rows behind it."""
        if cell in self.refused:
            return
        if self.state.prepared:
            self._branch += 1
            xid = f"'{self._branch}'"
            self._say(f"XA START {xid}", f"INSERT INTO xs VALUES ({self._branch}, 'branch')",
                      f"XA END {xid}", f"XA PREPARE {xid}")  # fmt: skip
        before = self._number()
        try:
            self._say(*cell.statements())
        except pymysql.err.MySQLError:
            self.refused.add(cell)
        else:
            if cell.statements()[-1].startswith("INSERT"):
                self._end_group()
            self._look(cell, cell.result)
            for transaction in cell.changed():
                self._rows(cell, transaction)
        if self.state.prepared:
            self._say(f"XA {'COMMIT' if self._branch % 3 else 'ROLLBACK'} {xid}")
        if self._number() > before:
            self._end_group()
            if cell not in self.refused:
                self._look(cell, cell.result)

    def _end_group(self) -> None:
        self._say("CREATE TABLE z (i INT)", "DROP TABLE z")

    def _rows(self, cell: Cell, transaction: Sequence[str]) -> None:
        columns = {row[0] for row in self.query(f"SHOW COLUMNS FROM {cell.result}")}
        name = "e" if "e" in columns else "d"
        self._tried(*(statement.replace("{e}", name) for statement in transaction))

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        self._cursor.execute(statement)
        return list(self._cursor.fetchall())

    def _number(self) -> int:
        ((executed,),) = self.query("SELECT @@GLOBAL.gtid_executed")
        return int(executed.rsplit(":")[-1].rsplit("-")[-1])

    def _look(self, cell: Cell, table: str) -> None:
        self.looks.append((cell, table, self._number(), table_state(self._cursor, "g", table)))


class GridRun:
    """Cells of one state, from a server to a target."""

    def __init__(self, server: Server, state: str, folder: Path, found: Found) -> None:
        self.server, self.state, self.folder = server, STATES[state], folder
        self.name, self.found = state, found
        self._count = 0

    def run(self, cells: Iterable[Cell]) -> Found:
        """What stops the applier is noted, and the others are tried without it."""
        left = list(cells)
        while left:
            self._count += 1
            place = self.folder / f"{self.name.replace(' ', '-')}{self._count}"
            load = self._load = GridLoad(self.server, self.name)
            try:
                target = self._applied(load, left, place)
            except SparkReplError as error:
                table = (error.table or "").removeprefix("g.")
                names = {table, table.removesuffix("_r"), table.removesuffix("_x")}
                hit = [cell for cell in left if cell.table in names]
                assert len(hit) == 1, error
                left.remove(hit[0])
                self.found.stopped.append(f"{hit[0]}: {type(error).__name__}: {error}")
            else:
                self._compare(load, left, target)
                break
            finally:
                load.close()
                shutil.rmtree(place, ignore_errors=True)
        return self.found

    def _applied(self, load: GridLoad, cells: Sequence[Cell], place: Path) -> Path:
        target = place / "lake"
        for cell in cells:
            if not self.state.copied:
                load.make(cell)
                load.change(cell)
        if self.state.copied:
            return self._copied(load, cells, place)
        self._run(place, target)
        return target

    def _run(self, place: Path, target: Path) -> None:
        log = place / "log"
        shutil.rmtree(log, ignore_errors=True)
        log.mkdir(parents=True)
        for path in self.server.data.glob("binlog.0*"):
            shutil.copy(path, log)
        names = [f"g.t{n}{end}(p)" for n in range(2000) for end in ("", "_r")]
        assert run(
            log, target, group_max_transactions=3, copies=True, vectors=self.state.vectors,
            feed=self.state.feed, keys={"column_mapping": self.state.mapping},
            partition_by=names if self.state.by_column else (),
        )  # fmt: skip

    def _copied(self, load: GridLoad, cells: Sequence[Cell], place: Path) -> Path:
        """The statements come while a first copy is made: one half of the tables is read before
        them, the other behind them."""
        target = place / "lake"
        for cell in cells:
            load.make(cell)
        held = self.server.executed
        there = [cell for cell in cells if cell not in load.refused]
        gone = ("rename", "rename and change")
        plan_first(target, held, *(f"g.{cell.table}" for cell in there))
        early = [cell for number, cell in enumerate(there) if number % 2 or cell.statement in gone]
        self._read(target, [cell.table for cell in early])
        for cell in cells:
            load.change(cell)
        self._read(target, [cell.table for cell in there if cell not in early])
        finish(target, self.server.executed)
        self._run(place, target)
        waiting = [name.removeprefix("g.") for name in cuts(target)[-1].waiting]
        if waiting:
            plan(target, *(f"g.{name}" for name in waiting))
            self._read(target, waiting)
            load.server.query("INSERT INTO g.xs VALUES (0, 'behind the copy')")
            finish(target, self.server.executed)
            self._run(place, target)
        return target

    def _read(self, target: Path, names: Iterable[str]) -> None:
        """Copies tables as they are on the server now, by what reads a chunk."""
        config = config_for(self.server, self.folder).override({"target.path": str(target)})
        layout, connection = Layout(str(target)), connect(config.source)
        control = Control(layout.control, "default")
        control.claim()
        tracking = Tracking(layout, control, LocalDelta(), TargetOptions.of(config))
        copy = last_copy(control)
        assert copy is not None
        for name in names:
            definition = table_definition(self._query, "g", name)
            behind = tracking.stamp(copy.behind) if copy.behind else None
            stamp = behind or Stamp(tracking.app, 0, "{}")
            made = tracking.create_copy(definition, copy.paths[f"g.{name}"], stamp)
            task = CopyTask(config.source, made.definition, made.columns, made.folder, "", USUAL)
            adds = copy_rows(task, connection).adds
            stamp = Stamp(f"{tracking.app}:copy", 1, "{}")
            tracking.delta.commit(made.snapshot, [{"add": a} for a in adds], stamp)
        record_copy(control, copy)
        control.release()
        connection.close()

    def _query(self, statement: str) -> list[tuple[Any, ...]]:
        return list(self._load.query(statement))

    def _compare(self, load: GridLoad, cells: Sequence[Cell], target: Path) -> None:
        by_number = {self._number(cut.gtid_executed): cut for cut in cuts(target)}
        last, compared = by_number[max(by_number)], Counter[Cell]()
        wrong: dict[Cell, list[str]] = {cell: [] for cell in cells}
        looks = _last_looks(load) if self.state.copied else load.looks
        for cell, table, number, (columns, rows) in looks:
            cut = last if self.state.copied else by_number.get(number)
            assert cut is not None, f"{cell}: no cut at {number}"
            at = cut.tables.get(f"g.{table}")
            if at is None:
                if why := cut.waiting.get(f"g.{table}"):
                    self.found.copied[cell] = why.reason
                else:
                    wrong[cell].append(f"at {number} no cut shows {table}")
                continue
            found = read(Layout(str(target)).table(at.path), at.version)
            got = [tuple(map(_flat, row.values())) for row in found.to_pylist()]
            wrong[cell] += differences(found.column_names, got, columns, rows)[:4]
            compared[cell] += 1
        for cell, differing in self._definitions(load, target).items():
            wrong[cell] += differing
        for cell in cells:
            outcome = "refused" if cell in load.refused else "equal" if compared[cell] else "copied"
            self.found.outcomes["DIFFERS" if wrong[cell] else outcome] += 1
            self.found.wrong += [f"{cell}: {text}" for text in wrong[cell]]

    @staticmethod
    def _number(executed: str) -> int:
        return int(executed.rsplit(":")[-1].rsplit("-")[-1])

    def _definitions(self, load: GridLoad, target: Path) -> dict[Cell, list[str]]:
        """What differs between the target's definitions, by another start, and the server's; and
        between the Delta tables' columns and those that a copy would have."""
        with applier(
            target.parent / "log", target, copies=True,
            keys={"column_mapping": self.state.mapping},
        ) as opened:  # fmt: skip
            tables = dict(opened.tracking.tables)
            forms = opened.tracking.options.forms
        wrong = {}
        for cell, table, _, _ in load.looks:
            mine = tables.get(f"g.{table}")
            if mine is None or cell in wrong:
                continue
            shown = table_definition(self._query, "g", table)
            wrong[cell] = compare(mine.at_place.source, shown, "")
            wrong[cell] += _schema(mine.snapshot.schema_string, forms.apply(shown))
        return wrong


def _last_looks(load: GridLoad) -> list[Look]:
    return list({look[0]: look for look in load.looks}.values())


def _flat(value: Any) -> Any:
    """A geometry as the server has it."""
    if isinstance(value, dict):
        return int(value["srid"]).to_bytes(4, "little") + bytes(value["wkb"])
    return value


def _schema(mine: str, shown: SourceTable) -> list[str]:
    ours, theirs = (_fields(json.loads(text)) for text in (mine, schema_json(shown.arrow_schema())))
    return [f"Delta has {ours}, not {theirs}"] if ours != theirs else []


def _fields(kind: Any) -> Any:
    """A type's fields, without what column mapping says of them."""
    if not isinstance(kind, dict):
        return kind
    return [(f["name"], _fields(f["type"]), f["nullable"]) for f in kind["fields"]]
