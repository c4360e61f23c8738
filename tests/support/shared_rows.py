"""Two sources of which each has some rows of one table, told apart by row filters, each by a
channel of its own; and what each channel's cuts show."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spark_repl.control.records.shared_tables import shared_shards
from spark_repl.control.table.cut import reader_tables
from spark_repl.delta.store.delta_rs_read import read
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import cuts, run
from tests.support.shards import MAPPED
from tests.support.shared import FOLDER, check_log

CHANNELS = ("eu", "us")
FILTERS = {"eu": "id % 2 = 0", "us": "id MOD 2 <> 0 AND v <> 'none'"}
APART: dict[str, Any] = {"to": "", "channels": [], "extra_columns": [], "disjoint": False}
Rows = Mapping[str, list[tuple[tuple[str, Any], ...]]]


def orders(*more: tuple[str, str], key: tuple[int, ...] = (0,)) -> Table:
    columns = (("id", "int"), ("v", "varchar(40) COLLATE utf8mb4_bin"), *more)
    return Table("orders", columns, key, database="shop")


def rule(channel: str, **more: Any) -> dict[str, Any]:
    return {
        "match": "shop.orders", "to": "lake.orders", "row_filter": FILTERS[channel],
        "channels": list(CHANNELS), "extra_columns": ["channel"], "disjoint": True, **more,
    }  # fmt: skip


def by(channel: str, **more: Any) -> dict[str, Any]:
    """What ``run`` is given for the channel."""
    return {"channel": channel, "tables": [rule(channel, **more)], **MAPPED}


def seen(target: Path, channel: str) -> dict[str, Any]:
    """GTID set -> the rows at that cut of the channel, without NULLs."""
    found = dict[str, Any]()
    for cut in cuts(target, channel):
        own, rows = shared_shards(cut), found.setdefault(cut.gtid_executed, [])
        for name, at in reader_tables(cut).items():
            for row in read(f"{target}/{at.path}", at.version).to_pylist():
                values = {key: value for key, value in row.items() if value is not None}
                shard = values.pop("_channel", None)
                if name not in own or shard == channel:
                    assert name not in own or own[name] == [channel]
                    rows.append(tuple(sorted(values.items())))
    return {gtids: sorted(rows) for gtids, rows in found.items()}


def wanted(logs: Mapping[str, LogWriter], apart: Path) -> dict[str, dict[str, Any]]:
    """What each channel's cuts are to show: a table of its own, with the same filter."""
    found = {}
    for channel, log in logs.items():
        target = apart / channel
        assert run(log.folder, target, group_max_transactions=1, **by(channel, **APART))
        found[channel] = seen(target, channel)
    return found


def check(target: Path, of_all: Mapping[str, Mapping[str, Any]]) -> None:
    """Each channel's cuts show what they are to, the newest the newest; the Delta table is their
    union, in which each key is there once; and no commit touches files of a channel other than that
    whose position it bears."""
    union = list[Any]()
    for channel, want in of_all.items():
        got = seen(target, channel)
        assert {gtids: want[gtids] for gtids in got} == got, channel
        assert [*got][-1] == [*want][-1], channel
        union += [(channel, row) for row in [*want.values()][-1]]
    there = list[Any]()
    for row in read(f"{target}/{FOLDER}").to_pylist():
        values = {key: value for key, value in row.items() if value is not None}
        there.append((values.pop("_channel"), tuple(sorted(values.items()))))
    assert sorted(there) == sorted(union)
    keys = [dict(row)["id"] for _, row in there]
    assert len(keys) == len({*keys})
    check_log(target, str)


class LogIdentity:
    """Random rows and statements of one source's table, of which its filter keeps some; ``step``
    makes one transaction."""

    def __init__(self, log: LogWriter, rand: random.Random) -> None:
        self.log, self.rand = log, rand
        self.rows: dict[int, tuple[Any, ...]] | None = None
        self.more: list[str] = []
        self._step = 0

    def step(self) -> None:
        self._step += 1
        kind = self.rand.random()
        if self.rows is None:
            self.more = [name for name in "wu" if self.rand.random() < 0.4]
            self.log.ddl(self._table.create, "shop")
            self.rows = {}
        elif kind < 0.06:
            self.log.ddl("TRUNCATE TABLE orders", "shop")
            self.rows = {}
        elif kind < 0.12:
            self.log.ddl("DROP TABLE orders", "shop")
            self.rows = None
        elif kind < 0.3:
            self._alter()
        else:
            self.log.transaction(*(self._change() for _ in range(self.rand.randint(1, 4))))

    @property
    def _table(self) -> Table:
        return orders(*((name, "int") for name in self.more))

    def _alter(self) -> None:
        assert self.rows is not None
        column = self.rand.choice("wuxy")
        if column in self.more:
            at = 2 + self.more.index(column)
            self.more.remove(column)
            self.log.ddl(f"ALTER TABLE orders DROP {column}", "shop")
            self.rows = {key: row[:at] + row[at + 1 :] for key, row in self.rows.items()}
        else:
            self.more.append(column)
            self.log.ddl(f"ALTER TABLE orders ADD {column} INT DEFAULT 7", "shop")
            self.rows = {key: (*row, 7) for key, row in self.rows.items()}

    def _change(self) -> Any:
        assert self.rows is not None
        rows, rand, key = self.rows, self.rand, self.rand.randint(1, 7)
        value = rand.choice(["none", str(self._step)])
        new = (key, value, *(rand.randint(0, 9) for _ in self.more))
        if key not in rows:
            rows[key] = new
            return insert(self._table, new)
        old = rows.pop(key)
        if rand.random() < 0.3:
            return delete(self._table, old)
        free = [one for one in range(1, 8) if one not in rows]
        new = (rand.choice(free), *new[1:])  # which may go out of the filter, or into it
        rows[new[0]] = new
        return update(self._table, (old, new))
