"""What the account may do on the source: a copy of what it can't see would be one without rows.

A server hides tables that an account has no privilege on, so what is missing can't be listed: only
SELECT on everything says that all is seen. `SHOW GRANTS` is read with the session's roles.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..binlog.definition import SYSTEM_SCHEMAS
from ..binlog.table_name import database_of
from ..errors import SourceError

if TYPE_CHECKING:
    from .source_tables import Query

_GRANT = re.compile(r"GRANT (?P<what>.+?) ON (?P<where>.+?) TO ")
_REVOKE = re.compile(r"REVOKE (?P<what>.+?) ON (?P<where>.+?)\.\* FROM ")
_QUOTED = re.compile(r"""^[`"]?(.*?)[`"]?$""")
_EVERYTHING = "*.*"
VIEW_HINT = (
    "a table without a key, or whose log holds parts of rows (binlog_row_image,"
    " binlog_row_value_options), can only be copied under a momentary lock:"
    " GRANT LOCK TABLES ON *.* TO the account"
)


def check_privileges(query: Query, views: Iterable[str]) -> None:
    """Raises SourceError for an account that may not read every table, or not lock those that are
    copied in one ``view`` ("db.table")."""
    lines = _grants(query)
    hidden = [name for name in _revoked(lines, "SELECT") if name not in SYSTEM_SCHEMAS]
    if not _may(lines, "SELECT", _EVERYTHING) or hidden:
        where = f" in {', '.join(hidden)}" if hidden else ""
        raise SourceError(
            f"the account may not read all tables{where}: those that it doesn't see would be empty"
            " in the target, and be taken for complete",
            number=1142,
            hint="GRANT SELECT ON *.* TO the account",
        )
    for name in views:
        database = database_of(name)
        if not any(_may(lines, "LOCK TABLES", where) for where in (_EVERYTHING, database)):
            raise SourceError(
                "the account may not lock the table, for the moment in which its copy begins",
                number=1044, table=name,
                hint=VIEW_HINT,
            )  # fmt: skip


def _grants(query: Query) -> list[str]:
    try:
        ((roles,),) = query("SELECT CURRENT_ROLE()")
    except SourceError:  # before 8.0 there are none
        roles = "NONE"
    using = "" if roles in (None, "NONE") else f" FOR CURRENT_USER() USING {roles}"
    return [str(line) for (line,) in query(f"SHOW GRANTS{using}")]


def _may(lines: Iterable[str], what: str, where: str) -> bool:
    """Whether a grant allows ``what`` on ``where``: everything, or a database. A grant's name with
    % or _ in it may mean any database."""
    for line in lines:
        match = _GRANT.match(line)
        if match and _names(match["what"], what):
            scope = match["where"]
            if scope == where:
                return True
            pattern = _plain(scope.removesuffix(".*"))
            if where != _EVERYTHING and (pattern == where or {"%", "_"} & set(pattern)):
                return True
    return False


def _revoked(lines: Iterable[str], what: str) -> list[str]:
    """Databases that are taken out of what is granted on everything (partial_revokes)."""
    matches = filter(None, map(_REVOKE.match, lines))
    return [_plain(match["where"]) for match in matches if _names(match["what"], what)]


def _names(granted: str, what: str) -> bool:
    return granted == "ALL PRIVILEGES" or what in granted.split(", ")


def _plain(name: str) -> str:
    match = _QUOTED.match(name)
    return match[1] if match else name
