"""WaitingTables: tables that no cut shows until a copy of them is made, because the log doesn't say
what a statement made of their rows. Until then rows and statements are passed over that are theirs
alone: the copy is read behind all of them. A cut keeps them, so that a crash before it changes
nothing."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...control.cut import Cut, Waiting


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
