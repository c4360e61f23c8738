"""Names of the tables that online schema-change tools make.

gh-ost makes _t_gho LIKE the table t, _t_ghc for its own notes, and _t_del, which t becomes;
pt-online-schema-change makes _t_new, and t becomes _t_old, with more underscores in front where
a name is taken.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from ..binlog.table_name import parts_of, table_name

_NAME = re.compile(r"_(?:(.+?)(?:_\d{14})?_(gho|ghc|del)|_*([^_].*)_(new|old))", re.DOTALL)


class Role(StrEnum):
    """What a tool's table is for."""

    COPY = "copy"
    OTHER = "other"
    """notes, a table that keeps a name, or the table as it was"""


@dataclass(frozen=True)
class ToolTable:
    """``of``: the table, db.table, for which a tool makes it."""

    of: str
    role: Role


def tool_table(name: str) -> ToolTable | None:
    """What ``name`` (db.table) would be among a tool's tables; None for another name."""
    database, table = parts_of(name)
    match = _NAME.fullmatch(table)
    if match is None:
        return None
    of, kind = (match[1], match[2]) if match[1] else (match[3], match[4])
    return ToolTable(table_name(database, of), Role.COPY if kind in ("gho", "new") else Role.OTHER)


def may_have_rows_of(name: str) -> tuple[str, ...]:
    """The tables, db.table, of which ``name`` may be a tool's copy, or what such a table was before
    it: more than one where underscores in front may be the tool's or the table's own. None for
    gh-ost's notes, which have no rows of it."""
    tool = tool_table(name)
    database, table = parts_of(name)
    if tool is None or table.endswith("_ghc"):
        return ()
    of = parts_of(tool.of)[1]
    more = range(1, table.index(of) if table.endswith(("_new", "_old")) else 0)
    return (tool.of, *(table_name(database, "_" * count + of) for count in more))
