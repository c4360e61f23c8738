"""QuarantinedTables: the tables that stand still, because a change of theirs can't be applied, and
what is kept of them meanwhile. By path: a copy, or another table of the name, is not meant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...control.cut import InQuarantine
from ...control.quarantine_store import total

if TYPE_CHECKING:
    from ...control.quarantine import Quarantine
    from ...control.quarantine_store import KeptTransactions
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
