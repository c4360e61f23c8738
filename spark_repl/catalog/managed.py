"""The tables that Unity Catalog manages, from the configuration."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ..delta.managed.managed_tables import ManagedTables
from ..delta.managed.unity_catalog import ManagedName, UnityCatalog
from ..source.account import secret_of
from .naming import Naming

if TYPE_CHECKING:
    from ..config import Config


def managed_tables(config: Config) -> ManagedTables | None:
    """Return the tables that the configured catalog manages, None if it manages none."""
    catalog = config.catalog
    if not catalog.managed:
        return None
    naming = Naming.of(config)
    places = catalog.token_env, catalog.token_file, catalog.token_command

    def name_of(table: str) -> ManagedName:
        name = naming.name_of(table)
        return ManagedName(catalog.name, name.schema, name.table)

    unity = UnityCatalog(catalog.uri, partial(secret_of, "catalog.token", *places))
    return ManagedTables(unity, name_of)
