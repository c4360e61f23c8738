"""Random changes below foreign keys (several levels, two keys between the same tables, one of two
columns, a tree): what the log does not hold is done as a plain model of InnoDB does it, row by row,
whatever the groups and workers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.binlog_writer import Change, LogWriter, Row, Table, delete, insert, update
from tests.support.local_delta import rows, run

INT = "int"
PARENT = Table("parent", (("id", INT), ("a", INT), ("b", INT)), map_flags=2)
CHILD = Table("child", (("id", INT), ("x", INT), ("y", INT), ("p", INT)), map_flags=2)
LEAF = Table("leaf", (("id", INT), ("c", INT)))
TREE = Table("tree", (("id", INT), ("up", INT)), map_flags=2)
TABLES = (PARENT, CHILD, LEAF, TREE)


@dataclass(frozen=True)
class Key:
    child: Table
    columns: tuple[int, ...]
    parent: Table
    referenced: tuple[int, ...]
    on_delete: str
    on_update: str

    @property
    def clause(self) -> str:
        own = ", ".join(self.child.columns[i][0] for i in self.columns)
        of = ", ".join(self.parent.columns[i][0] for i in self.referenced)
        actions = "".join(
            f" ON {event} {action}"
            for event, action in (("DELETE", self.on_delete), ("UPDATE", self.on_update))
            if action
        )
        return f"FOREIGN KEY ({own}) REFERENCES {self.parent.name} ({of}){actions}"


ACTIONS = st.sampled_from(["CASCADE", "SET NULL"])


@st.composite
def key_sets(draw: Any) -> tuple[Key, ...]:
    return (
        Key(CHILD, (1, 2), PARENT, (1, 2), draw(ACTIONS), draw(ACTIONS)),
        Key(CHILD, (3,), PARENT, (0,), draw(ACTIONS), draw(ACTIONS)),
        Key(LEAF, (1,), CHILD, (0,), draw(ACTIONS), draw(ACTIONS)),
        Key(TREE, (1,), TREE, (0,), "CASCADE", ""),
    )


@dataclass
class Source:
    """The tables' rows by their keys, as InnoDB has them, and a log of the clients' changes,
    without the changes that foreign keys make."""

    keys: tuple[Key, ...]
    rows: dict[str, dict[int, Row]] = field(
        default_factory=lambda: {table.name: {} for table in TABLES}
    )
    changes: list[Change] = field(default_factory=list)

    def change(self, table: Table, kind: int, number: int, a: int, b: int) -> None:
        there = self.rows[table.name]
        keys = sorted(there)
        if kind == 0 or not keys:
            row = self._row(table, max(keys, default=0) + 1, a, b)
            if self._is_free(table, row, None):
                there[row[0]] = row
                self.changes.append(insert(table, row))
            return
        before = there[keys[number % len(keys)]]
        if kind == 1:
            self.changes.append(delete(table, before))
            self._delete(table, before)
            return
        # A new key too, where it may be changed.
        moved = max(keys) + 1 if kind == 3 and table is not TREE else before[0]
        after = self._row(table, moved, a, b)
        if self._is_free(table, after, before) and after != before:
            self.changes.append(update(table, (before, after)))
            self._update(table, before, after)

    def _row(self, table: Table, key: int, a: int, b: int) -> Row:
        """One that fits: what it references is there, or NULL."""
        if table is PARENT:
            return (key, a, b or None)
        values: list[Any] = [key, *(None for _ in table.columns[1:])]
        for one, pick in zip((k for k in self.keys if k.child is table), (a, b), strict=False):
            known = [row for row in self.rows[one.parent.name].values() if row[0] < key]
            if known and pick:
                chosen = known[pick % len(known)]
                for column, referenced in zip(one.columns, one.referenced, strict=True):
                    values[column] = chosen[referenced]
        return tuple(values)

    def _is_free(self, table: Table, row: Row, before: Row | None) -> bool:
        """Of the parent (a, b) is unique."""
        others = [other for other in self.rows[table.name].values() if other != before]
        return table is not PARENT or None in row or all(o[1:] != row[1:] for o in others)

    def _referencing(self, key: Key, row: Row) -> list[Row]:
        values = [row[i] for i in key.referenced]
        if None in values:
            return []
        children = self.rows[key.child.name].values()
        return [child for child in children if [child[i] for i in key.columns] == values]

    def _delete(self, table: Table, row: Row) -> None:
        del self.rows[table.name][row[0]]
        for key in self.keys:
            if key.parent is table:
                for child in self._referencing(key, row):
                    self._carry_on(key, child, None, delete=key.on_delete == "CASCADE")

    def _update(self, table: Table, before: Row, after: Row) -> None:
        del self.rows[table.name][before[0]]
        self.rows[table.name][after[0]] = after
        for key in self.keys:
            if key.parent is table and any(before[i] != after[i] for i in key.referenced):
                for child in self._referencing(key, before):
                    self._carry_on(key, child, after if key.on_update == "CASCADE" else None)

    def _carry_on(self, key: Key, child: Row, parent: Row | None, *, delete: bool = False) -> None:
        if delete:
            self._delete(key.child, child)
            return
        after = list(child)
        for column, referenced in zip(key.columns, key.referenced, strict=True):
            after[column] = None if parent is None else parent[referenced]
        self._update(key.child, child, tuple(after))


CHANGES = st.tuples(
    st.sampled_from([PARENT, PARENT, CHILD, CHILD, LEAF, TREE]),
    st.sampled_from([0, 0, 0, 1, 2, 3]), st.integers(0, 9), st.integers(0, 4), st.integers(0, 4),
)  # fmt: skip
TRANSACTIONS = st.lists(st.lists(CHANGES, min_size=1, max_size=6), min_size=2, max_size=10)


@given(
    keys=key_sets(), transactions=TRANSACTIONS, bound=st.sampled_from([1, 3, 100]),
    workers=st.sampled_from([1, 2]), vectors=st.booleans(),
)  # fmt: skip
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
def test_tables_end_as_innodb_has_them(
    keys: tuple[Key, ...], transactions: list[list[Any]], bound: int, workers: int, vectors: bool
) -> None:
    with TemporaryDirectory() as folder:
        log, source = LogWriter(Path(folder, "log")), Source(keys)
        log.ddl("CREATE DATABASE t")
        for table in TABLES:
            own = [key.clause for key in keys if key.child is table]
            own += ["UNIQUE KEY (a, b)"] * (table is PARENT)
            log.ddl(table.create.removesuffix(")") + "".join(f", {one}" for one in own) + ")")
        for chosen in transactions:
            source.changes = []
            for one in chosen:
                source.change(*one)
            if source.changes:
                log.transaction(*source.changes)
        target = Path(folder, "lake")
        options = {"group_max_transactions": bound, "workers": workers, "vectors": vectors}
        assert run(log.folder, target, **options)
        for table in TABLES:
            known = sorted(source.rows[table.name].values())
            if (target / "t" / table.name).exists() or known:
                assert rows(target, table) == known, table.name
