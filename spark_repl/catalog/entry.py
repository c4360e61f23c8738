"""CatalogEntry: a Delta table under a name in a catalog, and the mark of the applier that
registered it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

DELTA = "delta"
_TARGET, _CHANNEL, _SOURCE = "spark_repl.target", "spark_repl.channel", "spark_repl.table"


@dataclass(frozen=True, order=True, slots=True)
class EntryName:
    """A name in a catalog, in lower case, as the Hive metastore stores it."""

    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


@dataclass(frozen=True, slots=True)
class EntryOwner:
    """The applier that registers entries: its target's path, and its channel. An entry without the
    same owner is never changed."""

    target: str
    channel: str

    def properties(self, table: str) -> dict[str, str]:
        """Return the properties of an entry of this owner. ``table``: its name in the cut."""
        return {_TARGET: self.target, _CHANNEL: self.channel, _SOURCE: table}


@dataclass(frozen=True, slots=True)
class CatalogView:
    """A view. ``text``: its query; ``schema``: its columns, a struct type as Spark's JSON, which
    follows from the query."""

    text: str
    schema: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """An entry of a catalog. ``location``: the folder or URI of its table, "" if it has none (a
    view). ``properties``: the entry's own, which the catalog stores, not the table's."""

    name: EntryName
    location: str
    provider: str = DELTA
    properties: Mapping[str, str] = field(default_factory=dict)
    view: CatalogView | None = None

    def has_owner(self, owner: EntryOwner) -> bool:
        """Return whether this owner registered the entry."""
        properties = self.properties
        return (properties.get(_TARGET), properties.get(_CHANNEL)) == (owner.target, owner.channel)

    def has_same_marks(self, other: CatalogEntry) -> bool:
        """Return whether one owner registered both entries, for the same table of its cut."""
        return self.properties == other.properties

    def is_at(self, location: str) -> bool:
        """Return whether the entry is the Delta table at ``location``."""
        return self.provider == DELTA and plain_location(self.location) == plain_location(location)


def plain_location(location: str) -> str:
    """Return a location in one form: a local folder without ``file:``, no slash at the end."""
    if location.startswith("file:"):
        location = "/" + location.removeprefix("file:").lstrip("/")
    return location.rstrip("/")
