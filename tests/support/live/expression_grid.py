"""Expressions of generated columns and defaults on a server, beside what ``ddl.expressions`` makes
of them over the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pymysql

from tests.support.own_expressions import (
    AT,
    Columns,
    Ours,
    OwnExpressions,
    Tally,
    arrays_of,
    created,
    definition_of,
    session_of,
)

from .alter_grid import Row, asked
from .expression_cases import COLUMNS, Case

_TOGETHER = 40  # new columns in one statement


class ExpressionGrid:
    """One table of all types, whose rows are asked for once."""

    def __init__(self, connection: Any, modes: str = "", columns: Columns = COLUMNS) -> None:
        self._cursor, self._modes, self._columns = connection.cursor(), modes, columns
        self.query("CREATE DATABASE IF NOT EXISTS g CHARACTER SET utf8mb4")
        self.query("USE g")
        self.query("SET sql_mode = '', time_zone = '+00:00'")
        self.query("DROP TABLE IF EXISTS x")
        self.query(created(columns))
        self._fill()
        session = session_of(modes)
        definition = definition_of(session, columns)
        self.own = OwnExpressions(definition, session, arrays_of(definition, self.rows()))

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        self._cursor.execute(statement)
        return list(self._cursor.fetchall())

    def _fill(self) -> None:
        """Each value once at least, beside others in each column."""
        count = max(len(values) for _, values in self._columns.values())
        for i in range(2 * count):
            row = [str(i)]
            for number, (_, values) in enumerate(self._columns.values()):
                row.append(values[(i * (1 + 2 * (i >= count) * number) + number) % len(values)])
            self.query(f"INSERT IGNORE INTO x VALUES ({', '.join(row)})")

    def rows(self) -> dict[str, Sequence[Row]]:
        """What the server answers for each column."""
        return {
            name: [row for (row,) in self.query(f"SELECT {asked(kind, name)} FROM x ORDER BY i")]
            for name, (kind, _) in self._columns.items()
        }

    def compare(self, cases: Sequence[Case]) -> Tally:
        """Each case on the server beside ours."""
        tally = Tally()
        whole, parts = [], []
        for case in cases:
            ours = self.own.compute(case, tally)
            if ours is not None and len(ours.rows) == len(self.own.arrays[0]):
                whole.append(ours)
            elif ours is not None and ours.rows:
                parts.append(ours)
        for begin in range(0, len(whole), _TOGETHER):
            self._together(whole[begin : begin + _TOGETHER], tally)
        for ours in parts:
            self._together([ours], tally)
        return tally

    def answers(self, cases: Sequence[Case], rows: Sequence[int]) -> list[list[Row]]:
        """What the server has in these rows of each case's column. Raises MySQLError."""
        self.query("SET sql_mode = ''")
        self.query("DROP TEMPORARY TABLE IF EXISTS v")
        self.query("CREATE TEMPORARY TABLE v LIKE x")
        self.query(f"INSERT INTO v SELECT * FROM x WHERE i IN ({', '.join(map(str, rows))})")
        self.query(f"SET sql_mode = '{self._modes}', timestamp = {AT}")
        added = (f"ADD z{n} {case.clause}" for n, case in enumerate(cases))
        self.query(f"ALTER TABLE v {', '.join(added)}")
        selects = (
            f"SELECT {asked(c.target, f'z{n}')} FROM v ORDER BY i" for n, c in enumerate(cases)
        )
        return [[row for (row,) in self.query(select)] for select in selects]

    def _together(self, ours: list[Ours], tally: Tally) -> None:
        """Asks the server for several, one at a time if it refuses them."""
        try:
            answers = self.answers([one.case for one in ours], ours[0].rows)
        except pymysql.err.MySQLError as error:
            if len(ours) > 1:
                for one in ours:
                    self._together([one], tally)
            elif len(ours[0].rows) > 1:
                self._each(ours[0], tally)
            else:
                tally.refused[f"{error.args[0]}: {ours[0].case.clause}"] += 1
            return
        for one, answer in zip(ours, answers, strict=True):
            self.own.differ(one, answer, tally)

    def _each(self, ours: Ours, tally: Tally) -> None:
        for n, row in enumerate(ours.rows):
            self._together([Ours(ours.case, [row], ours.values.slice(n, 1))], tally)
