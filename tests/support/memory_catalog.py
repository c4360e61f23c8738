"""A catalog in memory, which refuses, and loses answers, on request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from spark_repl.catalog.entry import CatalogEntry, EntryName
from spark_repl.catalog.session_catalog import NO_PROPERTIES
from spark_repl.errors import CatalogError


@dataclass
class MemoryCatalog:
    """``requests``: the names of the methods that were called. ``away``: whether each call fails.
    ``lost``: the number of calls whose work is done and whose answer is lost."""

    tables: dict[EntryName, CatalogEntry] = field(default_factory=dict)
    created: dict[str, dict[str, str]] = field(default_factory=lambda: {"default": {}})
    """schema -> its properties"""
    requests: list[str] = field(default_factory=list)
    away: bool = False
    lost: int = 0

    def schemas(self) -> list[str]:
        self._request("schemas")
        return sorted(self.created)

    def entries(self, schema: str, tables: Sequence[str] | None = None) -> list[CatalogEntry]:
        self._request("entries")
        of_schema = [entry for name, entry in self.tables.items() if name.schema == schema]
        return [entry for entry in of_schema if tables is None or entry.name.table in tables]

    def create_schema(self, schema: str, properties: Mapping[str, str] = NO_PROPERTIES) -> None:
        self._request("create_schema")
        self.created.setdefault(schema, dict(properties))
        self._answer()

    def schema_properties(self, schema: str) -> dict[str, str] | None:
        self._request("schema_properties")
        properties = self.created.get(schema)
        return None if properties is None else dict(properties)

    def set_schema_properties(self, schema: str, properties: Mapping[str, str]) -> None:
        self._request("set_schema_properties")
        self.created[schema] |= properties
        self._answer()

    def drop_schema(self, schema: str) -> None:
        self._request("drop_schema")
        if any(name.schema == schema for name in self.tables):
            raise CatalogError(f"{schema} is not empty")
        self.created.pop(schema, None)
        self._answer()

    def create(self, entry: CatalogEntry) -> None:
        self._request("create")
        if entry.name.schema not in self.created or entry.name in self.tables:
            raise CatalogError(f"can't create {entry.name}")
        self.tables[entry.name] = entry
        self._answer()

    def replace(self, entry: CatalogEntry) -> None:
        self._request("replace")
        self.tables[entry.name] = replace(entry)
        self._answer()

    def drop(self, name: EntryName) -> None:
        self._request("drop")
        self.tables.pop(name, None)
        self._answer()

    @property
    def locations(self) -> dict[str, str]:
        """Return the location of each entry by its name."""
        return {str(name): entry.location for name, entry in sorted(self.tables.items())}

    def _request(self, name: str) -> None:
        self.requests.append(name)
        if self.away:
            raise CatalogError("the catalog is away")

    def _answer(self) -> None:
        if self.lost:
            self.lost -= 1
            raise CatalogError("the answer is lost")
