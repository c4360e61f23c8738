"""Rules of the configuration that are about nothing on the source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..binlog.definition import SYSTEM_SCHEMAS
from ..binlog.table_name import database_of, plain_name, table_name
from ..config.wildcards import fits
from ..ddl.filters import ReplicationFilters
from ..ddl.lower_names import fold
from ..ddl.table_rules import TableRules
from .source_tables import Query, case_of_names

if TYPE_CHECKING:
    from ..config import Config

_SYSTEM = ", ".join(f"'{name}'" for name in sorted(SYSTEM_SCHEMAS))


def unmet_on(query: Query, config: Config) -> list[str]:
    """``unmet`` of the tables and databases that the source has now."""
    listed = query(
        "SELECT table_schema, table_name FROM information_schema.tables"
        f" WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ({_SYSTEM})"
    )
    names = [table_name(str(database), str(table)) for database, table in listed]
    filters, rules = ReplicationFilters.of(config), TableRules(config.tables)
    if case_of_names(query) > 0:
        names = [fold(name) for name in names]
        filters, rules = filters.folded(), rules.folded()
    return list(unmet(names, filters, rules))


def unmet(tables: Iterable[str], filters: ReplicationFilters, rules: TableRules) -> Iterator[str]:
    """A sentence for each entry that fits none of the source's ``tables`` (db.table)."""
    logged = [*tables]
    databases = {database_of(name) for name in logged}
    for old, new in filters.rewrites.pairs:
        if old not in databases:
            yield f"filters.rewrite_db {old}->{new}: the source has no table in {old}"
    own = [filters.rewrites.table(name) for name in logged]
    asked = [filters.rewrites.rewritten(name) for name in logged]
    databases, names = {database_of(name) for name in asked}, {plain_name(name) for name in asked}
    for kind, entries in filters.entries():
        for entry in entries if kind != "rewrite_db" else ():
            if kind.startswith("wild"):
                met = any(fits(entry, name) for name in names)
            else:
                met = entry in (databases if kind.endswith("_db") else names)
            if not met:
                yield f"filters.{kind} {entry} fits nothing on the source"
    met_rules = {rules.of_table(name).match for name in own if filters.keeps(name)}
    for number, rule in enumerate(rules.rules, 1):
        if rule.match not in met_rules:
            yield f"tables[{number}].match {rule.match} decides about no table of the source"
