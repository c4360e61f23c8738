"""Unmet rules: rules of the configuration that match no table or column of the source."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from ..config.renaming import halves, letters
from ..config.rules import nearest
from ..config.wildcards import fits, lacks_wildcards
from ..rules.replication_filters import ReplicationFilters
from ..rules.table_rules import TableRules
from ..tables.case_folding import fold
from ..tables.table_definition import SYSTEM_SCHEMAS
from ..tables.table_name import database_of, plain_name, table_name
from .source_tables import Query, case_of_names

if TYPE_CHECKING:
    from ..config import Config
    from ..config.tables import TableRule

_SYSTEM = ", ".join(f"'{name}'" for name in sorted(SYSTEM_SCHEMAS))


def unmet_on(query: Query, config: Config) -> list[str]:
    """Return the sentences of ``unmet`` and ``unmet_columns`` for the source's current tables and
    databases."""
    listed = query(
        "SELECT table_schema, table_name FROM information_schema.tables"
        f" WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ({_SYSTEM})"
    )
    names = [table_name(str(database), str(table)) for database, table in listed]
    filters, rules = ReplicationFilters.of(config), TableRules(config.tables)
    folds = case_of_names(query) > 0
    if folds:
        names = [fold(name) for name in names]
        filters, rules = filters.folded(), rules.folded()
    texts = list(unmet(names, filters, rules))
    if any(_of_columns(rule) for rule in rules.rules):
        columns = _columns(query, folds=folds)
        texts += unmet_columns({name: columns.get(name, ()) for name in names}, filters, rules)
    return texts


def _columns(query: Query, *, folds: bool) -> dict[str, list[str]]:
    """Return the columns of the source's tables and views, by table."""
    columns: dict[str, list[str]] = {}
    for database, table, column in query(
        "SELECT table_schema, table_name, column_name FROM information_schema.columns"
        f" WHERE table_schema NOT IN ({_SYSTEM})"
    ):
        name = table_name(str(database), str(table))
        columns.setdefault(fold(name) if folds else name, []).append(str(column))
    return columns


def unmet(tables: Iterable[str], filters: ReplicationFilters, rules: TableRules) -> Iterator[str]:
    """Yield a sentence for each entry that matches none of the source's ``tables`` (db.table)."""
    logged = [*tables]
    databases = {database_of(name) for name in logged}
    for old, new in filters.rewrites.pairs:
        if old not in databases:
            near = _nearest(old, databases)
            yield f"filters.rewrite_db {old}->{new}: the source has no table in {old}{near}"
    own = [filters.rewrites.table(name) for name in logged]
    rewritten = [filters.rewrites.rewritten(name) for name in logged]
    databases, names = (
        {database_of(name) for name in rewritten},
        {plain_name(name) for name in rewritten},
    )
    for kind, entries in filters.entries():
        for entry in entries if kind != "rewrite_db" else ():
            if kind.startswith("wild"):
                met, near = any(fits(entry, name) for name in names), _like(entry, names)
            else:
                existing = databases if kind.endswith("_db") else names
                met, near = entry in existing, _nearest(entry, existing)
            if not met:
                yield f"filters.{kind} {entry} fits nothing on the source{near}"
    met_rules = {rules.of_table(name).match for name in own if filters.keeps(name)}
    for number, rule in enumerate(rules.rules, 1):
        if rule.match not in met_rules:
            fitting = any(fits(rule.match, name) for name in names)
            why = _TAKEN if fitting else _like(rule.match, names)
            yield f"tables[{number}].match {rule.match} decides about no table of the source{why}"


_TAKEN = ": rules before it, or the filters, have all that it fits"


def _like(pattern: str, names: Collection[str]) -> str:
    """Return a suggestion for a pattern that may misspell one of the ``names`` or their databases.
    A ``_`` in a pattern mostly means the letter; nothing is guessed for a ``%``."""
    whole, part = letters(pattern), halves(pattern)[0]
    if "" not in whole:
        return _nearest("".join(whole), names)
    databases = {name.partition(".")[0] for name in names}
    if "" in letters(part) or any(fits(part, database) for database in databases):
        return ""
    return _nearest("".join(letters(part)), databases)


def _nearest(name: str, names: Collection[str]) -> str:
    """Return the nearest name, with a high threshold: names of tables in one database begin
    alike."""
    return nearest(name, names, alike=0.7)


def _of_columns(rule: TableRule) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return (key, columns) that a rule names, whichever tables it matches."""
    masked = tuple(column for column, _ in rule.mask)
    given = ("include", rule.include), ("exclude", rule.exclude), ("mask", masked)
    return tuple((key, names) for key, names in given if names)


def unmet_columns(
    columns: Mapping[str, Collection[str]], filters: ReplicationFilters, rules: TableRules
) -> Iterator[str]:
    """Yield a sentence for each column in a pattern's rule that none of the matching tables has:
    its mask would never apply. ``columns``: the columns of each of the source's tables."""
    decided: dict[str, set[str]] = {}
    for name, own_columns in columns.items():
        own = filters.rewrites.table(name)
        if filters.keeps(own):
            decided.setdefault(rules.of_table(own).match, set()).update(own_columns)
    for number, rule in enumerate(rules.rules, 1):
        matched = decided.get(rule.match, set())
        lower = {column.lower() for column in matched}
        for key, named in _of_columns(rule) if matched and not lacks_wildcards(rule.match) else ():
            for column in named:
                if column.lower() not in lower:
                    yield (
                        f"tables[{number}].{key} names {column}, which no table of {rule.match}"
                        f" has{nearest(column, matched)}"
                    )
