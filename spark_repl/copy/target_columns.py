"""Rows that were read from the source as the target's table has them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..decode.target_rows import target_rows
from .text_rows import key_to_arrow, to_arrow

if TYPE_CHECKING:
    from ..binlog.definition import TableDefinition


def copied_rows(
    target: TableDefinition, columns: Iterable[Any], zero_dates: str, key: bytes
) -> pa.Table:
    """``columns``: texts of all that the source has; ``key``: of masks. Raises SchemaError."""
    logged = target.in_log
    arrays = [
        (key_to_arrow if i in logged.primary_key else to_arrow)(
            logged.columns[i], values, zero_dates
        )
        for i, values in enumerate(columns)
    ]
    if logged is target:
        return pa.Table.from_arrays(arrays, schema=target.arrow_schema())
    names = [str(number) for number in range(len(arrays))]
    rows = target_rows(pa.RecordBatch.from_arrays(arrays, names=names), logged, target, key)
    return pa.Table.from_arrays(rows.columns, schema=target.arrow_schema())
