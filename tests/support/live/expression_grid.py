"""Expressions of generated columns and defaults on a server, beside what ``ddl.expressions`` makes
of them over the same rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pymysql

from spark_repl.binlog.definition import TableDefinition
from spark_repl.binlog.types.forms import Forms
from spark_repl.ddl.alteration import Unknown
from spark_repl.ddl.altered import alter
from spark_repl.ddl.effect import classify_in
from spark_repl.ddl.session import Session
from spark_repl.errors import SchemaError, StatementError
from spark_repl.write.altered_rows import AlteredRows

from .alter_grid import arrow, asked, column_of
from .expression_cases import COLUMNS, Case

_BITS = {"STRICT_TRANS_TABLES": 1 << 21, "": 0}
_FORMS = Forms()
_TOGETHER = 40  # new columns in one statement
_AT = 1_700_000_000


@dataclass
class Tally:
    """``wrong``: in words; ``unknown``: reasons why expressions are not computed; ``refused``:
    statements that the server refuses, rows that we do."""

    computed: int = 0
    values: int = 0
    wrong: list[str] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)


@dataclass
class Ours:
    """What we make of a case: values of the rows that we compute."""

    case: Case
    rows: list[int]
    values: pa.Array


class ExpressionGrid:
    """One table of all types, whose rows are asked for once."""

    def __init__(self, connection: Any, modes: str = "") -> None:
        self._cursor, self._modes = connection.cursor(), modes
        self._session = Session("g", _BITS[modes], _AT * 1_000_000, "+00:00", 255, True)
        self.query("CREATE DATABASE IF NOT EXISTS g CHARACTER SET utf8mb4")
        self.query("USE g")
        self.query("SET sql_mode = '', time_zone = '+00:00'")
        columns = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
        made = f"CREATE TABLE x (i INT PRIMARY KEY, {columns}) CHARSET utf8mb4"
        found = classify_in(made, self._session).definition
        assert found is not None
        self.definition: TableDefinition = _FORMS.apply(found)
        self.query("DROP TABLE IF EXISTS x")
        self.query(made)
        self._fill()
        self._arrays = self._read()

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        self._cursor.execute(statement)
        return list(self._cursor.fetchall())

    def _fill(self) -> None:
        """Each value once at least, beside others in each column."""
        count = max(len(values) for _, values in COLUMNS.values())
        for i in range(2 * count):
            row = [str(i)]
            for number, (_, values) in enumerate(COLUMNS.values()):
                row.append(values[(i * (1 + 2 * (i >= count) * number) + number) % len(values)])
            self.query(f"INSERT IGNORE INTO x VALUES ({', '.join(row)})")

    def _read(self) -> list[pa.Array]:
        arrays = [pa.array(range(self._count()), pa.int32())]
        for (name, (kind, _)), column in zip(
            COLUMNS.items(), self.definition.columns[1:], strict=True
        ):
            rows = self.query(f"SELECT {asked(kind, name)} FROM x ORDER BY i")
            arrays.append(arrow(column, [row for (row,) in rows]))
        return arrays

    def _count(self) -> int:
        return int(self.query("SELECT COUNT(*) FROM x")[0][0])

    def compare(self, cases: Sequence[Case]) -> Tally:
        """Each case on the server beside ours."""
        tally = Tally()
        whole, parts = [], []
        for case in cases:
            ours = self._ours(case, tally)
            if ours is not None and len(ours.rows) == len(self._arrays[0]):
                whole.append(ours)
            elif ours is not None and ours.rows:
                parts.append(ours)
        for begin in range(0, len(whole), _TOGETHER):
            self._together(whole[begin : begin + _TOGETHER], tally)
        for ours in parts:
            self._together([ours], tally)
        return tally

    def _ours(self, case: Case, tally: Tally) -> Ours | None:
        statement = classify_in(f"ALTER TABLE x ADD z {case.clause}", self._session)
        assert statement.alteration is not None, (case, statement.reason)
        found = alter(self.definition, statement, self._session)
        origin = found.origins[-1]
        if isinstance(origin, Unknown):
            tally.unknown[origin.reason.partition(": ")[2]] += 1
            return None
        tally.computed += 1
        count = len(self._arrays[0])
        made = self._made(found, self._arrays)
        if made is not None:
            return Ours(case, list(range(count)), made)
        each = [self._made(found, [a.slice(i, 1) for a in self._arrays]) for i in range(count)]
        rows = [i for i, one in enumerate(each) if one is not None]
        tally.refused["rows of ours"] += count - len(rows)
        values = [one for one in each if one is not None]
        return Ours(case, rows, pa.concat_arrays(values)) if rows else None

    def _made(self, found: Any, arrays: list[pa.Array]) -> pa.Array | None:
        try:
            made = AlteredRows(self.definition, found, self._session).columns(arrays)[-1]
        except (StatementError, SchemaError) as error:
            assert "Arrow" not in str(error), found.definition.columns[-1].generated
            return None
        made.validate(full=True)
        assert made.type == found.definition.columns[-1].arrow_type
        return made

    def _together(self, ours: list[Ours], tally: Tally) -> None:
        """Asks the server for several, one at a time if it refuses them."""
        rows = ", ".join(map(str, ours[0].rows))
        self.query("SET sql_mode = ''")
        self.query("DROP TABLE IF EXISTS v")
        self.query("CREATE TABLE v LIKE x")
        self.query(f"INSERT INTO v SELECT * FROM x WHERE i IN ({rows})")
        self.query(f"SET sql_mode = '{self._modes}', timestamp = {_AT}")
        try:
            added = (f"ADD z{n} {one.case.clause}" for n, one in enumerate(ours))
            self.query(f"ALTER TABLE v {', '.join(added)}")
            found = [
                self.query(f"SELECT {asked(one.case.target, f'z{n}')} FROM v ORDER BY i")
                for n, one in enumerate(ours)
            ]
        except pymysql.err.MySQLError as error:
            if len(ours) > 1:
                for one in ours:
                    self._together([one], tally)
            elif ours[0].case.kind == "VIRTUAL" and len(ours[0].rows) > 1:
                self._each(ours[0], tally)
            else:
                tally.refused[f"{error.args[0]}: {ours[0].case.clause}"] += 1
            return
        for one, answer in zip(ours, found, strict=True):
            self._differ(one, [row for (row,) in answer], tally)

    def _each(self, ours: Ours, tally: Tally) -> None:
        for n, row in enumerate(ours.rows):
            self._together([Ours(ours.case, [row], ours.values.slice(n, 1))], tally)

    def _differ(self, ours: Ours, answer: list[Any], tally: Tally) -> None:
        theirs = arrow(column_of(ours.case.target, _FORMS), answer).to_pylist()
        tally.values += len(theirs)
        for row, got, want in zip(ours.rows, ours.values.to_pylist(), theirs, strict=True):
            if repr(got) != repr(want):
                inputs = {
                    name: array[row].as_py()
                    for name, array in zip(["i", *COLUMNS], self._arrays, strict=True)
                    if name in ours.case.words
                }
                tally.wrong.append(f"{ours.case.clause}: {want!r}, ours {got!r}, of {inputs}")
