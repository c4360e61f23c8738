"""Packed tables: definitions of many tables on their way to workers, each pickled once for all
groups, and unpickled where it is asked for: of a thousand a group has ten."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..tables.table_definition import TableDefinition


class PackedTables(Mapping[str, "TableDefinition"]):
    """``packed``: pickled definitions by name."""

    def __init__(self, packed: Mapping[str, bytes]) -> None:
        self.packed = packed
        self._unpacked: dict[str, TableDefinition] = {}

    def __getitem__(self, name: str) -> TableDefinition:
        if (known := self._unpacked.get(name)) is None:
            known = self._unpacked[name] = pickle.loads(self.packed[name])
        return known

    def __iter__(self) -> Iterator[str]:
        return iter(self.packed)

    def __len__(self) -> int:
        return len(self.packed)

    def __reduce__(self) -> tuple[type[PackedTables], tuple[Mapping[str, bytes]]]:
        return PackedTables, (self.packed,)


class Packing:
    """Packs tables; those that are the same objects as the last time are packed already."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[TableDefinition, bytes]] = {}

    def packed(self, tables: Mapping[str, TableDefinition]) -> PackedTables:
        if isinstance(tables, PackedTables):
            return tables
        last, now = self._last, dict[str, tuple["TableDefinition", bytes]]()
        for name, one in tables.items():
            before = last.get(name)
            same = before is not None and before[0] is one
            now[name] = before if before and same else (one, pickle.dumps(one, -1))
        self._last = now
        return PackedTables({name: data for name, (_, data) in now.items()})
