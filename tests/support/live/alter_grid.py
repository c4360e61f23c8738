"""Values that a server makes by ALTER TABLE, beside those of ``convert.conversion``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from spark_repl.binlog.types.column_values import Values
from spark_repl.binlog.types.forms import USUAL, Forms
from spark_repl.convert.conversion import convert, keeps_values
from spark_repl.convert.type_change import TypeChange
from spark_repl.copy.text_rows import select_list, to_arrow
from spark_repl.errors import SchemaError, Unconvertible
from spark_repl.sql.classify import classify
from spark_repl.sql.session import Session
from spark_repl.tables.column import Column

STRICT = "STRICT_TRANS_TABLES"
TRUNCATE = "TIME_TRUNCATE_FRACTIONAL"
_BITS = {STRICT: 1 << 21, TRUNCATE: 1 << 32, "": 0}
_AT = 1_700_000_000
_SENT = 45  # an answer comes in utf8mb4
Row = bytes | None


@lru_cache(None)
def column_of(sql_type: str, forms: Forms) -> Column:
    made = classify(f"CREATE TABLE x (c {sql_type}) CHARSET utf8mb4", "d").definition
    assert made is not None, sql_type
    return forms.apply(made).columns[0]


def asked(sql_type: str, name: str) -> str:
    """How a SELECT asks for a column."""
    made = classify(f"CREATE TABLE x ({name} {sql_type}) CHARSET utf8mb4", "d").definition
    assert made is not None
    return select_list(made)


def arrow(column: Column, rows: Sequence[Row]) -> pa.Array:
    """The rows of an answer, as a copy of the table would have them."""
    sizes = [-1 if row is None else len(row) for row in rows]
    edges = np.cumsum([0] + [max(size, 0) for size in sizes])
    buffer = np.frombuffer(b"".join(row or b"" for row in rows) + b"\0", np.uint8)
    values = Values(buffer, edges[:-1], np.array(sizes, np.int32), _SENT)
    return to_arrow(column, values, USUAL)[0]


@dataclass
class Outcome:
    """``wrong``: in words; ``unknown``: types that some values become only on the server."""

    wrong: list[str]
    unknown: list[str]


class Grid:
    """``connection`` gives bytes. Each type's values are altered to all types in one statement."""

    def __init__(self, connection: Any, types: Sequence[str], forms: Forms | None = None) -> None:
        self._cursor = connection.cursor()
        self.types, self.forms = types, forms or Forms()
        self.query("CREATE DATABASE IF NOT EXISTS g CHARACTER SET utf8mb4")
        self.query("USE g")

    def query(self, statement: str) -> list[tuple[Row, ...]]:
        self._cursor.execute(statement)
        return list(self._cursor.fetchall())

    def outcome(
        self, before: str, literals: Sequence[str], modes: str = "", time_zone: str = "+00:00"
    ) -> Outcome:
        """Alters the values that we can convert; the server must take them and make the same."""
        bits = sum(_BITS[mode] for mode in modes.split(","))
        session = Session("g", bits, _AT * 1_000_000, time_zone)
        stored = self._fill(before, literals)
        column = column_of(before, self.forms)
        ours = [self._ours(column, stored, after, session) for after in self.types]
        self._keep(before, [one[1] for one in ours])
        self.query(f"SET sql_mode = '{modes}', timestamp = {_AT}, time_zone = '{time_zone}'")
        changes = ", ".join(f"MODIFY c{i} {after}" for i, after in enumerate(self.types))
        self.query(f"ALTER TABLE x {changes}")
        self.query("SET time_zone = '+00:00'")
        outcome = Outcome([], [])
        for i, after in enumerate(self.types):
            converted, taken = ours[i]
            place = f"{before} -> {after} ({modes})"
            rows = self.query(f"SELECT {asked(after, f'c{i}')} FROM x ORDER BY i")
            made = arrow(column_of(after, self.forms), [rows[n][0] for n in taken])
            outcome.wrong += differences(place, [stored[n] for n in taken], made, converted)
            to = column_of(after, self.forms)
            kept = keeps_values(TypeChange(column, to, session, plain=True))
            if len(taken) < len(stored):
                outcome.unknown.append(after)
                if kept:
                    outcome.wrong.append(f"{place}: kept, and not converted")
        return outcome

    def _fill(self, before: str, literals: Sequence[str]) -> list[Row]:
        """Makes a table that has each value once for every type; the values as stored."""
        columns = "".join(f", c{i} {before}" for i in range(len(self.types)))
        names = "".join(f", c{i}" for i in range(len(self.types)))
        self.query("SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'")
        self.query("DROP TEMPORARY TABLE IF EXISTS x, y")
        self.query(f"CREATE TEMPORARY TABLE y (i INT PRIMARY KEY, c {before}) CHARSET utf8mb4")
        rows = ", ".join(f"({i}, {value})" for i, value in enumerate(literals))
        self.query(f"INSERT IGNORE INTO y VALUES {rows}")
        self.query(f"CREATE TEMPORARY TABLE x (i INT PRIMARY KEY{columns}) CHARSET utf8mb4")
        self.query(f"INSERT INTO x (i{names}) SELECT i{', c' * len(self.types)} FROM y")
        return [row for (row,) in self.query(f"SELECT {asked(before, 'c')} FROM y ORDER BY i")]

    def _keep(self, before: str, taken: list[list[int]]) -> None:
        """Leaves in each column the rows that are taken, and NULL in the others."""
        numbers = range(int((self.query("SELECT COUNT(*) FROM x")[0][0] or b"0").decode()))
        for n in numbers:
            absent = [f"c{i} = NULL" for i, rows in enumerate(taken) if n not in rows]
            if absent:
                self.query(f"UPDATE x SET {', '.join(absent)} WHERE i = {n}")

    def _ours(
        self, before: Column, rows: list[Row], after: str, session: Session
    ) -> tuple[pa.Array, list[int]]:
        """(what we make of the rows that we convert, which these are)."""
        to = column_of(after, self.forms)
        taken = list(range(len(rows)))
        if session.is_strict and not keeps_values(TypeChange(before, to, session, plain=True)):
            # Spaces at the end are cut off in some ways of converting, and refused in others.
            taken = [n for n in taken if not (rows[n] or b"").endswith(b"  ")]
        made = attempt(before, to, [rows[n] for n in taken], session)
        if made is None:
            taken = [n for n in taken if attempt(before, to, [rows[n]], session) is not None]
            made = attempt(before, to, [rows[n] for n in taken], session) if taken else None
            assert made is not None or not taken
            made = pa.nulls(0, to.arrow_type) if made is None else made
        return made, taken


def attempt(before: Column, after: Column, rows: list[Row], session: Session) -> pa.Array | None:
    """None: Unconvertible, or a value that a column can't hold in its form."""
    try:
        made = convert(arrow(before, rows), TypeChange(before, after, session, plain=True))
    except (Unconvertible, SchemaError):
        return None
    made.validate(full=True)
    assert made.type == after.arrow_type, (before, after)
    return made


def differences(place: str, rows: list[Row], theirs: pa.Array, ours: pa.Array) -> list[str]:
    pairs = zip(rows, theirs.to_pylist(), ours.to_pylist(), strict=True)
    return [f"{place}: {row!r} {a!r}, ours {b!r}" for row, a, b in pairs if repr(a) != repr(b)]
