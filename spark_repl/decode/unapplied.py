"""What a worker does not apply: tables whose rows are left out, by name or by the filters."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..rules.replication_filters import ReplicationFilters
from ..sql.case_folding import fold
from ..tables.table_definition import UNREAD
from .packed_tables import Packing

if TYPE_CHECKING:
    from ..rules.rewrites import Rewrites
    from ..tables.table_definition import TableDefinition


@dataclass(frozen=True)
class Unapplied(Container[str]):
    """``tables`` wait, or are of an online tool; ``filters`` leave out the others. ``asked``: what
    they have said, as a log names a table once for each transaction."""

    tables: frozenset[str] = frozenset()
    filters: ReplicationFilters = field(default_factory=ReplicationFilters)
    asked: dict[str, bool] = field(default_factory=dict)
    kinds: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __contains__(self, name: object) -> bool:
        return name in self.tables or self.filtered(str(name))

    def filtered(self, name: str) -> bool:
        """Whether filters leave the table's rows out. Raises SettingError where that depends on
        what is not known of the source's names."""
        if not self.filters.any:
            return False
        if (known := self.asked.get(name)) is None:
            self.filters.check_letters(name, rows=True)
            known = self.asked[name] = not self.filters.keeps(name)
        return known

    def deciding(self, name: str) -> tuple[str, ...]:
        """The kinds of rules that decide about the table's rows."""
        if not self.filters.any:
            return ()
        if (known := self.kinds.get(name)) is None:
            known = self.kinds[name] = self.filters.kinds(name)
        return known


class KnownTables(Mapping[str, "TableDefinition"]):
    """Definitions by the names in the log; UNREAD of what is not applied, but for ``parents``,
    by names in lower case: which of their changes a foreign key carries on into what is kept has
    to be seen. ``packing``: what has packed them for other groups' workers."""

    def __init__(
        self,
        known: Mapping[str, TableDefinition],
        unapplied: Unapplied,
        parents: Container[str] = (),
        packing: Packing | None = None,
    ) -> None:
        self._known, self._unapplied, self._parents = known, unapplied, parents
        self._packing = packing or Packing()

    def __getitem__(self, name: str) -> TableDefinition:
        name = self._unapplied.filters.rewrites.table(name)
        if name in self._unapplied and fold(name) not in self._parents:
            return UNREAD
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def __reduce__(self) -> tuple[type[KnownTables], tuple[object, ...]]:
        packed = self._packing.packed(self._known)
        return KnownTables, (packed, self._unapplied, self._parents)


@dataclass(frozen=True)
class AllBut(Container[str]):
    """Every table but the one of that name."""

    name: str

    def __contains__(self, name: object) -> bool:
        return name != self.name


class Alone(Mapping[str, "TableDefinition"]):
    """One table, by its name in the target, of this definition where it is known; all others,
    by their names in the log, are UNREAD."""

    def __init__(self, name: str, definition: TableDefinition | None, rewrites: Rewrites) -> None:
        self._name, self._definition, self._rewrites = name, definition, rewrites

    def __getitem__(self, name: str) -> TableDefinition:
        if not self.is_of(name):
            return UNREAD
        if self._definition is None:
            raise KeyError(name)
        return self._definition

    def is_of(self, logged: str) -> bool:
        """Whether that is the table's name in the log."""
        return self._rewrites.table(logged) == self._name

    def __iter__(self) -> Iterator[str]:
        return iter([self._name])

    def __len__(self) -> int:
        return 1
