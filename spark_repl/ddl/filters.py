"""ReplicationFilters: which databases and tables are applied, by MySQL's replication filter rules.

Rows are asked about by their own table. A statement is asked about twice, as on MySQL's replica: by
the default database of its session, then by the tables that it changes, of which the first that a
rule names decides (rpl_filter.cc: ``db_ok``, ``tables_ok``, ``db_ok_with_wild_table``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING

from ..binlog.table_name import database_of, plain_name
from ..config.wildcards import first_fitting
from .lower_names import fold
from .rewrites import Rewrites

if TYPE_CHECKING:
    from ..config import Filters as Rules


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

    @classmethod
    def of(cls, rules: Rules) -> ReplicationFilters:
        """What the configuration has checked."""
        return cls(**{f.name: tuple(getattr(rules, f.name)) for f in fields(cls)})

    @classmethod
    def from_json(cls, text: str) -> ReplicationFilters:
        return cls(**{name: tuple(listed) for name, listed in json.loads(text).items()})

    def to_json(self) -> str:
        held = {k: sorted(set(v)) for k, v in self.entries() if v or k != "rewrite_db"}
        return json.dumps(held, ensure_ascii=False)

    def entries(self) -> Iterable[tuple[str, tuple[str, ...]]]:
        """Each kind of rule with its entries."""
        return asdict(self).items()

    @property
    def any(self) -> bool:
        """Whether there is a rule that leaves something out."""
        return replace(self, rewrite_db=()) != ReplicationFilters()

    @cached_property
    def rewrites(self) -> Rewrites:
        return Rewrites.of(self.rewrite_db)

    def folded(self) -> ReplicationFilters:
        """The same for a source whose names are in lower case."""
        return replace(self, **{kind: tuple(map(fold, listed)) for kind, listed in self.entries()})

    def keeps(self, table: str) -> bool:
        """Whether rows of the table (db.table) are applied."""
        return self.keeps_default(database_of(table)) and self.keeps_tables((table,))

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
        kept, by_database = self._database_rule(database_of(table))
        if not kept:
            return by_database
        return self._table_rule((table,))[1] or by_database or "no rule names it"

    def kinds(self, table: str) -> tuple[str, ...]:
        """The kinds of rules that are asked about a table's rows and have an answer."""
        kept, by_database = self._database_rule(database_of(table))
        said = [by_database, self._table_rule((table,))[1] if kept else ""]
        return tuple(word for text in said if (word := text.partition(" ")[0]) in _KINDS)

    def _database_rule(self, database: str) -> tuple[bool, str]:
        if self.do_db:
            kept = database in self.do_db
            return kept, f"do_db {'has' if kept else 'lacks'} {database}"
        kept = database not in self.ignore_db
        return kept, "" if kept else f"ignore_db has {database}"

    def _table_rule(self, tables: Iterable[str]) -> tuple[bool, str]:
        asked = False
        for name in map(plain_name, tables):
            asked = True
            if name in self.do_table:
                return True, f"do_table has {name}"
            if name in self.ignore_table:
                return False, f"ignore_table has {name}"
            if pattern := first_fitting(self.wild_do_table, name):
                return True, f"wild_do_table has {pattern}"
            if pattern := first_fitting(self.wild_ignore_table, name):
                return False, f"wild_ignore_table has {pattern}"
        if asked and (self.do_table or self.wild_do_table):
            return False, "no do_table and no wild_do_table names it"
        return True, ""


_KINDS = frozenset(f.name for f in fields(ReplicationFilters))
