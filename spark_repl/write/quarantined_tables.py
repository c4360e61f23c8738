"""QuarantinedTables: the tables that stand still, because a change of theirs can't be applied, and
what is kept of them meanwhile. By path: a copy, or another table of the name, is not meant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..control.cut import InQuarantine

if TYPE_CHECKING:
    from ..control.quarantine import Quarantine
    from ..control.quarantine_store import KeptTransactions
    from .table import Table


class QuarantinedTables:
    """Replaced as a whole, so that any thread may look."""

    def __init__(self) -> None:
        self._by_path: dict[str, tuple[Quarantine, int, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_path)

    def add(self, quarantine: Quarantine, *kept: KeptTransactions) -> None:
        """``kept``: what there is of it already."""
        held = sum(len(one.sizes) for one in kept), sum(one.bytes for one in kept)
        self._by_path = {**self._by_path, quarantine.path: (quarantine, *held)}

    def count(self, path: str, kept: KeptTransactions) -> None:
        """More is kept of the table at ``path``."""
        quarantine, transactions, size = self._by_path[path]
        more = quarantine, transactions + len(kept.sizes), size + kept.bytes
        self._by_path = {**self._by_path, path: more}

    def drop(self, path: str) -> None:
        self._by_path = {other: one for other, one in self._by_path.items() if other != path}

    def totals(self, tables: Mapping[str, Table]) -> tuple[int, int]:
        """Return (transactions, their bytes in the log) that are kept of all ``tables``. Those that
        were dropped, or replaced by a copy, do not count any more."""
        paths = {table.path for table in dict(tables).values()}
        held = [one for path, one in self._by_path.items() if path in paths]
        return sum(count for _, count, _ in held), sum(size for _, _, size in held)

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
                one, transactions, size = self._by_path[table.path]
                marks[name] = InQuarantine(one.reason, one.since, transactions, size)
        return marks
