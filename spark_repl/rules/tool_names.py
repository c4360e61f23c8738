"""Names of the tables that online schema-change tools make.

gh-ost makes _t_gho LIKE the table t, _t_ghc for its own notes, and _t_del, which t becomes, or
with a moment, _t_20260102030405_del;
pt-online-schema-change makes _t_new, and t becomes _t_old, with more underscores in front where
a name is taken.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from ..tables.table_name import parts_of, table_name

_NAME = re.compile(r"_(?:(.+)_(gho|ghc|del)|_*([^_].*)_(new|old))", re.DOTALL)
_WITH_MOMENT = re.compile(r"(.+)_\d{14}", re.DOTALL)


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
    return next(iter(tool_tables(name)), None)


def tool_tables(name: str) -> tuple[ToolTable, ...]:
    """The same, and what else it would be: a moment in the name of a table as it was may be
    gh-ost's, or the end of the table's own name."""
    database, table = parts_of(name)
    match = _NAME.fullmatch(table)
    if match is None:
        return ()
    of, kind = (match[1], match[2]) if match[1] else (match[3], match[4])
    moment = _WITH_MOMENT.fullmatch(of) if kind == "del" else None
    role = Role.COPY if kind in ("gho", "new") else Role.OTHER
    names = (moment[1], of) if moment else (of,)
    return tuple(ToolTable(table_name(database, origin), role) for origin in names)


def may_have_rows_of(name: str) -> tuple[str, ...]:
    """The tables, db.table, of which ``name`` may be a tool's copy, or what such a table was before
    it: more than one where underscores in front, or a moment, may be the tool's or the table's own.
    None for gh-ost's notes, which have no rows of it."""
    tools = tool_tables(name)
    database, table = parts_of(name)
    if not tools or table.endswith("_ghc"):
        return ()
    of = parts_of(tools[0].of)[1]
    more = range(1, table.index(of) if table.endswith(("_new", "_old")) else 0)
    return (*(tool.of for tool in tools), *(table_name(database, "_" * n + of) for n in more))
