"""Equal hashes of different keys lose nothing: the applier with a hash of two bits."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_repl.delta.store.delta_rs_read import read
from spark_repl.write.files import key_index, key_lookup
from tests.support.binlog_writer import Change, LogWriter, Table, delete, insert, update
from tests.support.local_delta import rows, run
from tests.support.version_model import VersionModel, versions

TEXT = Table("text", (("k", "varchar(80)"), ("v", "varchar(20)")))
PAIR = Table("pair", (("k", "varchar(80)"), ("n", "int"), ("v", "varchar(20)")), (0, 1))
BAG = Table("bag", (("k", "varchar(80)"), ("n", "int")), ())


@pytest.fixture(autouse=True)
def weak(monkeypatch: pytest.MonkeyPatch) -> None:
    true: Callable[[list[Any]], Any] = key_index.hash_keys

    def weak_hash(keys: list[Any]) -> Any:
        return true(keys) & 3

    monkeypatch.setattr(key_lookup, "hash_keys", weak_hash)
    monkeypatch.setattr(key_index, "hash_keys", weak_hash)


class Model:
    """What the tables must hold, and random changes of it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rows: dict[Table, list[tuple[Any, ...]]] = {TEXT: [], PAIR: [], BAG: []}

    def change(self, table: Table) -> list[Change]:
        rows, at = self.rows[table], self.random
        if len(rows) < 8 or at.random() < 0.3:
            return self.insert(table)
        old = rows.pop(at.randrange(len(rows)))
        kind = at.choice(("delete", "update", "again"))
        if kind == "delete":
            return [delete(table, old)]
        new = (*old[: max(1, len(table.key))], *self._values(table))
        rows.append(new)
        if kind == "update":
            return [update(table, (old, new))]
        return [delete(table, old), insert(table, new)]

    def insert(self, table: Table) -> list[Change]:
        new = (f"k{self.random.randrange(10**6)}", *([7] if len(table.key) > 1 else []))
        new = (*new, *self._values(table))
        self.rows[table].append(new)
        return [insert(table, new)]

    def _values(self, table: Table) -> tuple[Any, ...]:
        number = self.random.randrange(5)
        return (number,) if table is BAG else (str(number),)


def test_null_in_a_table_of_one_number(tmp_path: Path) -> None:
    """Found: NULL made the hashes floats, and the look-up missed the row."""
    one = Table("one", (("n", "int"),), ())
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(one.create)
    log.transaction(insert(one, (None,), (None,), (5,)))
    log.transaction(delete(one, (None,)), insert(one, (6,)))
    run(log.folder, target, group_max_transactions=1)
    found = read(str(target / "t" / "one"), None).column("n").to_pylist()
    assert sorted(found, key=repr) == [5, 6, None]


@pytest.mark.parametrize("vectors", [True, False])
def test_equal_hashes_of_different_keys_lose_nothing(tmp_path: Path, vectors: bool) -> None:
    model, log, target = Model(8), LogWriter(tmp_path / "log"), tmp_path / "lake"
    for table in model.rows:
        log.ddl(table.create)
    for _ in range(2):
        for _ in range(30):
            log.transaction(*(c for table in model.rows for c in model.change(table)))
        run(log.folder, target, vectors=vectors, group_max_transactions=16)
        shutil.rmtree(target / "_repl" / "keys")  # the index is a hint, and is made again
    for table, want in model.rows.items():
        assert rows(target, table) == sorted(want), table.name


def test_each_keys_own_version_ends_if_all_hashes_collide(tmp_path: Path) -> None:
    """Of mode history: each key's own version ends."""
    log, at = LogWriter(tmp_path / "log"), random.Random(5)
    log.ddl(TEXT.create)
    model = VersionModel(log, TEXT)
    model.transaction(model.insert(*((f"k{n}", "first") for n in range(20))))
    for number in range(12):
        keys = at.sample(sorted(model.there), 3)
        gone = model.delete(keys[0])
        changes = [model.update(key, (key, f"v{number}")) for key in keys[1:]]
        model.transaction(gone, *changes, model.insert((f"n{number}", "new")))
    tables = [{"match": "%.text", "mode": "history"}]
    for bound in (1, 100):
        lake = tmp_path / str(bound)
        assert run(log.folder, lake, group_max_transactions=bound, tables=tables)
        assert versions(lake, table=f"{TEXT.database}.text") == model.rows
