"""Random foreign keys and random rows on a real server, and what it has behind each transaction."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pymysql

from .server import Server

State = dict[str, list[tuple[Any, ...]]]

_ACTIONS = ("CASCADE", "CASCADE", "SET NULL", "NO ACTION", "RESTRICT")
_KEYS = (("id",), ("x", "y"), ("k",))
_TYPES = {"id": "INT", "x": "INT", "y": "VARCHAR(6)", "k": "VARCHAR(8)"}
_LAYOUTS = (
    "PRIMARY KEY (id), UNIQUE (x, y), UNIQUE (k)",
    "PRIMARY KEY (x, y), UNIQUE (id), UNIQUE (k)",
    "PRIMARY KEY (k), UNIQUE (x, y), KEY (id)",
    "UNIQUE (id), UNIQUE (x, y), UNIQUE (k)",  # no key that tells rows apart: all may be NULL
)
_TEXTS = ("a", "A", "b", "B", "c", "d", "D", "e")
_TABLES = ("t0", "t1", "t2", "t3")


class CascadeLoad:
    """Drawn by ``seed``; what the server refuses is not said. ``states``: the tables behind each
    transaction, by GTID number; ``keys``: foreign keys that the server took."""

    def __init__(self, server: Server, seed: int, collation: str, *, database: str = "c") -> None:
        self.random, self.database = random.Random(seed), database
        self.states: dict[int, State] = {}
        self.keys: list[str] = []
        self.references: dict[str, list[tuple[tuple[str, ...], str, tuple[str, ...]]]] = {}
        self._connection = server.connect()
        self._cursor = self._connection.cursor()
        self._cursor.execute(f"DROP DATABASE IF EXISTS {database}")
        self._cursor.execute("RESET BINARY LOGS AND GTIDS")
        self._cursor.execute(f"CREATE DATABASE {database} COLLATE {collation}")
        self._cursor.execute(f"USE {database}")
        for table in _TABLES:
            self._make(table)
        for _ in range(7):
            self._add_key()

    def close(self) -> None:
        self._connection.close()

    def _make(self, table: str) -> None:
        columns = [f"{name} {kind}" for name, kind in _TYPES.items()]
        more = [f"f{name} {kind}" for name, kind in _TYPES.items()]
        layout = self.random.choice(_LAYOUTS)
        self._cursor.execute(
            f"CREATE TABLE {table} ({', '.join([*columns, *more, 'v INT', layout])})"
        )
        self.references[table] = []

    def _add_key(self) -> None:
        child, parent = self.random.choice(_TABLES), self.random.choice(_TABLES)
        wanted = self.random.choice(_KEYS)
        own = wanted if self.random.random() < 0.3 else tuple(f"f{name}" for name in wanted)
        if child == parent and own == wanted:
            return
        delete, update = self.random.choice(_ACTIONS), self.random.choice(_ACTIONS)
        text = (
            f"ALTER TABLE {child} ADD FOREIGN KEY ({', '.join(own)}) REFERENCES {parent}"
            f" ({', '.join(wanted)}) ON DELETE {delete} ON UPDATE {update}"
        )
        with suppress(pymysql.err.MySQLError):
            self._cursor.execute(text)
            self.keys.append(text)
            self.references[child].append((own, parent, wanted))

    def run(self, transactions: int) -> None:
        for _ in range(transactions):
            checks = self.random.random() < 0.9
            self._cursor.execute(f"SET foreign_key_checks = {int(checks)}")
            self._cursor.execute("BEGIN")
            for _ in range(self.random.choice((1, 1, 2, 3, 6))):
                with suppress(pymysql.err.MySQLError):
                    self._cursor.execute(self._statement())
            self._cursor.execute("COMMIT")
            self._look()

    def _statement(self) -> str:
        table, dice = self.random.choice(_TABLES), self.random.random()
        if dice < 0.5:
            return self._insert(table)
        where = self.random.choice((f"id = {self._number()}", f"k = '{self._text()}'", "v < 3",
                                    f"x = {self.random.randint(1, 3)}"))  # fmt: skip
        if dice < 0.72:
            return f"DELETE FROM {table} WHERE {where}"
        if dice < 0.76:
            columns = self._row(table)
            values = ", ".join(columns.values())
            return f"REPLACE INTO {table} ({', '.join(columns)}) VALUES ({values})"
        if dice < 0.8:
            other = self.random.choice(_TABLES)
            return f"DELETE a, b FROM {table} a JOIN {other} b ON a.x = b.x WHERE a.{where}"
        columns = self._row(table)
        chosen = self.random.sample(sorted(columns), self.random.randint(1, 2))
        changed = ", ".join(f"{name} = {columns[name]}" for name in chosen)
        return f"UPDATE {table} SET {changed} WHERE {where}"

    def _number(self) -> int:
        return self.random.randint(1, 9)

    def _text(self) -> str:
        return self.random.choice(_TEXTS) * self.random.randint(1, 2)

    def _insert(self, table: str) -> str:
        rows = [self._row(table) for _ in range(self.random.randint(1, 3))]
        values = ", ".join(f"({', '.join(row.values())})" for row in rows)
        return f"INSERT IGNORE INTO {table} ({', '.join(rows[0])}) VALUES {values}"

    def _row(self, table: str) -> dict[str, str]:
        row = {"id": str(self._number()), "x": str(self.random.randint(1, 3))}
        row |= {"y": f"'{self._text()}'", "k": f"'{self._text()}'", "v": str(self._number())}
        row = {name: "NULL" if self.random.random() < 0.05 else row[name] for name in row}
        row |= {f"f{name}": "NULL" for name in _TYPES}
        for own, parent, wanted in self.references[table]:
            found = self._any_of(parent, wanted)
            if found and (self.random.random() < 0.9 or not own[0].startswith("f")):
                row.update(zip(own, found, strict=True))
        return row

    def _any_of(self, parent: str, columns: tuple[str, ...]) -> list[str] | None:
        self._cursor.execute(f"SELECT {', '.join(columns)} FROM {parent}")
        rows = self._cursor.fetchall()
        if not rows:
            return None
        return [
            "NULL" if value is None
            else str(value) if isinstance(value, int)
            else f"'{value.swapcase() if self.random.random() < 0.3 else value}'"
            for value in self.random.choice(rows)
        ]  # fmt: skip

    def _look(self) -> None:
        self._cursor.execute("SELECT @@GLOBAL.gtid_executed")
        number = int(str(self._cursor.fetchone()[0]).rsplit(":")[-1].rsplit("-")[-1])
        state = {}
        for table in _TABLES:
            self._cursor.execute(f"SELECT * FROM {table}")
            state[f"{self.database}.{table}"] = sorted(self._cursor.fetchall(), key=str)
        self.states[number] = state
