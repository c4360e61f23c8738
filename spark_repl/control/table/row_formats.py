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
"""Format of rows that name tables of channels after the first."""
SHARED = DIFFERENCES = 3
"""Format of tables that several channels feed, and of cuts encoded as differences to another one.
"""
SAFE = 4
"""Format of cuts with owners of files in the quarantine, or with files of prepared branches; of
paths that are never given again, tables that were reset, statistics that were corrected, copies
with tables that begin empty, and repairs that failed."""
KNOWN_FORMAT = SAFE

_OF_KINDS = {"given": SAFE, "reset": SAFE, "statistics": SAFE}


def format_of(kind: str) -> int:
    """Return the number of the format of a kind's rows, unless their content requires a
    higher one."""
    return _OF_KINDS.get(kind, FIRST)


def format_of_cut(
    owners: Iterable[object], prepared: Iterable[Mapping[str, Any]], *, since: bool
) -> int:
    """Return the number of the format of a cut's row. ``owners``: of each table in quarantine;
    ``prepared``: XA branches; ``since``: whether the row is encoded as differences to another one.
    """
    if any(owners) or any("file" in branch for branch in prepared):
        return SAFE
    return DIFFERENCES if since else FIRST


def known_fields(of: type[DataclassInstance], detail: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of ``detail`` that a dataclass has. A later version may have added others
    under the same number; they are ignored."""
    names = {field.name for field in fields(of)}
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
    """Return rows as a table to write."""
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


def row_content(row: Mapping[str, Any], detail: str) -> str:
    """Return what identifies a row's content: all but its time and the version that wrote it."""
    return f"{row['kind']} {row['position']} {row['gtid_executed']} {detail}"
