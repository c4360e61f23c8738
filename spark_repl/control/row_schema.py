"""The columns of the control table, and what tells its rows from others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

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


def said(row: Mapping[str, Any], detail: str) -> str:
    """What a row says, without when it was written and by which version."""
    return f"{row['kind']} {row['position']} {row['gtid_executed']} {detail}"
