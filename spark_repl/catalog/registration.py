"""TableRegistration: registers the tables of a cut in a catalog."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..control.table.cut import reader_tables
from ..errors import Stopped
from ..observe.reports.applier_status import Notice
from .entry import CatalogEntry, EntryName, EntryOwner
from .reconcile import Difference, reconcile
from .session_catalog import drop_own

if TYPE_CHECKING:
    from ..control.table.cut import Cut, TableVersion
    from ..control.table.layout import Layout
    from .naming import Naming
    from .session_catalog import CatalogClient

logger = logging.getLogger(__name__)

_LISTED_MAX = 5
"""names that a notice lists"""


@dataclass(frozen=True)
class WantedEntries:
    """The entries that a cut wants. ``waiting``: names of tables that wait for a copy, whose
    entries stay as they are. ``ambiguous``: names that several tables would have."""

    entries: Mapping[EntryName, CatalogEntry]
    waiting: Collection[EntryName]
    ambiguous: Mapping[EntryName, str]


class TableRegistration:
    """A ``CatalogTask``: one entry for each table of the cut, under the names of ``naming``.

    ``earlier`` returns the names of tables of earlier cuts: their schemas may have entries that are
    no longer wanted. ``former``: owners whose entries are taken for this owner's.
    ``other_channels`` returns the name and the newest cut of each channel that may feed the same
    tables and registers them.
    """

    every_s = 0.0

    def __init__(
        self,
        layout: Layout,
        naming: Naming,
        owner: EntryOwner,
        earlier: Callable[[], Iterable[str]] = tuple,
        former: Collection[EntryOwner] = (),
        other_channels: Callable[[], Iterable[tuple[str, Cut]]] = tuple,
    ) -> None:
        self._layout, self._naming, self.owner = layout, naming, owner
        self._earlier, self._former, self._other_channels = earlier, former, other_channels
        self._registered: dict[EntryName, CatalogEntry] | None = None
        self._last_state: object = None  # paths by name, and waiting tables, of the last cut
        self._last_wanted: WantedEntries | None = None

    def wanted(self, cut: Cut) -> WantedEntries:
        """Return the entries that the cut wants; equal entries need no request."""
        tables = reader_tables(cut)
        state = {name: table.path for name, table in tables.items()}, {*cut.waiting}
        if state == self._last_state and self._last_wanted is not None:
            return self._last_wanted
        self._last_wanted = self._wanted(tables, cut)
        self._last_state = state
        return self._last_wanted

    def _wanted(self, tables: Mapping[str, TableVersion], cut: Cut) -> WantedEntries:
        names, ambiguous = self._naming.assign(tables)
        entries = {
            name: CatalogEntry(
                name, self._layout.table(tables[table].path),
                properties=self.owner.properties(table),
            )
            for name, table in names.items()
        }  # fmt: skip
        waiting = frozenset(map(self._naming.name_of, cut.waiting)) - entries.keys()
        return WantedEntries(entries, waiting, ambiguous)

    def carry_out(
        self, catalog: CatalogClient, cut: Cut, is_stopping: Callable[[], bool] = bool
    ) -> list[Notice]:
        """Make the catalog equal to the cut; return what is not registered, and why. Raise
        CatalogError, and Stopped. After an error the next call reads all entries again."""
        wanted, before = self.wanted(cut), self._registered
        self._registered = None
        if before is None:
            difference = self.difference(catalog, cut)
        else:
            after = wanted.entries
            changed = {n for n in before.keys() | after if before.get(n) != after.get(n)}
            existing = _entries(catalog, changed)
            entries = {name: after[name] for name in changed if name in after}
            difference = self._reconciled(entries, existing, wanted.waiting)
        apply_difference(catalog, difference, self.owner, is_stopping)
        self._drop_if_gone(catalog, difference.replace)
        # Foreign names, and those of tables that wait, are looked at again with the next change.
        registered = {name: CatalogEntry(name, "") for name in wanted.waiting}
        registered |= {n: e for n, e in wanted.entries.items() if n not in difference.foreign}
        self._registered = registered
        return _notices(difference.foreign, wanted.ambiguous)

    def difference(
        self, catalog: CatalogClient, cut: Cut, schemas: Iterable[str] = ()
    ) -> Difference:
        """Return the difference between the catalog and the cut. Entries that are no longer wanted
        are looked for also in ``schemas``. Raise CatalogError."""
        wanted = self.wanted(cut)
        schemas = {*schemas} | {name.schema for name in wanted.entries}
        schemas |= {self._naming.name_of(table).schema for table in self._earlier()}
        existing = {
            entry.name: self._adopted(entry)
            for schema in sorted(schemas)
            for entry in catalog.entries(schema)
        }
        return self._reconciled(wanted.entries, existing, wanted.waiting)

    def _reconciled(
        self,
        entries: Mapping[EntryName, CatalogEntry],
        existing: Mapping[EntryName, CatalogEntry],
        waiting: Collection[EntryName],
    ) -> Difference:
        """Return the difference without drops of entries whose tables wait for a copy. If another
        channel feeds an entry's table, that channel becomes the owner, instead of a drop."""
        difference = reconcile(entries, existing, self.owner)
        gone = [name for name in difference.drop if name not in waiting]
        wanted = self._wanted_by_other_channels() if gone else {}
        given = {n: e for n in gone if (e := _at(existing[n], wanted.get(n, ()))) is not None}
        return replace(
            difference,
            replace=(*difference.replace, *given.values()),
            drop=tuple(name for name in gone if name not in given),
        )

    def _drop_if_gone(self, catalog: CatalogClient, entries: Iterable[CatalogEntry]) -> None:
        """Drop each entry that was given to a channel whose newest cut lacks the table, or give it
        to another channel that feeds the table. The first channel has dropped the table meanwhile,
        and has left the entry, which this channel still owned. Raise CatalogError."""
        given = [entry for entry in entries if not entry.has_owner(self.owner)]
        while given:
            wanted, left = self._wanted_by_other_channels(), given
            given = []
            for entry in left:
                owners = wanted.get(entry.name, [])
                if entry in owners:
                    continue
                if (other := _at(entry, owners)) is None:
                    drop_own(catalog, entry.name, entry.has_same_marks)
                elif any(map(entry.has_same_marks, _entries(catalog, [entry.name]).values())):
                    catalog.replace(other)
                    given.append(other)

    def _wanted_by_other_channels(self) -> dict[EntryName, list[CatalogEntry]]:
        """Return the entries that other channels want, by name, each with that channel as its
        owner."""
        entries: dict[EntryName, list[CatalogEntry]] = {}
        for channel, cut in self._other_channels():
            tables, owner = reader_tables(cut), EntryOwner(self.owner.target, channel)
            for name, table in replace(self._naming, channel=channel).assign(tables)[0].items():
                location = self._layout.table(tables[table].path)
                entry = CatalogEntry(name, location, properties=owner.properties(table))
                entries.setdefault(name, []).append(entry)
        return entries

    def _adopted(self, entry: CatalogEntry) -> CatalogEntry:
        """Return the entry as this owner's, if it is of a former one."""
        if not any(entry.has_owner(former) for former in self._former):
            return entry
        return replace(entry, properties=self.owner.properties(""))


def _at(entry: CatalogEntry, candidates: Iterable[CatalogEntry]) -> CatalogEntry | None:
    """Return the first of ``candidates`` that is at the entry's location, or None."""
    return next((other for other in candidates if entry.is_at(other.location)), None)


def _entries(catalog: CatalogClient, names: Iterable[EntryName]) -> dict[EntryName, CatalogEntry]:
    """Return those of ``names`` that the catalog has."""
    by_schema: dict[str, list[str]] = {}
    for name in sorted(names):
        by_schema.setdefault(name.schema, []).append(name.table)
    return {
        entry.name: entry
        for schema, tables in by_schema.items()
        for entry in catalog.entries(schema, tables)
    }


def apply_difference(
    catalog: CatalogClient,
    difference: Difference,
    owner: EntryOwner,
    is_stopping: Callable[[], bool] = bool,
) -> None:
    """Carry out the difference: first what is missing, then what is not wanted, so that a renamed
    table always has a name. Raise CatalogError, and Stopped between two requests."""

    def check() -> None:
        if is_stopping():
            raise Stopped

    for schema in sorted({entry.name.schema for entry in difference.create}):
        catalog.create_schema(schema)
    for entry in difference.create:
        check()
        catalog.create(entry)
    for entry in difference.replace:
        check()
        catalog.replace(entry)
    for name in difference.drop:
        check()
        drop_own(catalog, name, lambda entry: entry.has_owner(owner))
    if not difference.is_empty:
        logger.info(
            "the catalog: %d tables registered, %d moved, %d dropped",
            len(difference.create), len(difference.replace), len(difference.drop),
        )  # fmt: skip


def _notices(foreign: Collection[EntryName], ambiguous: Mapping[EntryName, str]) -> list[Notice]:
    notices = []
    if foreign:
        notices.append(
            Notice(
                f"the catalog has other tables under these names: {listed(map(str, foreign))}",
                "rename or drop them, or give the replicated tables other names (catalog.schema,"
                " catalog.table, catalog.names)",
            )
        )
    if ambiguous:
        shared = (f"{name} ({tables})" for name, tables in sorted(ambiguous.items()))
        notices.append(
            Notice(
                f"several tables would have one name in the catalog: {listed(shared)}",
                "give them other names: catalog.names",
            )
        )
    return notices


def listed(names: Iterable[str]) -> str:
    """Return the first names, and how many more there are, for a notice."""
    names = list(names)
    more = len(names) - _LISTED_MAX
    return ", ".join(names[:_LISTED_MAX]) + (f" and {more} more" if more > 0 else "")
