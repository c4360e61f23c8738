"""Reads a table without Spark, through delta-rs, to see commits as another engine does."""

from __future__ import annotations

import pyarrow as pa
from deltalake import QueryBuilder

from .delta_table import opened


def read(folder: str, version: int | None = None, query: str = "select * from t") -> pa.Table:
    """Return the rows that ``query`` (SQL over the table ``t``) finds in one version, or the
    newest."""
    with opened(folder, version) as table:
        return pa.table(QueryBuilder().register("t", table).execute(query).read_all())


def newest_version(folder: str) -> int:
    with opened(folder) as table:
        return table.version()
