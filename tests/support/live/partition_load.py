"""Random partitioned tables on a real server: rows, and partitions that are added, reorganized,
emptied and dropped between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pymysql

from .schema_load import SchemaLoad

if TYPE_CHECKING:
    from .server import Server

_POINTS = 24
At = int | list[int] | None
"""a bound (None: MAXVALUE), or the points that are listed"""


@dataclass(frozen=True)
class Way:
    """A way to partition. ``values``, ``bounds``: a number of _POINTS -> SQL; ``near``: a value
    just before one of ``values``."""

    kind: str
    columns: dict[str, str]
    by: str
    values: Callable[[int], str]
    bounds: Callable[[int], str]
    near: Callable[[int], str]
    nullable: bool = True


def _day(k: int) -> str:
    return f"'2026-{k // 6 + 1:02}-{k % 6 * 5 + 1:02}'"


def _before_day(k: int) -> str:
    return f"{_day(k)} - INTERVAL 1 MICROSECOND"


def _year(k: int) -> str:
    return f"'{1960 + 5 * k}-01-01'"


def _before_year(k: int) -> str:
    return f"{_year(k)} - INTERVAL 1 SECOND"


_BIG = (1 << 64) - 1 - 10 * _POINTS
WAYS = {
    "int": Way("RANGE", {"c": "int"}, "RANGE (c)", lambda k: str(10 * k - 100),
               lambda k: str(10 * k - 100), lambda k: str(10 * k - 101)),
    "unsigned": Way("RANGE", {"c": "bigint unsigned"}, "RANGE (c)", lambda k: str(_BIG + 10 * k),
                    lambda k: str(_BIG + 10 * k), lambda k: str(10 * k)),
    "int columns": Way("RANGE", {"c": "smallint"}, "RANGE COLUMNS (c)", lambda k: str(k),
                       lambda k: str(k), lambda k: str(-k)),
    "days": Way("RANGE", {"c": "date"}, "RANGE (TO_DAYS(c))", _day, lambda k: f"TO_DAYS({_day(k)})",
                lambda k: f"{_day(k)} - INTERVAL 1 DAY"),
    "seconds": Way("RANGE", {"c": "datetime(6)"}, "RANGE (TO_SECONDS(c))", _day,
                   lambda k: f"TO_SECONDS({_day(k)})", _before_day),
    "years": Way("RANGE", {"c": "datetime"}, "RANGE (year(`c`))", _year,
                 lambda k: str(1960 + 5 * k), _before_year),
    "moments": Way("RANGE", {"c": "datetime(6)"}, "RANGE COLUMNS (c)", _day, _day, _before_day),
    "dates": Way("RANGE", {"c": "date"}, "RANGE COLUMNS (c)", _day, lambda k: f"DATE{_day(k)}",
                 lambda k: f"{_day(k)} - INTERVAL 1 DAY"),
    "timestamp": Way("RANGE", {"c": "timestamp(0)"}, "RANGE (UNIX_TIMESTAMP(c))", _day,
                     lambda k: f"UNIX_TIMESTAMP({_day(k)})",
                     lambda k: f"{_day(k)} - INTERVAL 1 SECOND", nullable=False),
    "two columns": Way("RANGE", {"c": "date", "e": "int"}, "RANGE COLUMNS (c, e)",
                       lambda k: f"{_day(k // 4)}, {k % 4}", lambda k: f"{_day(k // 4)}, {k % 4}",
                       lambda k: f"{_day(k // 4)}, {k % 4 - 9}"),
    "subpartitions": Way("RANGE", {"c": "int"}, "RANGE (c) SUBPARTITION BY KEY (c)",
                         lambda k: str(k), lambda k: str(k), lambda k: str(k - 1)),
    "list": Way("LIST", {"c": "int"}, "LIST (c)", lambda k: str(7 * k - 50),
                lambda k: str(7 * k - 50), lambda k: str(k)),
    "months": Way("LIST", {"c": "datetime"}, "LIST (MONTH(c))",
                  lambda k: f"'{2000 + k}-{k % 12 + 1:02}-28 23:59:59'", lambda k: str(k % 12 + 1),
                  lambda k: f"'1950-{k % 12 + 1:02}-01'"),
    "weekdays": Way("LIST", {"c": "date"}, "LIST (WEEKDAY(c))",
                    lambda k: f"'2026-03-{k % 6 + k // 6 * 7 + 2:02}'", lambda k: str(k % 6),
                    lambda k: f"'1969-03-{k % 6 + 3:02}'"),
    "texts": Way("LIST", {"c": "varchar(9)"}, "LIST COLUMNS (c)", lambda k: f"'Text{k}'",
                 lambda k: f"'teXt{k}'", lambda k: f"'teXt{k}'"),
    "listed dates": Way("LIST", {"c": "date"}, "LIST COLUMNS (c)", _day, _day, _day),
    "tuples": Way("LIST", {"c": "int", "e": "date"}, "LIST COLUMNS (c, e)",
                  lambda k: f"{k % 3}, {_day(k)}", lambda k: f"({k % 3}, {_day(k)})",
                  lambda k: f"{k % 3}, {_day(k)}"),
}  # fmt: skip


@dataclass
class _Table:
    """``partitions``: by name, in their order."""

    way: Way
    nullable: bool
    null_in: str
    """the partition by LIST that has NULL"""
    partitions: dict[str, At]


class PartitionLoad(SchemaLoad):
    """A table for each of some ``ways``, and its copies by CREATE TABLE ... LIKE."""

    def __init__(self, server: Server, seed: int, ways: Sequence[Way]) -> None:
        self.parted: dict[str, _Table] = {}
        self._now, self._last = "", dict[str, Any]()
        super().__init__(server, seed)
        for number, way in enumerate(ways):
            self._now = f"t{number}"
            self._make(self._now, way, primary=number % 3 != 0)

    def run(self, statements: int) -> None:
        enough = len(self.said) + statements
        while len(self.said) < enough:
            name = self._now = self._any()
            if self.random.random() < 0.6:
                self._change_rows(name)
            else:
                table = self.parted[name]
                acts = self._add, self._drop, self._empty_some, self._reorganize, self._like_it
                self.random.choices(acts, (3, 4, 2, 3, 0.4))[0](name, table)  # type: ignore[operator]

    def _look(self) -> None:
        """Record the rows of the table that a statement changed."""
        self._cursor.execute("SELECT @@GLOBAL.gtid_executed")
        number = int(str(self._cursor.fetchone()[0]).rsplit(":")[-1].rsplit("-")[-1])
        if number not in self.states and self._now:
            self._last = {**self._last, f"{self.database}.{self._now}": self._state(self._now)}
            self.states[number] = self._last

    def _make(self, name: str, way: Way, *, primary: bool) -> None:
        if way.kind == "RANGE":
            points = sorted(self.random.sample(range(_POINTS), 5))
            listed: dict[str, At] = {f"p{k}": k for k in points}
            if self.random.random() < 0.4:
                listed["pmax"] = None
        else:
            listed = {f"p{n}": list(range(n, _POINTS, 6)) for n in range(4)}
        must = " NOT NULL" if primary or not way.nullable else ""
        columns = ", ".join(f"{column} {kind}{must}" for column, kind in way.columns.items())
        key = f"PRIMARY KEY (id, {', '.join(way.columns)})" if primary else "KEY (id)"
        self.parted[name] = _Table(way, not must, "p0", listed)
        self.tables[name] = way.columns
        parts = ", ".join(self._definition(way, *one, one[0] == "p0") for one in listed.items())
        clause = f"PARTITION BY {way.by} ({parts})"
        if self.random.random() < 0.5:
            assert self._zoned(f"CREATE TABLE {name} (id INT, {columns}, {key}) {clause}"), clause
        else:
            assert self._ddl(f"CREATE TABLE {name} (id INT, {columns}, {key})")
            assert self._zoned(f"ALTER TABLE {name} {clause}"), clause

    def _zoned(self, statement: str) -> bool:
        """Bounds of moments are by the session's time zone."""
        self._cursor.execute("SET time_zone = '-05:00'")
        try:
            self._cursor.execute(statement)
        except pymysql.err.MySQLError:
            self.refused += 1
            return False
        finally:
            self._cursor.execute("SET time_zone = '+00:00'")
        self._look()
        self.said.append(statement)
        return True

    def _definition(self, way: Way, name: str, at: At, null: bool = False) -> str:
        if isinstance(at, list):
            seen = dict.fromkeys(way.bounds(k) for k in at)
            listed = [*seen, "NULL"] if null and len(way.columns) == 1 else [*seen]
            return f"PARTITION {name} VALUES IN ({', '.join(listed)})"
        if at is None:
            most = ", ".join(["MAXVALUE"] * len(way.columns))
            return f"PARTITION {name} VALUES LESS THAN ({most})"
        return f"PARTITION {name} VALUES LESS THAN ({way.bounds(at)})"

    def _change_rows(self, name: str) -> None:
        table, dice = self.parted[name], self.random.random()
        way = table.way
        columns = ", ".join(way.columns)
        if dice < 0.85:
            several = [self._row_of(table) for _ in range(self.random.randint(1, 6))]
            self._take(f"INSERT IGNORE INTO {name} (id, {columns}) VALUES {', '.join(several)}")
        elif dice < 0.95:
            self._take(f"UPDATE IGNORE {name} SET id = id + 1000 ORDER BY id LIMIT 3")
        else:
            self._take(f"DELETE FROM {name} ORDER BY id LIMIT 2")

    def _row_of(self, table: _Table) -> str:
        way = table.way
        k, dice, number = self.random.randrange(_POINTS), self.random.random(), next(self._names)
        value = way.values(k) if dice < 0.5 else way.near(k)
        if dice > 0.9 and table.nullable:
            value = ", ".join(["NULL"] * len(way.columns))
        return f"({number}, {value})"

    def _add(self, name: str, table: _Table) -> None:  # type: ignore[override]
        fresh, there = self._fresh("n"), table.partitions
        at: int | list[int]
        if table.way.kind == "RANGE":
            highest = max((k for k in there.values() if isinstance(k, int)), default=0)
            at = self.random.randint(highest, _POINTS)
        else:
            used = {k for listed in there.values() if isinstance(listed, list) for k in listed}
            left = sorted(set(range(_POINTS)) - used)
            at = self.random.sample(left, min(len(left), 4))
        said = self._definition(table.way, fresh, at)
        if at != [] and self._zoned(f"ALTER TABLE {name} ADD PARTITION ({said})"):
            there[fresh] = at

    def _some(self, table: _Table, most: int) -> list[str]:
        names = list(table.partitions)
        return self.random.sample(names, self.random.randint(1, min(most, len(names))))

    def _drop(self, name: str, table: _Table) -> None:
        gone = self._some(table, 2)
        listed = ", ".join(gone)
        if self._ddl(f"ALTER TABLE {name} DROP PARTITION {listed}"):
            for one in gone:
                del table.partitions[one]

    def _empty_some(self, name: str, table: _Table) -> None:
        names = "ALL" if self.random.random() < 0.15 else ", ".join(self._some(table, 2))
        self._ddl(f"ALTER TABLE {name} TRUNCATE PARTITION {names.upper()}")

    def _reorganize(self, name: str, table: _Table) -> None:
        """Two neighbours become one, or one becomes two."""
        names = list(table.partitions)
        at = self.random.randrange(len(names))
        old = names[at : at + 1 + (self.random.random() < 0.5)]
        last, new = table.partitions[old[-1]], dict[str, At]()
        if isinstance(last, list):
            points = [k for one in old for k in table.partitions[one]]  # type: ignore[union-attr]
            half = self.random.randint(0, len(points))
            halves = [points[:half], points[half:]]
            new = {self._fresh("r"): part for part in halves if part}
        else:
            low = table.partitions[names[at - 1]] if at else -1
            assert isinstance(low, int)
            high = _POINTS if last is None else last
            if high - low > 1 and self.random.random() < 0.7:
                new[self._fresh("r")] = self.random.randint(low + 1, high - 1)
            new[old[-1] if self.random.random() < 0.5 else self._fresh("r")] = last
        null_in = next(iter(new), "") if table.null_in in old else table.null_in
        parts = [self._definition(table.way, *one, one[0] == null_in) for one in new.items()]
        said = ", ".join(parts)
        if self._zoned(f"ALTER TABLE {name} REORGANIZE PARTITION {', '.join(old)} INTO ({said})"):
            items, table.null_in = list(table.partitions.items()), null_in
            table.partitions = dict(items[:at] + list(new.items()) + items[at + len(old) :])

    def _like_it(self, name: str, table: _Table) -> None:
        fresh = self._now = self._fresh("l")
        self.tables[fresh] = self.tables[name]
        if self._ddl(f"CREATE TABLE {fresh} LIKE {name}"):
            self.parted[fresh] = replace(table, partitions=dict(table.partitions))
        else:
            del self.tables[fresh]
