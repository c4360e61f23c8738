"""Columns of the control table, and the numbers of its rows' formats.

A row has the least number whose versions read it right. An earlier version refuses the target by
name (``formats``) instead of misreading the row, or failing at a field that it does not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

FIRST = 1
CHANNELS = 2
"""of rows that name tables of channels beside the first"""
SHARED = TOLD = 3
"""of tables that several channels feed; of cuts that are told since another one"""
SAFE = 4
"""of cuts with owners of files in the quarantine, or with files of prepared branches; of paths that
are never given again, tables that were reset, statistics that were corrected, copies with tables
that begin empty, and repairs that failed"""
KNOWN_FORMAT = SAFE

_OF_KINDS = {"given": SAFE, "reset": SAFE, "statistics": SAFE}


def format_of(kind: str) -> int:
    """Return the number of the format of a kind's rows, as far as their content has no say."""
    return _OF_KINDS.get(kind, FIRST)


def format_of_cut(
    owners: Iterable[object], prepared: Iterable[Mapping[str, Any]], *, since: bool
) -> int:
    """Return the number of the format of a cut's row. ``owners``: of each table in quarantine;
    ``prepared``: XA branches; ``since``: whether the row is told since another one."""
    if any(owners) or any("file" in branch for branch in prepared):
        return SAFE
    return TOLD if since else FIRST


def known_fields(of: type[DataclassInstance], detail: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that a dataclass has: a later version may have added others under the same
    number, which may be ignored."""
    names = {one.name for one in fields(of)}
    return {name: value for name, value in detail.items() if name in names}


SCHEMA = pa.schema(
    [
        ("kind", pa.string()),  # owner, history, table, cut, skip, xa; other modules add theirs
        ("epoch", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("position", pa.int64()),
        ("gtid_executed", pa.string()),
        ("detail", pa.string()),  # JSON
    ]
)


def rows_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows as they are written."""
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


def row_content(row: Mapping[str, Any], detail: str) -> str:
    """What a row says, without when it was written and by which version."""
    return f"{row['kind']} {row['position']} {row['gtid_executed']} {detail}"
