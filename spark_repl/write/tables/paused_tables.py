"""Tables whose changes are not applied for now: those in quarantine, and those that wait for a
copy.

A table is in quarantine because one of its changes can't be applied. A table waits for a copy
because the log doesn't say what a statement made of its rows. Until the copy, the applier passes
over rows and statements that belong to waiting tables only: the copy reads a later state. A cut
records these tables, so that a crash before the copy changes nothing.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from ...control.table.cut import InQuarantine
from ...control.transaction_files.quarantine_store import total

if TYPE_CHECKING:
    from ...control.records.quarantine import Quarantine
    from ...control.table.cut import Cut, Waiting
    from ...control.transaction_files.quarantine_store import KeptTransactions
    from .table import Table


class QuarantinedTables:
    """Replaced as a whole, so that any thread may look."""

    def __init__(self) -> None:
        self._by_path: dict[str, tuple[Quarantine, dict[int, tuple[int, int]]]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_path)

    def add(self, quarantine: Quarantine, mark: InQuarantine | None = None) -> None:
        """``mark``: what the newest cut says of it, if that has it."""
        owners = mark.by_owner if mark else {}
        self._by_path = {**self._by_path, quarantine.path: (quarantine, owners)}

    def replace(self, quarantine: Quarantine) -> None:
        """Take over what was decided about a quarantine; what is kept of it stays."""
        owners = self._by_path[quarantine.path][1]
        self._by_path = {**self._by_path, quarantine.path: (quarantine, owners)}

    def count(self, path: str, kept: KeptTransactions) -> None:
        """More is kept of the table at ``path``."""
        quarantine, owners = self._by_path[path]
        transactions, size = owners.get(kept.epoch, (0, 0))
        more = {**owners, kept.epoch: (transactions + len(kept.sizes), size + kept.bytes)}
        self._by_path = {**self._by_path, path: (quarantine, more)}

    def owners(self, path: str) -> dict[int, tuple[int, int]]:
        """(transactions, bytes) of what each owner has kept of the table, by the owner's epoch."""
        return self._by_path[path][1]

    def drop(self, path: str) -> None:
        self._by_path = {other: one for other, one in self._by_path.items() if other != path}

    def totals(self, tables: Mapping[str, Table]) -> tuple[int, int]:
        """Return (transactions, their bytes in the log) that are kept of all ``tables``. Those that
        were dropped, or replaced by a copy, do not count any more."""
        paths = {table.path for table in dict(tables).values()}
        kept = [total(owners) for path, (_, owners) in self._by_path.items() if path in paths]
        return sum(count for count, _ in kept), sum(size for _, size in kept)

    def of(self, tables: Mapping[str, Table]) -> dict[str, Quarantine]:
        """Those of the tables that are there, by name."""
        if not self._by_path:
            return {}
        there = dict(tables).items()
        return {n: self._by_path[t.path][0] for n, t in there if t.path in self._by_path}

    def marks(self, tables: Mapping[str, Table]) -> dict[str, InQuarantine]:
        """What a cut says of them."""
        if not self._by_path:
            return {}
        marks = {}
        for name, table in sorted(dict(tables).items()):
            if table.path in self._by_path:
                one, owners = self._by_path[table.path]
                by_owner = tuple((epoch, *kept) for epoch, kept in sorted(owners.items()))
                marks[name] = InQuarantine(one.reason, one.since, *total(owners), by_owner)
        return marks


class WaitingTables(Mapping[str, "Waiting"]):
    """By name (db.table). Replaced as a whole, so that any thread may look."""

    def __init__(self) -> None:
        self._tables: dict[str, Waiting] = {}

    def __getitem__(self, name: str) -> Waiting:
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def load(self, cut: Cut | None, copied: Container[str]) -> None:
        """Those of the cut that the applier goes on from, without what was ``copied`` behind it."""
        waiting = cut.waiting if cut else {}
        self._tables = {name: why for name, why in waiting.items() if name not in copied}

    def add(self, name: str, why: Waiting) -> None:
        """One that waits already goes on waiting for the same reason."""
        self._tables = {name: why, **self._tables}

    def drop(self, names: Iterable[str]) -> None:
        gone = set(names)
        self._tables = {name: why for name, why in self._tables.items() if name not in gone}

    def rename(self, before: str, after: str) -> None:
        tables = dict(self._tables)
        if why := tables.pop(before, None):
            tables[after] = why
        self._tables = tables
