"""Paused tables: their changes are not applied for now. They are in quarantine, or wait for a copy.

A table is in quarantine because one of its changes can't be applied. A table waits for a copy
because the log lacks the new values that a statement gave its rows. Until the copy, the applier
skips rows and statements that belong to waiting tables only: the copy reads a later state. A
cut records these tables, so that a crash before the copy changes nothing.
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
    """Tables in quarantine, and the amount of their kept changes, by path, because a copy or
    another table of the same name is not in quarantine. The mapping is replaced as a whole, so that
    any thread may read it."""

    def __init__(self) -> None:
        self._by_path: dict[str, tuple[Quarantine, dict[int, tuple[int, int]]]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_path)

    def add(self, quarantine: Quarantine, recorded: InQuarantine | None = None) -> None:
        """Add a quarantine. ``recorded``: its entry in the newest cut, if that has one."""
        owners = recorded.by_owner if recorded else {}
        self._by_path = {**self._by_path, quarantine.path: (quarantine, owners)}

    def replace(self, quarantine: Quarantine) -> None:
        """Record the decision about a quarantine. Its kept changes do not change."""
        owners = self._by_path[quarantine.path][1]
        self._by_path = {**self._by_path, quarantine.path: (quarantine, owners)}

    def count(self, path: str, transactions_kept: KeptTransactions) -> None:
        """Add ``transactions_kept`` transactions to those that are kept of the table at
        ``path``."""
        quarantine, owners = self._by_path[path]
        transactions, size = owners.get(transactions_kept.epoch, (0, 0))
        more = {
            **owners,
            transactions_kept.epoch: (
                transactions + len(transactions_kept.sizes),
                size + transactions_kept.bytes,
            ),
        }
        self._by_path = {**self._by_path, path: (quarantine, more)}

    def owners(self, path: str) -> dict[int, tuple[int, int]]:
        """Return (transactions, bytes) that each owner has kept of the table, by the owner's
        epoch."""
        return self._by_path[path][1]

    def drop(self, path: str) -> None:
        self._by_path = {other: entry for other, entry in self._by_path.items() if other != path}

    def totals(self, tables: Mapping[str, Table]) -> tuple[int, int]:
        """Return (transactions, their bytes in the log) that are kept for all ``tables``. Tables
        that were dropped, or replaced by a copy, no longer count."""
        paths = {table.path for table in dict(tables).values()}
        totals = [total(owners) for path, (_, owners) in self._by_path.items() if path in paths]
        return sum(count for count, _ in totals), sum(size for _, size in totals)

    def of(self, tables: Mapping[str, Table]) -> dict[str, Quarantine]:
        """Return the quarantines of existing tables, by name."""
        if not self._by_path:
            return {}
        existing = dict(tables).items()
        return {n: self._by_path[t.path][0] for n, t in existing if t.path in self._by_path}

    def marks(self, tables: Mapping[str, Table]) -> dict[str, InQuarantine]:
        """Return the entries of a cut for quarantined tables, by name."""
        if not self._by_path:
            return {}
        marks = {}
        for name, table in sorted(dict(tables).items()):
            if table.path in self._by_path:
                quarantine, owners = self._by_path[table.path]
                by_owner = tuple((epoch, *amounts) for epoch, amounts in sorted(owners.items()))
                marks[name] = InQuarantine(
                    quarantine.reason, quarantine.since, *total(owners), by_owner
                )
        return marks


class WaitingTables(Mapping[str, "Waiting"]):
    """Tables that wait for a copy, by name (db.table). The mapping is replaced as a whole, so that
    any thread may read it."""

    def __init__(self) -> None:
        self._tables: dict[str, Waiting] = {}

    def __getitem__(self, name: str) -> Waiting:
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def load(self, cut: Cut | None, copied: Container[str]) -> None:
        """Load the waiting tables of the cut from which the applier continues, without those that
        were ``copied`` after it."""
        waiting = cut.waiting if cut else {}
        self._tables = {name: why for name, why in waiting.items() if name not in copied}

    def add(self, name: str, why: Waiting) -> None:
        """Add a table. If a table already waits, it keeps its first reason."""
        self._tables = {name: why, **self._tables}

    def drop(self, names: Iterable[str]) -> None:
        gone = set(names)
        self._tables = {name: why for name, why in self._tables.items() if name not in gone}

    def rename(self, before: str, after: str) -> None:
        tables = dict(self._tables)
        if why := tables.pop(before, None):
            tables[after] = why
        self._tables = tables
