"""Random histories of three shards of one Delta table, whose columns come, go, and get other types
and names in any order: each cut shows of each what a table of its own would."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import run
from tests.support.shards import BOTH, V, alike

KINDS = ["smallint", "int", "bigint", "decimal(6,2)", "decimal(9,4)"]
NUMBERS, TEXTS, KEYS = ["w", "u", "x"], ["s", "t"], ["id", "no"]


@dataclass
class Shard:
    """A shard as the source has it: columns, the key first of which, and rows."""

    number: int
    columns: list[tuple[str, str]]
    rows: dict[int, tuple[Any, ...]] = field(default_factory=dict)

    @property
    def table(self) -> Table:
        at = next(i for i, (name, _) in enumerate(self.columns) if name in KEYS)
        return Table("orders", tuple(self.columns), (at,), database=f"shop_{self.number}")

    def add(self, rand: random.Random) -> str:
        name = rand.choice([n for n in NUMBERS + TEXTS if n not in dict(self.columns)])
        kind = V if name in TEXTS else rand.choice(KINDS)
        value = rand.choice([None, "7" if name in TEXTS else 7])
        at = rand.choice([0, len(self.columns)])
        self.columns.insert(at, (name, kind))
        self.rows = {key: (*row[:at], value, *row[at:]) for key, row in self.rows.items()}
        default = "" if value is None else f" DEFAULT {value!r}"
        return f"ADD {name} {kind}{default}{'' if at else ' FIRST'}"

    def drop(self, at: int) -> str:
        name, _ = self.columns.pop(at)
        self.rows = {key: (*row[:at], *row[at + 1 :]) for key, row in self.rows.items()}
        return f"DROP {name}"

    def change(self, at: int, rand: random.Random) -> str:
        """Another type, another name, or both; perhaps one that another column gives up."""
        name, kind = self.columns[at]
        names = next(some for some in (NUMBERS, TEXTS, KEYS) if name in some)
        new = rand.choice(names)
        there = dict(self.columns)
        if new != name and new in there:
            other = self.columns.index((new, there[new]))
            self.columns[at], self.columns[other] = (new, kind), (name, there[new])
            return f"RENAME COLUMN {name} TO {new}, RENAME COLUMN {new} TO {name}"
        wanted = rand.choice([kind, *KINDS]) if names is not TEXTS else kind
        self.columns[at] = new, wanted
        if new != name and wanted == kind and rand.random() < 0.5:
            return f"RENAME COLUMN {name} TO {new}"
        verb = f"MODIFY {name}" if new == name and rand.random() < 0.5 else f"CHANGE {name} {new}"
        return f"{verb} {wanted}{' NOT NULL' if name in KEYS else ''}"

    def altered(self, rand: random.Random) -> str:
        at = rand.randrange(len(self.columns))
        kind = rand.random()
        if kind < 0.3 and len(self.columns) < 6:
            made = self.add(rand)
        elif kind < 0.45 and self.columns[at][0] not in KEYS:
            made = self.drop(at)
        else:
            made = self.change(at, rand)
        return f"ALTER TABLE orders {made}"

    def changed(self, rand: random.Random, step: int) -> Any:
        """A change of one row."""
        table, key = self.table, rand.randint(1, 5)
        (at,) = table.key
        new = tuple(
            key if i == at else str(step) if name in TEXTS else rand.randint(0, 9)
            for i, (name, _) in enumerate(self.columns)
        )
        if key not in self.rows:
            self.rows[key] = new
            return insert(table, new)
        old = self.rows.pop(key)
        if rand.random() < 0.3:
            return delete(table, old)
        if rand.random() < 0.5:
            self.rows[key] = new
            return update(table, (old, new))
        one = rand.randrange(len(new))  # binlog_row_image = MINIMAL
        self.rows[key] = (*old[:one], new[one], *old[one + 1 :])
        return update(table, ({at: key}, {one: new[one]}))


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(one, marks=pytest.mark.slow) for one in range(4, 24))]
)
def test_equals_tables_of_their_own(tmp_path: Path, seed: int) -> None:
    rand = random.Random(f"shards {seed}")
    log, there = LogWriter(tmp_path / "log"), dict[int, Shard]()
    for step in range(rand.randint(20, 45)):
        number = rand.randint(1, 3)
        kind, database = rand.random(), f"shop_{number}"
        if number not in there:
            columns = [("id", rand.choice(KINDS)), ("s", V), ("w", rand.choice(KINDS))]
            there[number] = Shard(number, columns[: rand.randint(1, 3)])
            log.ddl(there[number].table.create, database)
        elif kind < 0.04:
            log.ddl("DROP TABLE orders", database)
            del there[number]
        elif kind < 0.07:
            log.ddl("TRUNCATE TABLE orders", database)
            there[number].rows = {}
        elif kind < 0.5:
            log.ddl(there[number].altered(rand), database)
        else:
            shards = [rand.choice([*there.values()]) for _ in range(rand.randint(1, 6))]
            log.transaction(*(one.changed(rand, step) for one in shards))
    given = {"group_max_transactions": rand.choice([1, 3, 100]), "workers": rand.choice([1, 3])}
    given["vectors"] = rand.random() < 0.7
    run(log.folder, tmp_path / "lake", crash=rand.randint(5, 90), **{**BOTH, **given})
    alike(log, tmp_path, **given)
