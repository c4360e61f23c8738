"""Naming: the names of tables in the catalog, from the templates of ``[catalog]``.

A catalog's name has lower-case ASCII letters, digits and ``_`` only: Spark accepts no other name in
a Hive metastore, which does not distinguish case. Other characters become ``_``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..tables.table_name import parts_of
from .entry import EntryName

if TYPE_CHECKING:
    from ..config import Config

_OTHER = re.compile(r"[^a-z0-9_]")


@dataclass(frozen=True)
class Naming:
    """Names of tables. ``schema``, ``table``: templates with {database}, {table} and {channel};
    ``names``: table -> its entry's name, over the templates."""

    schema: str = "{database}"
    table: str = "{table}"
    channel: str = "default"
    names: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, config: Config) -> Naming:
        catalog = config.catalog
        return cls(catalog.schema, catalog.table, config.channel, catalog.mapping())

    def exact(self, name: str) -> tuple[str, str]:
        """Return (schema, table) of the table ``name`` (``db.table``), with characters that a
        catalog does not accept."""
        if mapped := self.names.get(name):
            schema, _, entry = mapped.partition(".")
            return schema, entry
        database, table = parts_of(name)
        values = {"database": database, "table": table, "channel": self.channel}
        return self.schema.format(**values), self.table.format(**values)

    def name_of(self, name: str) -> EntryName:
        """Return the entry's name of the table ``name``."""
        return EntryName(*map(accepted, self.exact(name)))

    def assign(self, tables: Iterable[str]) -> tuple[dict[EntryName, str], dict[EntryName, str]]:
        """Return (entry's name -> table, ambiguous name -> its tables as text). If several tables
        would have one name, the table that has it without replaced characters has it; if there is
        none, no table has it."""
        by_name: dict[EntryName, list[str]] = {}
        for table in sorted(tables):
            by_name.setdefault(self.name_of(table), []).append(table)
        assigned, ambiguous = dict[EntryName, str](), dict[EntryName, str]()
        for name, sharing in by_name.items():
            exact = [table for table in sharing if self.exact(table) == (name.schema, name.table)]
            if len(sharing) == 1 or len(exact) == 1:
                assigned[name] = (exact or sharing)[0]
            if len(sharing) > 1:
                ambiguous[name] = ", ".join(sharing)
        return assigned, ambiguous


def accepted(name: str) -> str:
    """Return a name in the characters that a catalog accepts."""
    return _OTHER.sub("_", name.lower())
