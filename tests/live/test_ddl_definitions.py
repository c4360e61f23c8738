"""What ``alter`` makes of a table against what a server has made of it, over random statements."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pymysql
import pytest

from spark_repl.alter.apply_alter import alter
from spark_repl.alter.rename import like
from spark_repl.binlog.event_types import EventType
from spark_repl.binlog.events.event import Query, parse_header, parse_query
from spark_repl.binlog.events.query_status import _variables
from spark_repl.binlog.events.table_map import parse_table_map
from spark_repl.errors import StatementError
from spark_repl.sql.classify import Effect, classify, classify_in
from spark_repl.sql.foreign_keys import named
from spark_repl.sql.session import Session
from spark_repl.tables.column import ColumnType
from spark_repl.tables.source_table import SourceTable
from tests.support.live.ddl_generator import Generator, quoted
from tests.support.live.server import Server

OPTIONS = ("--innodb-flush-log-at-trx-commit=0", "--sync-binlog=0", "--performance-schema=OFF")


@dataclass
class Accepted:
    """A statement that the server accepted: SHOW CREATE TABLE after it, and for each new column
    whether its value was the predicted one."""

    table: str
    shown: SourceTable
    text: str


def session_of(query: Query) -> Session:
    said = _variables(query.status)
    explicit = bool(said[16][0]) if 16 in said else None
    charsets = {"g": "utf8mb4_0900_ai_ci"}
    return Session(query.database, query.sql_mode, 0, "", explicit, charsets=charsets)


def logged(folder: Path) -> Iterator[Query | SourceTable]:
    """Statements and TABLE_MAPs of a server's log, in its order."""
    for path in sorted(folder.glob("binlog.0*")):
        log, at = path.read_bytes(), 4
        while at < len(log):
            header = parse_header(log, at)
            body = log[at + 19 : at + header.length - 4]
            if header.type == EventType.QUERY and body.find(b"BEGIN") < 0:
                yield parse_query(body)
            elif header.type == EventType.TABLE_MAP:
                yield parse_table_map(body)
            at += header.length


class Source:
    """Runs statements in database g; keeps those that the server took."""

    def __init__(self, server: Server) -> None:
        self._connection = server.connect()
        self.accepted: list[Accepted] = []
        self.refused = 0
        self.run("CREATE DATABASE g", "USE g", "SET sql_mode = ''", "SET GLOBAL sql_mode = ''")
        self.run("CREATE TABLE par (id INT PRIMARY KEY)")

    def run(self, *statements: str) -> Any:
        with self._connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall()

    def shown(self, table: str) -> SourceTable:
        ((_, text),) = self.run(f"SHOW CREATE TABLE {quoted(table)}")
        found = classify(text, "g")
        assert found.definition is not None, (found.reason, text)
        return found.definition

    def take(self, statement: str, table: str) -> bool:
        """Whether the server took it; then a row makes a TABLE_MAP, and stays for the next."""
        try:
            self.run(statement)
        except pymysql.err.MySQLError as error:
            assert self._connection.open, (statement, error)  # or the server is gone
            self.refused += 1
            return False
        self.accepted.append(Accepted(table, self.shown(table), statement))
        self.run(f"DELETE FROM {quoted(table)}")
        with suppress(pymysql.err.MySQLError):  # a type without a zero: no TABLE_MAP then
            self.run(f"INSERT INTO {quoted(table)} () VALUES ()")
        return True


def compare(made: SourceTable, shown: SourceTable, text: str) -> list[str]:
    """What differs between our definition and the one that SHOW CREATE TABLE has."""
    wrong = []
    for got, want in zip(made.columns, shown.columns, strict=False):
        for part in ("name", "type", "meta", "nullable", "unsigned", "literals", "visible",
                     "auto_increment"):  # fmt: skip
            if getattr(got, part) != getattr(want, part):
                wrong.append(
                    f"{want.name}.{part}: {getattr(got, part)!r}, not {getattr(want, part)!r}"
                )
        if bool(got.generated) != bool(want.generated) or got.generated[-7:] != want.generated[-7:]:
            wrong.append(f"{want.name} generated: {got.generated!r}, not {want.generated!r}")
        if (got.collation == 63) != (want.collation == 63):
            wrong.append(f"{want.name} collation")
        exact = not got.generated and got.type != ColumnType.YEAR
        if exact and not same_default(got.default, want.default):
            wrong.append(f"{want.name} default: {got.default!r}, not {want.default!r}")
    if len(made.columns) != len(shown.columns):
        wrong.append(f"columns {[c.name for c in made.columns]}")
    for part in ("primary_key", "has_primary", "unique"):
        if getattr(made, part) != getattr(shown, part):
            wrong.append(f"{part}: {getattr(made, part)!r}, not {getattr(shown, part)!r}")
    plain = [{(i.name, i.columns) for i in t.indexes or ()} for t in (made, shown)]
    if plain[0] != plain[1]:
        wrong.append(f"indexes {plain[0]}, not {plain[1]}")
    if made.charset.partition("_")[0] != shown.charset.partition("_")[0]:
        wrong.append(f"charset {made.charset}, not {shown.charset}")
    keys = [{(k.name, k.columns, k.parent) for k in t.foreign_keys or ()} for t in (made, shown)]
    if keys[0] != keys[1]:
        wrong.append(f"foreign keys {keys[0]}, not {keys[1]}")
    return wrong


def same_default(got: str | None, want: str | None) -> bool:
    """The server writes defaults as strings, in its own way."""
    if got == want or (got in ("NULL", None) and want in ("NULL", None)):
        return True
    if got is not None and want is not None:
        got, want = got.rstrip("\0"), want.rstrip("\0")
    if got is None or want is None:
        return (got or want) in ("'0000-00-00 00:00:00", "0", "'", "NULL")
    if got.isdigit() and (":" in want or "-" in want[2:]):
        return True  # a moment that is written as a number
    try:
        return float(got.strip("'")) == float(want.strip("'"))
    except ValueError:
        return got[:2] == "0x" or want.startswith(got) or "0b" in got


def agrees_with_map(made: SourceTable, seen: SourceTable) -> list[str]:
    """What differs between our definition and a TABLE_MAP's."""
    parts = ("name", "type", "meta", "nullable", "unsigned", "literals", "visible")
    ours = [tuple(getattr(c, part) for part in parts) for c in made.columns]
    theirs = [tuple(getattr(c, part) for part in parts) for c in seen.columns]
    wrong = [f"map: {a}, not {b}" for a, b in zip(ours, theirs, strict=False) if a != b]
    if len(ours) != len(theirs):
        wrong.append("map: other columns")
    if made.primary_key != seen.primary_key:
        wrong.append(f"map: key {made.primary_key}, not {seen.primary_key}")
    return wrong


def follow(source: Source, folder: Path) -> tuple[list[str], int]:
    """Goes through the log with ``classify_in`` and ``alter``: what differs, and how many
    TABLE_MAPs were compared."""
    tables: dict[str, SourceTable] = {}
    accepted = iter(source.accepted)
    wrong: list[str] = []
    maps = 0
    for event in logged(folder):
        if isinstance(event, SourceTable):
            if event.name in tables:
                maps += 1
                differing = agrees_with_map(tables[event.name], event)
                wrong += [f"{event.name}: {text}" for text in differing]
                if differing:
                    del tables[event.name]
            continue
        session = session_of(event)
        found = classify_in(event.text, session)
        if not found.tables or found.tables == ("g.par",) or found.effect is Effect.DROP_TABLE:
            continue
        want = next(accepted)
        name, made = f"g.{want.table}", None
        if found.effect is Effect.UNSUPPORTED:
            wrong.append(f"{event.text}: {found.reason}")
        elif found.effect is Effect.CREATE_TABLE:
            made = found.definition
            if made is None:
                wrong.append(f"{event.text}: {found.reason}")
            elif made.foreign_keys:
                made = replace(made, foreign_keys=named(made.foreign_keys, name))
        elif found.effect is Effect.CREATE_LIKE and found.like in tables:
            made = like(tables[found.like], name)
        elif found.tables[0] in tables:
            try:
                made = alter(tables.pop(found.tables[0]), found, session).definition
            except StatementError as error:
                if "not known" in error.message:
                    tables[name] = want.shown
                    continue
                wrong.append(f"{event.text}: {error}")
        if made is not None:
            differing = compare(made, want.shown, event.text)
            wrong += [f"{event.text}\n    {text}" for text in differing]
            if not differing:
                tables[made.name] = made
                continue
        tables[name] = want.shown
    return wrong, maps


SEED, TABLES, STATEMENTS = 31, 16, 14


@pytest.mark.parametrize("seed", [int(os.environ.get("DDL_SEED", SEED))])
def test_definitions_follow_the_server(make_server: Callable[..., Server], seed: int) -> None:
    server = make_server(*OPTIONS)
    source, generator = Source(server), Generator(seed)
    for number in range(TABLES):
        table = f"t{number}"
        if number % 8 == 0:
            mode = generator.rng.choice(("ON", "OFF"))
            source.run(f"SET explicit_defaults_for_timestamp = {mode}")
        while not source.take(generator.create(table), table):
            pass
        for _ in range(STATEMENTS):
            source.take(generator.alter(source.accepted[-1].shown), table)
    wrong, maps = follow(source, server.data)
    assert not wrong, "\n".join(wrong)
    assert maps > 60 and len(source.accepted) > 90
