"""The same random filter rules here and on a real MySQL replica, over a random log of several
databases with DDL: the same tables remain, with the same rows."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_repl.errors import SparkReplError
from spark_repl.rules.table_routes import TableRoutes
from tests.support.live.server import Server
from tests.support.local_delta import last_shown, run

_DATABASES, _NAMES = ("a", "ab", "b"), ("t", "t1", "tx", "u_1")
_TARGETS = ("z", "zz")  # what databases are rewritten to
_WAIT_S = 180.0
SEED = int(os.environ.get("SPARK_REPL_SEED", "2"))
_RULES = {
    "do_db": "REPLICATE_DO_DB", "ignore_db": "REPLICATE_IGNORE_DB",
    "do_table": "REPLICATE_DO_TABLE", "ignore_table": "REPLICATE_IGNORE_TABLE",
    "wild_do_table": "REPLICATE_WILD_DO_TABLE", "wild_ignore_table": "REPLICATE_WILD_IGNORE_TABLE",
    "rewrite_db": "REPLICATE_REWRITE_DB",
}  # fmt: skip
_NAMED = [{"match": r"ab.u\_1", "to": "a.t"}, {"match": "%.%", "to": "r%.%"}]
"""No filters: the same tables remain, under other names, one of them another's on the source."""
Shown = dict[str, list[tuple[Any, ...]]]


def _unqualified(rng: random.Random, steps: int) -> Iterator[list[str]]:
    """The same, where statements but for rows name tables without their database, and none drops
    one: MySQL's replica rewrites no other."""
    for statements in _history(rng, steps, whole=False):
        use, *others = statements
        database = use.removeprefix("USE ")
        if others and others[0] != "BEGIN":
            yield [use, *(one.replace(f"{database}.", "") for one in others)]
        else:
            yield statements


def _history(rng: random.Random, steps: int, *, whole: bool = True) -> Iterator[list[str]]:
    """Sessions' statements: rows and DDL, most of it in the default database of its tables. Unless
    ``whole`` all of it, none makes a table like another, and instead of a database all its tables
    are dropped."""
    for database in _DATABASES:
        yield [f"CREATE DATABASE {database}"]
    there = set[str]()
    for _ in range(steps):
        database = rng.choice(_DATABASES)
        use = f"USE {rng.choice(_DATABASES) if whole and rng.random() < 0.2 else database}"
        mine = sorted(name for name in there if name.startswith(f"{database}."))
        name = f"{database}.{rng.choice(_NAMES)}"
        way = rng.random()
        if name not in there:
            columns = "(id INT PRIMARY KEY, v INT)"
            if whole and there and rng.random() < 0.3:
                columns = f"LIKE {rng.choice(sorted(there))}"
            there.add(name)
            yield [use, f"CREATE TABLE {name} {columns}"]
        elif way < 0.6:
            other = rng.choice(sorted(there))
            keys = [rng.randrange(50) for _ in range(4)]
            yield [
                f"USE {rng.choice(_DATABASES)}", "BEGIN", f"REPLACE INTO {name} VALUES"
                f" ({keys[0]}, 1), ({keys[1]}, 2)", f"DELETE FROM {name} WHERE id = {keys[2]}",
                f"REPLACE INTO {other} VALUES ({keys[3]}, 3)", "COMMIT",
            ]  # fmt: skip
        elif way < 0.7:
            yield [use, f"TRUNCATE TABLE {name}"]
        elif way < 0.8:
            yield [use, f"ALTER TABLE {name} ALTER COLUMN v SET DEFAULT 7"]
        elif way < 0.97:
            gone = rng.sample(mine, min(len(mine), rng.choice((1, 1, 2))))
            there -= set(gone)
            yield [use, f"DROP TABLE IF EXISTS {', '.join(gone)}"]
        else:
            there -= set(mine)
            if whole:
                yield [f"DROP DATABASE {database}", f"CREATE DATABASE {database}"]
            else:
                yield [f"USE {database}", f"DROP TABLE {', '.join(mine)}"]


def _rules(rng: random.Random, *, rewritten: bool = False) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    databases = [*_DATABASES, *_TARGETS] if rewritten else list(_DATABASES)
    tables = [f"{database}.{name}" for database in databases for name in _NAMES]
    if rng.random() < 0.4:
        found[rng.choice(("do_db", "ignore_db"))] = rng.sample(databases, rng.choice((1, 2)))
    for kind in ("do_table", "ignore_table"):
        if rng.random() < 0.35:
            mine = rng.sample(tables, rng.choice((1, 2, 4)))
            tables = [name for name in tables if name not in mine]
            found[kind] = mine
    renamed = [name for name in _DATABASES if rewritten and rng.random() < 0.5]
    if renamed:
        found["rewrite_db"] = [f"{name}->{rng.choice(_TARGETS)}" for name in renamed]
    wild = ["a.%", "a%.t%", "%.t_", "b.%", r"%.u\_%", "ab.t1", "%.%", "_.t", "z%.t%", "z.%"]
    for kind in ("wild_do_table", "wild_ignore_table"):
        if rng.random() < 0.35:
            found[kind] = [wild.pop(rng.randrange(len(wild))) for _ in range(rng.choice((1, 2)))]
    return found


class Replica:
    """A MySQL replica that begins again with each set of rules."""

    def __init__(self, server: Server, source: Server) -> None:
        self.server, self.source = server, source
        server.query(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={source.port},"
            " SOURCE_USER='repl', SOURCE_PASSWORD='repl', GET_SOURCE_PUBLIC_KEY=1,"
            " SOURCE_AUTO_POSITION=1"
        )

    def applied(self, rules: dict[str, list[str]], executed: str) -> Shown | None:
        """The tables that it has in the end; None where the rules make it stop."""
        server = self.server
        drops = [f"DROP DATABASE IF EXISTS {database}" for database in (*_DATABASES, *_TARGETS)]
        made = [f"CREATE DATABASE {database}" for database in _TARGETS]
        server.query("STOP REPLICA", *drops, *made, "RESET BINARY LOGS AND GTIDS", "RESET REPLICA")
        lists = [f"{name} = ({_listed(key, rules.get(key, []))})" for key, name in _RULES.items()]
        server.query(f"CHANGE REPLICATION FILTER {', '.join(lists)}", "START REPLICA")
        until = time.monotonic() + _WAIT_S
        stopped = "SELECT service_state FROM performance_schema.replication_applier_status"
        while server.query(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{executed}', 1)") != ((0,),):
            if server.query(stopped) == (("OFF",),):
                return None
            assert time.monotonic() < until, rules
        listed = "', '".join((*_DATABASES, *_TARGETS))
        names = server.query(
            "SELECT CONCAT(table_schema, '.', table_name) FROM information_schema.tables"
            f" WHERE table_schema IN ('{listed}')"
        )
        return {name: sorted(server.query(f"SELECT * FROM {name}")) for (name,) in names}


def _listed(key: str, entries: list[str]) -> str:
    if key == "rewrite_db":
        return ", ".join("(" + entry.replace("->", ", ") + ")" for entry in entries)
    if "wild" in key:
        return ", ".join("'" + entry.replace("\\", "\\\\") + "'" for entry in entries)
    return ", ".join(entries)


def _compare(
    replica: Replica, folder: Path, *, seed: int, sets: int, rewritten: bool = False
) -> int:
    """Compares so many sets of rules over a log; returns how many of them the replica came through
    with."""
    rng, log, source = random.Random(seed), folder / "log", replica.source
    source.query("RESET BINARY LOGS AND GTIDS")
    for statements in (_unqualified if rewritten else _history)(rng, 60):
        source.query(*statements)
    executed = source.executed
    log.mkdir(parents=True)
    for path in sorted(source.data.glob("binlog.0*")):
        shutil.copy(path, log)
    compared = 0
    for number in range(sets):
        rules, target = _rules(rng, rewritten=rewritten), folder / f"lake{number}"
        want = replica.applied(rules, executed)
        if want is None:
            continue
        named = _NAMED[: 2 * (number % 2)]  # every other set
        try:
            assert run(log, target, filters=rules, tables=named)
        except SparkReplError as error:
            raise AssertionError(f"{rules}: {error}") from error
        before = TableRoutes(tuple((rule["match"], rule["to"]) for rule in named)).before
        shown = last_shown(target)
        assert {before(name): rows for name, rows in shown.items()} == want, rules
        assert not named or all(name == "a.t" or name[0] == "r" for name in shown)
        shutil.rmtree(target)
        compared += 1
    source.query(*(f"DROP DATABASE IF EXISTS {database}" for database in _DATABASES))
    return compared


def test_the_same_tables_as_on_a_replica(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    source = make_server()
    assert _compare(Replica(make_server(), source), tmp_path, seed=1, sets=5) >= 3


@pytest.mark.slow
def test_databases_under_other_names(make_server: Callable[..., Server], tmp_path: Path) -> None:
    source = make_server()
    replica = Replica(make_server(), source)
    assert _compare(replica, tmp_path, seed=4, sets=4, rewritten=True) >= 2


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_two_hundred_sets_of_rules(make_server: Callable[..., Server], tmp_path: Path) -> None:
    """So many that the replica came through with, over a new log for every 25 that are tried; in
    each third log databases have other names."""
    source, compared, logs = make_server(), 0, itertools.count(SEED)
    replica = Replica(make_server(), source)
    while compared < 200:
        seed = next(logs)
        rewritten, folder = seed % 3 == 0, tmp_path / str(seed)
        fine = _compare(replica, folder, seed=seed, sets=25, rewritten=rewritten)
        compared += fine
        print(f"seed {seed}: {fine} of 25 sets, {compared} so far")
        assert fine >= 5
