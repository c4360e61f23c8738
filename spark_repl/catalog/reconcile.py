"""Reconcile: the difference between the entries that a cut wants and those that a catalog has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .entry import CatalogEntry, EntryName, EntryOwner


@dataclass(frozen=True)
class Difference:
    """What makes a catalog equal to a cut.

    ``create``: missing entries. ``replace``: own entries that have another location. ``drop``: own
    entries that the cut no longer names. ``foreign``: names that the cut wants, and that belong to
    another writer's table.
    """

    create: tuple[CatalogEntry, ...] = ()
    replace: tuple[CatalogEntry, ...] = ()
    drop: tuple[EntryName, ...] = ()
    foreign: tuple[EntryName, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether the catalog needs no change."""
        return not (self.create or self.replace or self.drop)


def reconcile(
    wanted: Mapping[EntryName, CatalogEntry],
    existing: Mapping[EntryName, CatalogEntry],
    owner: EntryOwner,
) -> Difference:
    """Return the difference. An entry of another owner, or of none, is neither changed nor dropped;
    if it is the wanted table itself, it needs no change."""
    create, replace, foreign = list[CatalogEntry](), list[CatalogEntry](), list[EntryName]()
    for name, entry in sorted(wanted.items()):
        present = existing.get(name)
        if present is None:
            create.append(entry)
        elif present.has_owner(owner):
            if not present.is_at(entry.location) or present.properties != entry.properties:
                replace.append(entry)
        elif not present.is_at(entry.location):
            foreign.append(name)
    gone = existing.keys() - wanted.keys()
    drop = tuple(name for name in sorted(gone) if existing[name].has_owner(owner))
    return Difference(tuple(create), tuple(replace), drop, tuple(foreign))
