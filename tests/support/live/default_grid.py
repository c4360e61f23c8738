"""What a server has in rows that are there behind ALTER TABLE ADD of a column whose default, or
generated value, is a literal."""

from __future__ import annotations

from typing import Any

import pymysql

from .alter_grid import Row, asked
from .default_cases import SESSIONS, Case

AT = 1_700_000_000
"""the statements' time, in seconds"""


class DefaultGrid:
    """A temporary table of one row, which each case has again. ``connection`` gives bytes."""

    def __init__(self, connection: Any) -> None:
        self._cursor = connection.cursor()
        self.query("CREATE DATABASE IF NOT EXISTS g CHARACTER SET utf8mb4")
        self.query("USE g")
        self._session = ""

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        self._cursor.execute(statement)
        return list(self._cursor.fetchall())

    def answer(self, case: Case) -> tuple[Row] | None:
        """The value that the row has; None where the server refuses the statement."""
        self.query("DROP TEMPORARY TABLE IF EXISTS x")
        self.query("CREATE TEMPORARY TABLE x (i INT PRIMARY KEY) CHARSET utf8mb4")
        self.query("INSERT INTO x VALUES (1)")
        modes, zone = SESSIONS[case.session]
        self.query(f"SET sql_mode = '{modes}', time_zone = '{zone}', timestamp = {AT}")
        try:
            self.query(f"ALTER TABLE x ADD z {case.clause}")
        except pymysql.err.MySQLError:
            return None
        finally:
            self.query("SET sql_mode = '', time_zone = '+00:00'")
        # With its digits behind the point DOUBLE(M,D) is printed, and not what it is.
        said = "z * 1e0" if case.sql_type.startswith("DOUBLE(") else asked(case.sql_type, "z")
        ((value,),) = self.query(f"SELECT {said} FROM x")
        return (value,)
