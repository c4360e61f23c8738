"""ReplicationFilters: which databases and tables are applied, by MySQL's replication filter rules.

Rows are filtered by their own table. A statement is filtered twice, as on MySQL's replica: by the
default database of its session, then by the tables that it changes. The first of these tables that
a rule names decides (rpl_filter.cc: ``db_ok``, ``tables_ok``, ``db_ok_with_wild_table``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from ..config.wildcards import first_fitting
from ..tables.case_folding import fold, letter_case_error
from ..tables.table_name import database_of, plain_name
from .rewrites import Rewrites
from .table_routes import Entries, TableRoutes

if TYPE_CHECKING:
    from ..config import Config


@dataclass(frozen=True)
class ReplicationFilters:
    """Filter rules by MySQL's names, replicate_do_db and so on. Tables are "db.table"; wild ones
    have MySQL's ``%``, ``_`` and backslash. Without a rule everything is applied."""

    do_db: tuple[str, ...] = ()
    ignore_db: tuple[str, ...] = ()
    do_table: tuple[str, ...] = ()
    ignore_table: tuple[str, ...] = ()
    wild_do_table: tuple[str, ...] = ()
    wild_ignore_table: tuple[str, ...] = ()
    rewrite_db: tuple[str, ...] = ()
    """"from->to"; the other rules match the rewritten names"""
    to: Entries = ()
    """(match, to) of ``[[tables]]``: they filter nothing, but decide which table a name means"""
    folds: bool = False
    """whether all names are in lower case"""
    unsure: bool = False
    """whether it is not known yet if the source folds names"""

    @classmethod
    def of(cls, config: Config) -> ReplicationFilters:
        """Return the filters of a configuration, which has checked them."""
        to = TableRoutes.of(config.tables).trimmed().entries
        return replace(cls(to=to), **{kind: getattr(config.filters, kind) for kind in _KINDS})

    @classmethod
    def from_json(cls, text: str) -> ReplicationFilters:
        kinds: dict[str, Any] = {kind: tuple(listed) for kind, listed in json.loads(text).items()}
        return cls(**kinds | {"to": tuple(map(tuple, kinds.get("to", ())))})

    def to_json(self) -> str:
        entries = {k: sorted(set(v)) for k, v in self.entries() if v or k != "rewrite_db"}
        return json.dumps({**entries, "to": self.to} if self.to else entries, ensure_ascii=False)

    def entries(self) -> Iterable[tuple[str, tuple[str, ...]]]:
        """Return each of MySQL's kinds of rule with its entries."""
        return [(kind, getattr(self, kind)) for kind in _KINDS]

    @property
    def any(self) -> bool:
        """Return whether a rule leaves something out."""
        return any(entries for kind, entries in self.entries() if kind != "rewrite_db")

    @cached_property
    def rewrites(self) -> Rewrites:
        own = Rewrites.of(self.rewrite_db, self.to, folds=self.folds)
        return replace(own, lower=self.folded().rewrites) if self.unsure and own.any else own

    def folded(self) -> ReplicationFilters:
        """Return the filters for a source whose names are in lower case."""
        return _folded(self)

    def with_unknown_case(self) -> ReplicationFilters:
        """Return the filters for a source of which it is not yet known whether it folds names."""
        return _with_unknown_case(self)

    def check_letters(self, table: str, *, rows: bool = False) -> None:
        """Raise SettingError if it is not known whether the source folds names, and the rules'
        decision about the target's table depends on this. ``rows``: as in ``Rewrites``."""
        lower = fold(table)
        if not self.unsure or (rows and table != lower):
            return
        if self.keeps(table) != self.folded().keeps(lower):
            raise letter_case_error(table, "[filters]", "has not said yet whether")

    def keeps(self, table: str) -> bool:
        """Return whether rows of the table (db.table, in the target) are applied."""
        return self.keeps_default(self._database(table)) and self.keeps_tables((table,))

    def keeps_default(self, database: str) -> bool:
        """Return whether statements of sessions with that default database pass the database
        rules."""
        return self._database_rule(database)[0]

    def keeps_tables(self, tables: Iterable[str]) -> bool:
        """Return whether a statement that changes these tables, in the statement's order, is
        applied."""
        return self._table_rule(tables)[0]

    def keeps_database(self, database: str) -> bool:
        """Return whether CREATE, ALTER and DROP DATABASE are applied."""
        if self.do_db or self.ignore_db:
            return self.keeps_default(database)
        name = f"{database}."
        if first_fitting(self.wild_do_table, name):
            return True
        return not first_fitting(self.wild_ignore_table, name) and not self.wild_do_table

    def rule(self, table: str) -> str:
        """Return the rule that decides about a table's rows, as the configuration writes it."""
        passes, by_database = self._database_rule(self._database(table))
        if not passes:
            return by_database
        return self._table_rule((table,))[1] or by_database or "no rule names it"

    def kinds(self, table: str) -> tuple[str, ...]:
        """Return the kinds of the rules that decide about a table's rows."""
        passes, by_database = self._database_rule(self._database(table))
        reasons = [by_database, self._table_rule((table,))[1] if passes else ""]
        return tuple(word for text in reasons if (word := text.partition(" ")[0]) in _KINDS)

    def _database(self, table: str) -> str:
        return database_of(self.rewrites.routes.before(table))

    def _database_rule(self, database: str) -> tuple[bool, str]:
        if self.do_db:
            passes = database in self.do_db
            return passes, f"do_db {'has' if passes else 'lacks'} {database}"
        passes = database not in self.ignore_db
        return passes, "" if passes else f"ignore_db has {database}"

    def _table_rule(self, tables: Iterable[str]) -> tuple[bool, str]:
        any_table = False
        for name in map(plain_name, map(self.rewrites.routes.before, tables)):
            any_table = True
            if name in self.do_table:
                return True, f"do_table has {name}"
            if name in self.ignore_table:
                return False, f"ignore_table has {name}"
            if pattern := first_fitting(self.wild_do_table, name):
                return True, f"wild_do_table has {pattern}"
            if pattern := first_fitting(self.wild_ignore_table, name):
                return False, f"wild_ignore_table has {pattern}"
        if any_table and (self.do_table or self.wild_do_table):
            return False, "no do_table and no wild_do_table names it"
        return True, ""


_OTHERS = ("to", "folds", "unsure")
_KINDS = tuple(f.name for f in fields(ReplicationFilters) if f.name not in _OTHERS)


@cache
def _folded(filters: ReplicationFilters) -> ReplicationFilters:
    kinds = {kind: tuple(map(fold, listed)) for kind, listed in filters.entries()}
    to = tuple((fold(match), fold(to)) for match, to in filters.to)
    return replace(filters, **kinds, to=to, folds=True, unsure=False)


@cache
def _with_unknown_case(filters: ReplicationFilters) -> ReplicationFilters:
    return replace(filters, unsure=True)
