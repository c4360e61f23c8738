"""Names of the tables that online schema-change tools create.

For a table t, gh-ost creates _t_gho (LIKE t) and _t_ghc (its own notes). It renames t to _t_del, or
with a timestamp to _t_20260102030405_del.

pt-online-schema-change creates _t_new, and renames t to _t_old. It adds underscores in front if a
name is in use.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from ..tables.table_name import parts_of, table_name

_NAME = re.compile(r"_(?:(.+)_(gho|ghc|del)|_*([^_].*)_(new|old))", re.DOTALL)
_WITH_MOMENT = re.compile(r"(.+)_\d{14}", re.DOTALL)


class Role(StrEnum):
    """The purpose of a tool's table."""

    COPY = "copy"
    OTHER = "other"
    """notes, a table that reserves a name, or the former table"""


@dataclass(frozen=True)
class ToolTable:
    """A table that a tool creates for the table ``of`` (db.table)."""

    of: str
    role: Role


def tool_table(name: str) -> ToolTable | None:
    """Return the role that ``name`` (db.table) has if it is a tool's table; None for any other
    name."""
    return next(iter(tool_tables(name)), None)


def tool_tables(name: str) -> tuple[ToolTable, ...]:
    """Return each possible meaning of ``name`` as a tool's table. A timestamp in a name with _del
    may be gh-ost's, or the end of the table's own name."""
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
    """Return the tables, db.table, whose rows ``name`` may have, as a tool's copy or as the former
    table. There are several if leading underscores or a timestamp may belong to the tool or to the
    table's own name. gh-ost's changelog table has no rows of the table."""
    tools = tool_tables(name)
    database, table = parts_of(name)
    if not tools or table.endswith("_ghc"):
        return ()
    of = parts_of(tools[0].of)[1]
    more = range(1, table.index(of) if table.endswith(("_new", "_old")) else 0)
    return (*(tool.of for tool in tools), *(table_name(database, "_" * n + of) for n in more))
