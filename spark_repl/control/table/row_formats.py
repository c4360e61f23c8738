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
SHARED = 3
"""Format of tables that several channels feed. Earlier versions also wrote it for cuts that they
encoded as differences to another cut (``earlier_cuts``)."""
SAFE = 4
"""Format of cuts with owners of files in the quarantine, or with files of prepared branches; of
paths that are never given again, tables that were reset, statistics that were corrected, copies
with tables that begin empty, and repairs that failed."""
CUT_TABLES = 5
"""Format of cuts whose tables are in rows of their own (``cut_tables``). The owner's row has it
also, so an earlier version refuses a target even if no cut has been published."""
KNOWN_FORMAT = CUT_TABLES

_OF_KINDS = {
    "given": SAFE, "reset": SAFE, "statistics": SAFE, "owner": CUT_TABLES, "cut": CUT_TABLES,
}  # fmt: skip


def format_of(kind: str) -> int:
    """Return the number of the format of a kind's rows, unless their content requires a
    higher one."""
    return _OF_KINDS.get(kind, FIRST)


def format_of_cut(owners: Iterable[object], prepared: Iterable[Mapping[str, Any]]) -> int:
    """Return the number of the format of a cut inside another row. ``owners``: the owner of each
    table in quarantine; ``prepared``: XA branches."""
    return SAFE if any(owners) or any("file" in branch for branch in prepared) else FIRST


def known_fields(of: type[DataclassInstance], detail: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of ``detail`` that a dataclass has. Fields that a later version added under
    the same format number are ignored."""
    names = {field.name for field in fields(of)}
    return {name: value for name, value in detail.items() if name in names}


_FIRST_COLUMNS = [
    ("kind", pa.string()),  # owner, history, table, cut, skip, xa; other modules add theirs
    ("epoch", pa.int64()),
    ("at", pa.timestamp("us", "UTC")),
    ("position", pa.int64()),
    ("gtid_executed", pa.string()),
    ("detail", pa.string()),  # JSON
]
SCHEMA = pa.schema(
    [
        *_FIRST_COLUMNS,
        ("sequence", pa.int64()),  # of a cut, and of the rows of its tables (cut_tables)
        ("table_name", pa.string()),
        ("path", pa.string()),
        ("version", pa.int64()),
        ("metadata_id", pa.string()),
    ]
)
COMMON = [name for name, _ in _FIRST_COLUMNS]
"""names of the columns that all kinds have; earlier versions wrote only these"""


def rows_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return rows as a table to write."""
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


def with_all_columns(rows: pa.Table) -> pa.Table:
    """Return the rows, of this or an earlier version, with all columns of ``SCHEMA``."""
    missing = [field for field in SCHEMA if field.name not in rows.column_names]
    for field in missing:
        rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows.select(SCHEMA.names)


def row_content(row: Mapping[str, Any], detail: str) -> str:
    """Return the identifying content of a row: everything except its time and the version that
    wrote it."""
    return f"{row['kind']} {row['position']} {row['gtid_executed']} {detail}"
