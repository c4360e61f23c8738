"""ReplicationFilters: which databases and tables are applied, by MySQL's replication filter rules.

Rows are asked about by their own table. A statement is asked about twice, as on MySQL's replica: by
the default database of its session, then by the tables that it changes, of which the first that a
rule names decides (rpl_filter.cc: ``db_ok``, ``tables_ok``, ``db_ok_with_wild_table``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from ..config.wildcards import first_fitting
from ..sql.case_folding import fold, letter_case_error
from ..tables.table_name import database_of, plain_name
from .rewrites import Rewrites
from .table_routes import Entries, TableRoutes

if TYPE_CHECKING:
    from ..config import Config


@dataclass(frozen=True)
class ReplicationFilters:
    """Rules by MySQL's names, replicate_do_db and so on; tables as "db.table", wild ones with its
    ``%``, ``_`` and backslash. No rule: everything is kept."""

    do_db: tuple[str, ...] = ()
    ignore_db: tuple[str, ...] = ()
    do_table: tuple[str, ...] = ()
    ignore_table: tuple[str, ...] = ()
    wild_do_table: tuple[str, ...] = ()
    wild_ignore_table: tuple[str, ...] = ()
    rewrite_db: tuple[str, ...] = ()
    """"from->to"; the other rules are asked about names that are rewritten"""
    to: Entries = ()
    """(match, to) of ``[[tables]]``: no filters, but which table is meant depends on them"""
    folds: bool = False
    """whether all names are in lower case"""
    unsure: bool = False
    """whether nobody has said yet that the source folds names, or that it does not"""

    @classmethod
    def of(cls, config: Config) -> ReplicationFilters:
        """What the configuration has checked."""
        to = TableRoutes.of(config.tables).telling().entries
        return replace(cls(to=to), **{kind: getattr(config.filters, kind) for kind in _KINDS})

    @classmethod
    def from_json(cls, text: str) -> ReplicationFilters:
        kinds: dict[str, Any] = {kind: tuple(listed) for kind, listed in json.loads(text).items()}
        return cls(**kinds | {"to": tuple(map(tuple, kinds.get("to", ())))})

    def to_json(self) -> str:
        entries = {k: sorted(set(v)) for k, v in self.entries() if v or k != "rewrite_db"}
        return json.dumps({**entries, "to": self.to} if self.to else entries, ensure_ascii=False)

    def entries(self) -> Iterable[tuple[str, tuple[str, ...]]]:
        """Each of MySQL's kinds of rule with its entries."""
        return [(kind, getattr(self, kind)) for kind in _KINDS]

    @property
    def any(self) -> bool:
        """Whether there is a rule that leaves something out."""
        return any(entries for kind, entries in self.entries() if kind != "rewrite_db")

    @cached_property
    def rewrites(self) -> Rewrites:
        own = Rewrites.of(self.rewrite_db, self.to, folds=self.folds)
        return replace(own, lower=self.folded().rewrites) if self.unsure and own.any else own

    def folded(self) -> ReplicationFilters:
        """The same for a source whose names are in lower case."""
        return _folded(self)

    def asking(self) -> ReplicationFilters:
        """The same where nobody has said yet whether the source is such a one."""
        return _asking(self)

    def check_letters(self, table: str, *, rows: bool = False) -> None:
        """Raises SettingError where rules would decide otherwise about the target's table if the
        source folds names, and nobody knows whether it does. ``rows``: as of ``Rewrites``."""
        lower = fold(table)
        if not self.unsure or (rows and table != lower):
            return
        if self.keeps(table) != self.folded().keeps(lower):
            raise letter_case_error(table, "[filters]", "has not said yet whether")

    def keeps(self, table: str) -> bool:
        """Whether rows of the table (db.table, in the target) are applied."""
        return self.keeps_default(self._database(table)) and self.keeps_tables((table,))

    def keeps_default(self, database: str) -> bool:
        """Whether statements of sessions with that default database are looked at further."""
        return self._database_rule(database)[0]

    def keeps_tables(self, tables: Iterable[str]) -> bool:
        """Whether a statement that changes these tables, in its order, is applied."""
        return self._table_rule(tables)[0]

    def keeps_database(self, database: str) -> bool:
        """Whether CREATE, ALTER and DROP DATABASE are applied."""
        if self.do_db or self.ignore_db:
            return self.keeps_default(database)
        name = f"{database}."
        if first_fitting(self.wild_do_table, name):
            return True
        return not first_fitting(self.wild_ignore_table, name) and not self.wild_do_table

    def rule(self, table: str) -> str:
        """The rule that decides about a table's rows, as one reads it in the configuration."""
        passes, by_database = self._database_rule(self._database(table))
        if not passes:
            return by_database
        return self._table_rule((table,))[1] or by_database or "no rule names it"

    def kinds(self, table: str) -> tuple[str, ...]:
        """The kinds of rules that are asked about a table's rows and have an answer."""
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
def _asking(filters: ReplicationFilters) -> ReplicationFilters:
    return replace(filters, unsure=True)
