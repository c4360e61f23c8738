"""Two sources whose shards are in one Delta table, each by a channel of its own, and what each
channel's cuts show of its own shards."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from spark_repl.config.renaming import shard_of
from spark_repl.control.records.shared_tables import shared_shards
from spark_repl.control.table.cut import reader_tables
from spark_repl.delta.log.log_replay import read_commit
from spark_repl.delta.store.delta_rs_read import read
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import cuts, run
from tests.support.shards import APART, MAPPED, RULE, Rows, of_each, shard
from tests.support.two_sources import US

CHANNELS = ("eu", "us")
SHARED = {**RULE, "channels": list(CHANNELS)}
BOTH: dict[str, Any] = {"tables": [SHARED], **MAPPED}
FOLDER = "lake/orders"


def writers(folder: Path) -> dict[str, LogWriter]:
    """An empty log of each channel's source."""
    return {
        "eu": LogWriter(folder / "eu"),
        "us": LogWriter(folder / "us", source=US, server_id=2),
    }


def one(channel: str, number: int = 1, *more: tuple[str, str]) -> Table:
    """A shard of the channel's source."""
    return shard(f"{channel}{number}", *more)


def seen(target: Path, channel: str) -> dict[str, Rows]:
    """GTID set -> shard -> its rows at that cut of the channel, without NULLs, as ``of_each``."""
    found: dict[str, dict[str, Any]] = {}
    for cut in cuts(target, channel):
        rows = found.setdefault(cut.gtid_executed, {})
        rows |= {shard_of(name): [] for name in cut.tables}
        own = shared_shards(cut)
        for name, at in reader_tables(cut).items():
            for row in read(f"{target}/{at.path}", at.version).to_pylist():
                if row["shop"] in own[name]:
                    values = {k: v for k, v in row.items() if v is not None}
                    rows[values.pop("shop")].append(tuple(sorted(values.items())))
    return {gtids: {n: sorted(r) for n, r in rows.items()} for gtids, rows in found.items()}


def wanted(logs: Mapping[str, LogWriter], apart: Path) -> dict[str, dict[str, Rows]]:
    """What each channel's cuts are to show: tables of its shards' own."""
    for channel, log in logs.items():
        assert run(log.folder, apart / channel, group_max_transactions=1, **APART)
    return {channel: of_each(apart / channel) for channel in logs}


def check(target: Path, logs: Mapping[str, LogWriter], apart: Path) -> None:
    """``check_seen`` of what tables of their own show, which are made in ``apart``."""
    check_seen(target, wanted(logs, apart))


def check_seen(target: Path, of_all: Mapping[str, Mapping[str, Rows]]) -> None:
    """Each channel's cuts show what they are to, the newest of them the newest; and the Delta table
    itself is the union of the newest cuts."""
    union: list[Any] = []
    for channel, want in of_all.items():
        got = seen(target, channel)
        assert {gtids: want[gtids] for gtids in got} == got, channel
        assert [*got][-1] == [*want][-1], channel
        last = [*want.values()][-1]
        union += [(name, row) for name, rows in last.items() for row in rows]
    there = []
    for row in read(f"{target}/{FOLDER}").to_pylist():
        values = {k: v for k, v in row.items() if v is not None}
        there.append((values.pop("shop"), tuple(sorted(values.items()))))
    assert sorted(there) == sorted(union)
    check_log(target)


def check_log(target: Path, channel_of: Callable[[str], str] = lambda shard: shard[:2]) -> None:
    """No commit adds or removes files of another channel's shards than that whose position it
    bears. ``channel_of``: a shard's channel."""
    for version, actions in commits(target):
        apps = {a["txn"]["appId"].split(":")[1] for a in actions if "txn" in a}
        shards = {
            channel_of(value)
            for a in actions
            for kind in ("add", "remove")
            if kind in a
            for value in a[kind]["partitionValues"].values()
        }
        assert len(apps | shards) < 2, (version, apps, shards)


def commits(target: Path) -> list[tuple[int, list[dict[str, Any]]]]:
    """Return the commits in the Delta table's log, by version."""
    names = sorted((target / FOLDER / "_delta_log").glob("*.json"))
    versions = [int(name.stem) for name in names]
    return [(one, read_commit(str(target / FOLDER), one) or []) for one in versions]


class LogIdentity:
    """Random rows and statements of a source's shards; ``step`` makes one transaction."""

    def __init__(self, log: LogWriter, channel: str, rand: random.Random) -> None:
        self.log, self.channel, self.rand = log, channel, rand
        self.there: dict[int, dict[int, tuple[Any, ...]]] = {}
        self.more: dict[int, list[str]] = {}
        self._step = 0

    def table(self, number: int) -> Table:
        return one(self.channel, number, *((name, "int") for name in self.more[number]))

    def step(self) -> None:
        self._step += 1
        number, rand = self.rand.randint(1, 2), self.rand
        database = f"shop_{self.channel}{number}"
        kind = rand.random()
        if number not in self.there:
            self.more[number] = [name for name in "wu" if rand.random() < 0.4]
            self.log.ddl(self.table(number).create, database)
            self.there[number] = {}
        elif kind < 0.08:
            self.log.ddl("TRUNCATE TABLE orders", database)
            self.there[number] = {}
        elif kind < 0.14:
            self.log.ddl("DROP TABLE orders", database)
            del self.there[number]
        elif kind < 0.35:
            self._alter(number, database)
        else:
            self.log.transaction(*(self._change() for _ in range(rand.randint(1, 4))))

    def _alter(self, number: int, database: str) -> None:
        column, rows = self.rand.choice("wuxy"), self.there[number]
        if column in self.more[number]:
            self.log.ddl(f"ALTER TABLE orders DROP {column}", database)
            at = 2 + self.more[number].index(column)
            self.more[number].remove(column)
            self.there[number] = {key: row[:at] + row[at + 1 :] for key, row in rows.items()}
        else:
            value = self.rand.choice([None, 7])
            default = "" if value is None else f" DEFAULT {value}"
            self.log.ddl(f"ALTER TABLE orders ADD {column} INT{default}", database)
            self.more[number].append(column)
            self.there[number] = {key: (*row, value) for key, row in rows.items()}

    def _change(self) -> Any:
        number = self.rand.choice([*self.there])
        table, rows, key = self.table(number), self.there[number], self.rand.randint(1, 5)
        new = (key, f"{self._step}", *(self.rand.randint(0, 9) for _ in self.more[number]))
        if key not in rows:
            rows[key] = new
            return insert(table, new)
        if self.rand.random() < 0.5:
            old, rows[key] = rows[key], new
            return update(table, (old, new))
        return delete(table, rows.pop(key))


def fields(target: Path) -> list[str]:
    """The columns of the Delta table, by its newest metadata."""
    made = [a["metaData"] for _, actions in commits(target) for a in actions if "metaData" in a]
    return [field["name"] for field in json.loads(made[-1]["schemaString"])["fields"]]
