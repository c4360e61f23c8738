"""Random statements that change tables, between random rows, on a real server; and what the server
has behind each of them."""

from __future__ import annotations

import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pymysql

from .server import Server

State = dict[str, tuple[list[dict[str, Any]], list[list[Any]]]]
"""table -> its columns (name, column_type, encoding) and rows, values as the server prints them"""

_TYPES = {
    "tinyint": "5", "smallint": "-300", "int": "70000", "bigint": "5000000000",
    "int unsigned": "4000000000", "bigint unsigned": "18000000000000000000",
    "decimal(10,2)": "12.34", "decimal(20,6)": "-1.000001", "double": "0.5", "float": "1.25",
    "varchar(20)": "'text'", "varchar(60)": "'größer'", "char(12)": "'c'", "text": "'long'",
    "varchar(30) character set latin1": "'é'", "binary(4)": "0x0102", "varbinary(9)": "0x00ff",
    "blob": "0xdead", "date": "'2024-02-29'", "datetime": "'2024-02-29 23:59:59'",
    "datetime(3)": "'2024-01-01 00:00:00.123'", "datetime(6)": "'2001-02-03 04:05:06.000007'",
    "timestamp": "'2020-06-01 12:00:00'", "timestamp(6)": "'2020-06-01 12:00:00.5'",
    "time": "'-01:02:03'", "time(3)": "'10:11:12.125'", "year": "2024",
    "enum('a','b','c')": "'b'", "enum('c','b','x','a')": "'a'", "set('a','b','c')": "'a,c'",
    "json": "'{\"k\": [1, 2]}'", "bit(1)": "b'1'", "bit(9)": "b'100000001'",
}  # fmt: skip
# Among these ALTER TABLE's conversions are known for all values; test_conversions has all pairs.
_FAMILIES = (
    ("tinyint", "smallint", "int", "bigint", "int unsigned", "decimal(20,6)"),
    ("decimal(10,2)", "decimal(20,6)", "bigint"),
    ("varchar(20)", "varchar(60)", "text", "varchar(30) character set latin1"),
    ("binary(4)", "varbinary(9)", "blob"),
    ("date", "datetime", "datetime(3)", "datetime(6)"),
    ("timestamp", "timestamp(6)"),
    ("time", "time(3)"),
    ("enum('a','b','c')", "enum('c','b','x','a')", "varchar(20)"),
    ("smallint", "int", "varchar(20)"),
)
_BINARY = ("binary", "varbinary", "blob", "mediumblob", "longblob", "bit", "point", "geometry")
_DIFFICULT = ("json", "text", "blob")  # no default, no key without a prefix


class SchemaLoad:
    """Statements are drawn by ``seed`` and tried: one that the server refuses is not said. ``said``
    holds each that was taken; ``states`` the server behind each transaction, by GTID number."""

    def __init__(self, server: Server, seed: int, *, database: str = "d") -> None:
        self.server, self.random, self.database = server, random.Random(seed), database
        self.tables: dict[str, dict[str, str]] = {}  # name -> column -> type
        self.said: list[str] = []
        self.refused = 0
        self.states: dict[int, State] = {}
        self._names = iter(range(1, 1_000_000))
        self._connection = server.connect()
        self._cursor = self._connection.cursor()
        self._take(f"CREATE DATABASE {database}")
        self._cursor.execute(f"USE {database}")

    def close(self) -> None:
        self._connection.close()

    def run(self, statements: int) -> None:
        """Goes on until so many statements that change tables were taken."""
        enough = len(self.said) + statements
        while len(self.said) < enough:
            if len(self.tables) < 3:
                self._create()
            elif self.random.random() < 0.5:
                self._rows()
            else:
                self._change()

    def say(self, statement: str) -> None:
        """One that the server must take; a table of it is in ``tables``."""
        assert self._take(statement), statement

    def _take(self, statement: str) -> bool:
        """Says it to the server, and looks at all tables behind it."""
        try:
            self._cursor.execute(statement)
        except pymysql.err.MySQLError:
            self.refused += 1
            return False
        self._look()
        return True

    def _look(self) -> None:
        self._cursor.execute("SELECT @@GLOBAL.gtid_executed")
        executed = str(self._cursor.fetchone()[0])
        number = int(executed.rsplit(":")[-1].rsplit("-")[-1])
        if number not in self.states:
            self.states[number] = {
                f"{self.database}.{name}": self._state(name) for name in self.tables
            }

    def _state(self, name: str) -> tuple[list[dict[str, Any]], list[list[Any]]]:
        return table_state(self._cursor, self.database, name)

    def _any(self) -> str:
        return self.random.choice(sorted(self.tables))

    def _fresh(self, stem: str) -> str:
        return f"{stem}{next(self._names)}"

    def _column(self, kind: str = "") -> tuple[str, str]:
        kind = kind or self.random.choice(sorted(_TYPES))
        text = kind
        if self.random.random() < 0.3:
            text += " NOT NULL"
        # A moment that is NOT NULL would be a zero date in the rows that are there.
        needed = "NOT NULL" in text and kind.startswith(("date", "time"))
        if (needed or self.random.random() < 0.3) and not kind.startswith(_DIFFICULT):
            text += f" DEFAULT {_TYPES[kind]}"
        return kind, text

    def _create(self) -> None:
        name = self._fresh("t")
        columns = {self._fresh("c"): self._column() for _ in range(self.random.randint(1, 5))}
        parts = [f"{column} {text}" for column, (_, text) in columns.items()]
        key = "id INT AUTO_INCREMENT PRIMARY KEY" if self.random.random() < 0.8 else "id INT"
        self.tables[name] = {column: kind for column, (kind, _) in columns.items()}
        if self._ddl(f"CREATE TABLE {name} ({', '.join([key, *parts])})"):
            for _ in range(self.random.randint(0, 3)):
                self._insert(name)
        else:
            del self.tables[name]

    def _ddl(self, statement: str) -> bool:
        taken = self._take(statement)
        if taken:
            self.said.append(statement)
        return taken

    def _rows(self) -> None:
        name, dice = self._any(), self.random.random()
        if dice < 0.6:
            self._insert(name)
        elif dice < 0.8 and self.tables[name]:
            column = self.random.choice(sorted(self.tables[name]))
            value = self._value(self.tables[name][column])
            self._take(f"UPDATE {name} SET {column} = {value} ORDER BY id LIMIT 2")
        else:
            self._take(f"DELETE FROM {name} ORDER BY id LIMIT 1")

    def _value(self, kind: str) -> str:
        return "NULL" if self.random.random() < 0.2 else _TYPES[kind]

    def _insert(self, name: str) -> None:
        columns = self.tables[name]
        values = ", ".join(self._value(kind) for kind in columns.values())
        listed = ", ".join(columns)
        self._take(f"INSERT INTO {name} ({listed}) VALUES ({values})")

    def _change(self) -> None:
        say = self.random.choices(
            (self._add, self._drop_column, self._modify, self._rename_column, self._keys,
             self._several, self._names_of_tables, self._empty, self._like),
            (5, 3, 5, 3, 2, 3, 2, 1, 1),
        )[0]  # fmt: skip
        with suppress(IndexError):  # no column is left for it
            say()

    def _add(self) -> None:
        name, column, (kind, text) = self._any(), self._fresh("c"), self._column()
        if self._ddl(f"ALTER TABLE {name} ADD COLUMN {column} {text}{self._place(name)}"):
            self.tables[name][column] = kind

    def _place(self, name: str) -> str:
        others = sorted(self.tables[name])
        places = ["", " FIRST", *(f" AFTER {other}" for other in others)]
        return self.random.choice(places)

    def _drop_column(self) -> None:
        name = self._any()
        column = self.random.choice(sorted(self.tables[name]))
        if self._ddl(f"ALTER TABLE {name} DROP COLUMN {column}"):
            del self.tables[name][column]

    def _modify(self) -> None:
        name = self._any()
        column = self.random.choice(sorted(self.tables[name]))
        before = self.tables[name][column]
        others = [kind for family in _FAMILIES if before in family for kind in family]
        kind, text = self._column(self.random.choice([*others, before]))
        after = self._fresh("m") if self.random.random() < 0.3 else column
        place = self._place(name) if self.random.random() < 0.3 else ""
        if self._ddl(f"ALTER TABLE {name} CHANGE {column} {after} {text}{place}"):
            del self.tables[name][column]
            self.tables[name][after] = kind

    def _rename_column(self) -> None:
        name = self._any()
        columns = self.random.sample(sorted(self.tables[name]), min(2, len(self.tables[name])))
        if len(columns) == 2 and self.random.random() < 0.5:  # they change places
            a, b = columns
            kinds = self.tables[name]
            if self._ddl(f"ALTER TABLE {name} RENAME COLUMN {a} TO {b}, RENAME COLUMN {b} TO {a}"):
                kinds[a], kinds[b] = kinds[b], kinds[a]
            return
        after = self._fresh("r")
        if self._ddl(f"ALTER TABLE {name} RENAME COLUMN {columns[0]} TO {after}"):
            self.tables[name][after] = self.tables[name].pop(columns[0])

    def _keys(self) -> None:
        name = self._any()
        column = self.random.choice(sorted(self.tables[name]))
        self._ddl(self.random.choice((
            f"ALTER TABLE {name} DROP PRIMARY KEY, MODIFY id INT NOT NULL",
            f"ALTER TABLE {name} ADD PRIMARY KEY (id)",
            # What an index over members holds when they become text is refused, by name.
            f"ALTER TABLE {name} ADD UNIQUE u_{column} (id)"
            if self.tables[name][column].startswith(("enum", "set"))
            else f"ALTER TABLE {name} ADD UNIQUE u_{column} ({column}, id)",
            f"CREATE UNIQUE INDEX v_{column} ON {name} (id)",
            f"DROP INDEX v_{column} ON {name}",
            f"ALTER TABLE {name} ADD INDEX ({column})",
            f"ALTER TABLE {name} DROP PRIMARY KEY, ADD PRIMARY KEY (id, {column})",
            f"ALTER TABLE {name} CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
            f"ALTER TABLE {name} COMMENT 'of a table', ENGINE=InnoDB, ALGORITHM=COPY",
        )))  # fmt: skip

    def _several(self) -> None:
        name, first, second = self._any(), self._fresh("s"), self._fresh("s")
        column = self.random.choice(sorted(self.tables[name]))
        (kind, text), (other, more) = self._column(), self._column()
        if self._ddl(
            f"ALTER TABLE {name} DROP COLUMN {column}, ADD COLUMN ({first} {text}),"
            f" ADD {second} {more} FIRST"
        ):
            del self.tables[name][column]
            self.tables[name] |= {first: kind, second: other}

    def _names_of_tables(self) -> None:
        a, b, after = self._any(), self._any(), self._fresh("t")
        if a != b and self.random.random() < 0.5:
            between = self._fresh("x")
            tables = dict(self.tables)
            self.tables[a], self.tables[b] = tables[b], tables[a]
            if not self._ddl(f"RENAME TABLE {a} TO {between}, {b} TO {a}, {between} TO {b}"):
                self.tables = tables
            return
        self.tables[after] = self.tables.pop(a)
        verb = self.random.choice(("RENAME TABLE {} TO {}", "ALTER TABLE {} RENAME TO {}"))
        if not self._ddl(verb.format(a, after)):
            self.tables[a] = self.tables.pop(after)

    def _empty(self) -> None:
        name = self._any()
        if self.random.random() < 0.5:
            self._ddl(f"TRUNCATE TABLE {name}")
        else:
            columns = self.tables.pop(name)
            if not self._ddl(f"DROP TABLE {name}"):
                self.tables[name] = columns

    def _like(self) -> None:
        model, name = self._any(), self._fresh("t")
        self.tables[name] = dict(self.tables[model])
        if not self._ddl(f"CREATE TABLE {name} LIKE {model}"):
            del self.tables[name]


def table_state(
    cursor: Any, database: str, name: str
) -> tuple[list[dict[str, Any]], list[list[Any]]]:
    """A table's columns and rows, as the server prints them now."""
    cursor.execute(
        "SELECT column_name, column_type, data_type, is_nullable FROM"
        " information_schema.columns WHERE table_schema = %s AND table_name = %s"
        " ORDER BY ordinal_position", (database, name),
    )  # fmt: skip
    columns, parts = [], []
    for column, kind, data, nullable in cursor.fetchall():
        encoded = data in _BINARY
        described = {"name": column, "column_type": kind, "nullable": nullable == "YES"}
        columns.append(described | ({"encoding": "hex"} if encoded else {}))
        form = "HEX(CAST({} AS binary))" if encoded else "CONCAT({})"
        real = data in ("float", "double")
        form = "{} + 0e0" if real else "{} + 0" if data == "year" else form
        parts.append(form.format(f"`{column}`"))
    cursor.execute(f"SELECT {', '.join(parts)} FROM `{database}`.`{name}`")
    rows = [[_shown(value) for value in row] for row in cursor.fetchall()]
    return columns, rows


def _shown(value: Any) -> str | None:
    """Return the text of a value; members of CHARACTER SET binary come as bytes."""
    if value is None:
        return None
    return value.decode() if isinstance(value, bytes) else str(value)


def recorded(server: Server, log: Path, seed: int, statements: int) -> SchemaLoad:
    """A load that has run, its log alone in the folder ``log``."""
    server.query("RESET BINARY LOGS AND GTIDS", "DROP DATABASE IF EXISTS d")
    load = SchemaLoad(server, seed)
    try:
        load.run(statements)
    finally:
        load.close()
    log.mkdir(parents=True)
    for path in server.data.glob("binlog.0*"):
        shutil.copy(path, log)
    return load
