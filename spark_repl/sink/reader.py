"""Reads a table without Spark, through delta-rs: another engine's view of what was committed."""

from __future__ import annotations

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from .storage import options


def read(folder: str, version: int | None = None, query: str = "select * from t") -> pa.Table:
    """The rows that ``query`` (SQL over the table ``t``) finds in one version, or the newest."""
    table = DeltaTable(folder, version=version, storage_options=options(folder))
    return pa.table(QueryBuilder().register("t", table).execute(query).read_all())


def newest_version(folder: str) -> int:
    return DeltaTable(folder, storage_options=options(folder)).version()
