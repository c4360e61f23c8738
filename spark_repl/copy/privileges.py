"""Privileges of the account on the source: a table that it can't see would be copied without rows.

A server hides tables on which an account has no privilege, so missing tables can't be listed. Only
SELECT on all places where filters keep tables proves that the account sees all of them. `SHOW
GRANTS` is read with the session's roles.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from ..config.wildcards import fits, lacks_wildcards, without_escapes
from ..errors import SourceError
from ..rules.replication_filters import ReplicationFilters
from ..source.grants import EVERYTHING, account_of, grant
from ..tables.table_definition import SYSTEM_SCHEMAS
from ..tables.table_name import database_of
from .source_tables import quoted

if TYPE_CHECKING:
    from .source_tables import Query

_GRANT = re.compile(r"GRANT (?P<what>.+?) ON (?P<where>.+?) TO ")
_REVOKE = re.compile(r"REVOKE (?P<what>.+?) ON (?P<where>.+?)\.\* FROM ")
_QUOTED = re.compile(r"""^[`"]?(.*?)[`"]?$""")
_NO_FILTERS = ReplicationFilters()


@dataclass(frozen=True)
class Grants:
    """Grants of an account. ``lines``: those of SHOW GRANTS. ``patterns``: whether % and _ in a
    database's name are wildcards, which is not the case with partial_revokes."""

    lines: tuple[str, ...]
    account: str
    patterns: bool = True

    @classmethod
    def of(cls, query: Query) -> Self:
        """Return the grants of the session's account and roles."""
        roles = _value(query, "CURRENT_ROLE()", "NONE")  # there are none before 8.0
        using = "" if roles == "NONE" else f" FOR CURRENT_USER() USING {roles}"
        lines = tuple(str(line) for (line,) in query(f"SHOW GRANTS{using}"))
        account = account_of(_value(query, "CURRENT_USER()", "%@%"))
        return cls(lines, account, _value(query, "@@GLOBAL.partial_revokes", "0") == "0")

    def allows(self, what: str, database: str = "", table: str = "") -> bool:
        """Return whether ``what`` is granted on a table, a whole database, or on everything."""
        for line in self.lines:
            match = _GRANT.match(line)
            if match and _names(match["what"], what):
                scope = match["where"]
                if scope == EVERYTHING or (table and scope == _table(database, table)):
                    return True
                pattern = _plain(scope.removesuffix(".*"))
                if database and scope.endswith(".*") and self._means(pattern, database):
                    return True
        return False

    def revoked(self, what: str) -> list[str]:
        """Return the databases for which a grant on everything is partially revoked."""
        matches = filter(None, map(_REVOKE.match, self.lines))
        return [_plain(match["where"]) for match in matches if _names(match["what"], what)]

    def hint(self, what: str, places: Iterable[str]) -> str:
        """Return the statements that grant ``what`` on databases and tables; "" means
        everything."""
        return grant(what, map(self._place, places), self.account)

    def _means(self, pattern: str, database: str) -> bool:
        return fits(pattern, database) if self.patterns else pattern == database

    def _place(self, place: str) -> str:
        database, _, table = place.partition(".")
        if not place:
            return EVERYTHING
        if table:
            return _table(database, table)
        return f"{quoted(_literally(database) if self.patterns else database)}.*"


def check_privileges(
    query: Query, views: Iterable[str], filters: ReplicationFilters = _NO_FILTERS
) -> None:
    """Raise SourceError if the account may not read every table that ``filters`` keep, or may not
    lock the tables ``views`` ("db.table"), which are copied as of one moment."""
    grants, wanted = Grants.of(query), wanted_places(filters)
    hidden = _hidden(grants, filters, wanted)
    if hidden is None or hidden:
        where = f" in {', '.join(hidden)}" if hidden else ""
        raise SourceError(
            f"the account may not read all tables{where}: those that it doesn't see would be empty"
            " in the target, and be taken for complete",
            number=1142,
            hint=grants.hint("SELECT", hidden or [""]),
        )
    unlocked = [name for name in views if not grants.allows("LOCK TABLES", database_of(name))]
    if unlocked:
        raise SourceError(
            "the account may not lock the table, and a table without a key or with partial row"
            " images can only be copied after a brief lock",
            number=1044, table=unlocked[0],
            hint=grants.hint("LOCK TABLES", sorted({*map(database_of, unlocked)})),
        )  # fmt: skip


def lock_hint(query: Query, table: str) -> str:
    """Return the hint that lets the account lock a table ("db.table") for its copy."""
    return Grants.of(query).hint("LOCK TABLES", [database_of(table)])


def wanted_places(filters: ReplicationFilters) -> list[str] | None:
    """Return the source's databases, and tables as "db.table", that contain all tables which
    filters keep. Return None if such tables may be anywhere."""
    places: Iterable[str] | None = filters.do_db or None
    if filters.do_table or filters.wild_do_table:
        patterns = [*map(_literally, filters.do_table), *filters.wild_do_table]
        places = _of_tables(patterns, filters.do_db)
    if places is None:
        return None
    return sorted({source for place in places for source in _on_source(place, filters)})


def _of_tables(patterns: Iterable[str], databases: Iterable[str]) -> Iterable[str] | None:
    """Return the places of all tables that fit a pattern, in ``databases`` if there are any."""
    places = set[str]()
    for pattern in patterns:
        database, _, table = pattern.partition(".")
        if lacks_wildcards(database):
            name = without_escapes(database)
            if not databases or name in databases:
                places.add(f"{name}.{without_escapes(table)}" if lacks_wildcards(table) else name)
        elif not databases:
            return None
        else:
            places |= {name for name in databases if fits(database, name)}
    return places


def _on_source(place: str, filters: ReplicationFilters) -> list[str]:
    """Return the source's names of a place that filters name after the rewrite."""
    database, dot, table = place.partition(".")
    pairs = filters.rewrites.pairs
    names = [old for old, new in pairs if new == database]
    names += [database] if database not in dict(pairs) else []
    return [f"{name}{dot}{table}" for name in names]


def _hidden(
    grants: Grants, filters: ReplicationFilters, wanted: list[str] | None
) -> list[str] | None:
    """Return the places with tables that filters may keep and the account may not read; None:
    everything."""
    if grants.allows("SELECT"):
        revoked = [name for name in grants.revoked("SELECT") if name not in SYSTEM_SCHEMAS]
        return [name for name in revoked if _may_keep(filters, name, wanted)]
    if wanted is None:
        return None
    pairs = [(place, *place.partition(".")[::2]) for place in wanted]
    return [place for place, *names in pairs if not grants.allows("SELECT", *names)]


def _may_keep(filters: ReplicationFilters, database: str, wanted: list[str] | None) -> bool:
    """Return whether filters may keep a table of the source's database."""
    if wanted is not None:
        return any(place.partition(".")[0] == database for place in wanted)
    return filters.keeps_database(filters.rewrites.database(database))


def _literally(name: str) -> str:
    """Return the pattern that fits only the name."""
    return re.sub(r"([\\%_])", r"\\\1", name)


def _table(database: str, table: str) -> str:
    return f"{quoted(database)}.{quoted(table)}"


def _value(query: Query, expression: str, otherwise: str) -> str:
    """Return a value of the server; ``otherwise`` for NULL, or if the server knows no such name."""
    try:
        ((value,),) = query(f"SELECT {expression}")
    except SourceError:
        return otherwise
    return otherwise if value is None else str(value)


def _names(granted: str, what: str) -> bool:
    return granted == "ALL PRIVILEGES" or what in granted.split(", ")


def _plain(name: str) -> str:
    match = _QUOTED.match(name)
    return match[1] if match else name
