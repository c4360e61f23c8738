"""Tables whose rows a worker does not apply, by name or by the replication filters."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

from ..rules.replication_filters import ReplicationFilters


@dataclass(frozen=True)
class IgnoredTables(Container[str]):
    """A container of the names of tables that are not applied.

    ``tables``: tables in quarantine and tables of online schema change tools. ``filters`` decide
    about all others. ``decisions`` and ``kinds`` cache the filters' answers by table, because a log
    names a table once in each transaction.
    """

    tables: frozenset[str] = frozenset()
    filters: ReplicationFilters = field(default_factory=ReplicationFilters)
    decisions: dict[str, bool] = field(default_factory=dict)
    kinds: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __contains__(self, name: object) -> bool:
        return name in self.tables or self.filtered(str(name))

    def filtered(self, name: str) -> bool:
        """Return whether filters leave out the table's rows.

        Raises SettingError if the answer depends on lower_case_table_names of the source, and
        that is not known.
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
    """A container of every table's name but one."""

    name: str

    def __contains__(self, name: object) -> bool:
        return name != self.name
