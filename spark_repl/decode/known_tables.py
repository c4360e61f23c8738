"""Tables that a worker knows: which it ignores, and the definitions of the others.

Definitions are needed for logs whose TABLE_MAP events name no columns.

A task carries the definitions of all tables, but a group uses few: about ten of a thousand. Each
definition is therefore pickled once for all groups, and a worker unpickles only those that it looks
up.
"""

from __future__ import annotations

import pickle
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..rules.replication_filters import ReplicationFilters
from ..tables.case_folding import fold
from ..tables.source_table import Declared, SourceTable, Unapplied

if TYPE_CHECKING:
    from ..rules.rewrites import Rewrites
    from ..tables.source_table import SourceTable


@dataclass(frozen=True)
class IgnoredTables(Container[str]):
    """A container of the names of tables that are not applied.

    ``tables``: tables in quarantine and tables of online schema-change tools. For all other tables,
    ``filters`` decide. ``decisions`` and ``kinds`` cache the filters' results by table, because
    each transaction names its tables.
    """

    tables: frozenset[str] = frozenset()
    filters: ReplicationFilters = field(default_factory=ReplicationFilters)
    decisions: dict[str, bool] = field(default_factory=dict)
    kinds: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __contains__(self, name: object) -> bool:
        return name in self.tables or self.filtered(str(name))

    def filtered(self, name: str) -> bool:
        """Return whether filters leave out the table's rows.

        Raise SettingError if the result depends on the source's lower_case_table_names, which is
        not known.
        """
        if not self.filters.any:
            return False
        if (ignored := self.decisions.get(name)) is None:
            self.filters.check_letters(name, rows=True)
            ignored = self.decisions[name] = not self.filters.keeps(name)
        return ignored

    def deciding(self, name: str) -> tuple[str, ...]:
        """Return the kinds of rules that decide about the table's rows."""
        if not self.filters.any:
            return ()
        if (kinds := self.kinds.get(name)) is None:
            kinds = self.kinds[name] = self.filters.kinds(name)
        return kinds


@dataclass(frozen=True)
class AllTablesExcept(Container[str]):
    """A container of every table's name except one."""

    name: str

    def __contains__(self, name: object) -> bool:
        return name != self.name


class KnownTables(Mapping[str, "Declared"]):
    """Definitions by the tables' names in the log; ``Unapplied.UNREAD`` for ignored tables.

    An ignored table in ``parents`` (names in lower case) still has its definition, because the
    worker needs it to detect changes that a foreign key cascades to applied tables. ``packer``:
    pickles the definitions; groups share it.
    """

    def __init__(
        self,
        definitions: Mapping[str, Declared],
        ignored: IgnoredTables,
        parents: Container[str] = (),
        packer: TablePacker | None = None,
    ) -> None:
        self._definitions, self._ignored, self._parents = definitions, ignored, parents
        self._packer = packer or TablePacker()

    def __getitem__(self, name: str) -> Declared:
        name = self._ignored.filters.rewrites.table(name)
        if name in self._ignored and fold(name) not in self._parents:
            return Unapplied.UNREAD
        return self._definitions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._definitions)

    def __len__(self) -> int:
        return len(self._definitions)

    def __reduce__(self) -> tuple[type[KnownTables], tuple[object, ...]]:
        packed = self._packer.pack(self._definitions)
        return KnownTables, (packed, self._ignored, self._parents)


class OnlyTable(Mapping[str, "Declared"]):
    """A mapping in which every table except one is ``Unapplied.UNREAD``.

    ``name``: the table's name in the target. ``definition``: its definition, or None if no
    statement and no copy has declared it. Lookups use names in the log.
    """

    def __init__(self, name: str, definition: SourceTable | None, rewrites: Rewrites) -> None:
        self._name, self._definition, self._rewrites = name, definition, rewrites

    def __getitem__(self, name: str) -> Declared:
        if not self.is_logged_as(name):
            return Unapplied.UNREAD
        if self._definition is None:
            raise KeyError(name)
        return self._definition

    def is_logged_as(self, logged: str) -> bool:
        """Return whether the log calls the table ``logged``."""
        return self._rewrites.table(logged) == self._name

    def __iter__(self) -> Iterator[str]:
        return iter([self._name])

    def __len__(self) -> int:
        return 1


class PackedTables(Mapping[str, "Declared"]):
    """Pickled definitions by name, each unpickled when it is looked up."""

    def __init__(self, packed: Mapping[str, bytes]) -> None:
        self.packed = packed
        self._unpacked: dict[str, Declared] = {}

    def __getitem__(self, name: str) -> Declared:
        if (definition := self._unpacked.get(name)) is None:
            definition = self._unpacked[name] = pickle.loads(self.packed[name])
        return definition

    def __iter__(self) -> Iterator[str]:
        return iter(self.packed)

    def __len__(self) -> int:
        return len(self.packed)

    def __reduce__(self) -> tuple[type[PackedTables], tuple[Mapping[str, bytes]]]:
        return PackedTables, (self.packed,)


class TablePacker:
    """Pickles definitions, and reuses the bytes of every object that it pickled in the previous
    call."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[Declared, bytes]] = {}

    def pack(self, tables: Mapping[str, Declared]) -> PackedTables:
        """Return the pickled definitions of ``tables``."""
        if isinstance(tables, PackedTables):
            return tables
        last, now = self._last, dict[str, tuple["Declared", bytes]]()
        for name, table in tables.items():
            before = last.get(name)
            same = before is not None and before[0] is table
            now[name] = before if before and same else (table, pickle.dumps(table, -1))
        self._last = now
        return PackedTables({name: data for name, (_, data) in now.items()})
