"""Definitions travel to workers with every group: each is pickled once, and unpickled where a log
names the table."""

from __future__ import annotations

import pickle
from typing import Any

from spark_repl.decode.known_tables import IgnoredTables, KnownTables, TablePacker
from spark_repl.rules.replication_filters import ReplicationFilters
from spark_repl.sql.classify import classify
from spark_repl.tables.source_table import Declared, SourceTable, Unapplied

MOVES = list[str]()


class Noted:
    """Says when it is pickled, and when it is made of that again."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getstate__(self) -> dict[str, Any]:
        MOVES.append(f"packed {self.name}")
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        MOVES.append(f"made {self.name}")


def there(tables: KnownTables) -> KnownTables:
    """As a worker is given them."""
    moved: KnownTables = pickle.loads(pickle.dumps(tables))
    return moved


def definition(name: str) -> SourceTable:
    found = classify(f"CREATE TABLE t.{name} (id INT PRIMARY KEY)", "t").definition
    assert found is not None
    return found


def test_each_is_packed_once_and_made_where_it_is_asked_for() -> None:
    MOVES.clear()
    packer, tables = TablePacker(), {name: Noted(name) for name in "abc"}
    for _ in range(3):
        moved = there(KnownTables(tables, IgnoredTables(), (), packer))  # type: ignore[arg-type]
    assert MOVES == ["packed a", "packed b", "packed c"]
    assert moved["b"] is moved["b"] and there(moved).keys() == tables.keys()
    assert MOVES[3:] == ["made b"]
    MOVES.clear()
    tables = {**tables, "b": Noted("b2")}
    del tables["c"]
    moved = there(KnownTables(tables, IgnoredTables(), (), packer))  # type: ignore[arg-type]
    assert MOVES == ["packed b2"] and moved["b"].name == "b2" and "c" not in moved  # type: ignore[comparison-overlap]


def test_a_worker_knows_what_is_known_here() -> None:
    """What filters leave out is not read there either, but for what a foreign key leads from."""
    filters = ReplicationFilters(do_table=("t.a", "t.w", "t.q"))
    left_out, unread = Unapplied.LEFT_OUT, Unapplied.UNREAD
    tables: dict[str, Declared] = {
        "t.a": definition("a"), "t.b": definition("b"), "t.w": left_out, "t.q": unread,
        "t.c": definition("c"),
    }  # fmt: skip
    known = KnownTables(tables, IgnoredTables(frozenset({"t.w"}), filters), {"t.b"})
    assert dict(there(known)) == dict(known) == {**tables, "t.c": unread, "t.w": unread}
    assert len(there(there(known))) == 5 and there(known)["t.z"] == unread
