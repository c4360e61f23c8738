"""The merge writer's side of ``missing_values``: rows that lack columns are completed by a join.

Beside a net row stand, in the staged Parquet file, the key that its row has in the target, a text
of 0 and 1 per column that says what to take from there, and its JSON diffs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import StringType

from ..binlog.definition import ColumnType, TableDefinition
from ..delta.spark_names import quoted
from .missing_values import patched

if TYPE_CHECKING:
    from .missing_values import MissingValues

_WANTED, _ORIGIN, _DIFFS, _OLD = "__wanted", "__origin", "__diffs", "__old"
PATCHED = "__patched"
"""Boolean: whether the row's JSON diffs fit, true without any."""


def pack(rows: pa.Table, missing: MissingValues, key: tuple[int, ...]) -> pa.Table:
    """Columns for the staged file: what each of the n rows lacks."""
    needed = missing.rows
    wanted = np.zeros((rows.num_rows, rows.num_columns), bool)
    for column, mask in missing.wanted.items():
        wanted[:, column] = mask
    letters = np.ascontiguousarray(np.where(wanted, ord("1"), ord("0")).astype(np.uint8))
    edges = np.arange(rows.num_rows + 1, dtype=np.int32) * rows.num_columns
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(letters)]
    text = pa.Array.from_buffers(pa.string(), rows.num_rows, buffers)
    origin = pa.array(np.maximum(missing.origin, 0), mask=~(needed & (missing.origin >= 0)))
    columns = {_WANTED: _masked(text, needed)}
    for i, at in enumerate(key):
        columns[f"{_ORIGIN}{i}"] = rows.column(at).take(origin)
    for column, by_row in missing.diffs.items():
        data = [by_row.get(row) for row in range(rows.num_rows)]
        columns[f"{_DIFFS}{column}"] = pa.array(data, pa.binary())
    return pa.table(columns)


def _masked(text: pa.Array, keep: np.ndarray) -> pa.Array:
    return text.take(pa.array(np.arange(len(text)), mask=~keep))


def completed(
    frame: DataFrame, target: DataFrame, definition: TableDefinition, *, idempotent: bool
) -> DataFrame:
    """The staged rows (columns c0...) with what they lack. idempotent: an UPDATE whose row isn't
    in the target is left out, as replica_exec_mode=IDEMPOTENT has it."""
    width = len(definition.columns)
    key = definition.primary_key
    names = [target.columns[i] for i in range(width)]
    old = target.select(*[F.col(quoted(n)).alias(f"{_OLD}{i}") for i, n in enumerate(names)])
    old = old.withColumn("__hit", F.lit(True))
    on = [frame[f"{_ORIGIN}{i}"] == old[f"{_OLD}{at}"] for i, at in enumerate(key)]
    joined = frame.join(old, on, "left")
    if idempotent:
        joined = joined.where(F.col(_WANTED).isNull() | F.col("__hit").isNotNull())
    patched: Column = F.lit(True)
    for i in range(width):
        take = F.substring(_WANTED, i + 1, 1) == "1"
        value = F.when(take, F.col(f"{_OLD}{i}")).otherwise(F.col(f"c{i}"))
        diffs = f"{_DIFFS}{i}"
        if diffs in frame.columns and definition.columns[i].type == ColumnType.JSON:
            value = _patch()(value, F.col(diffs))
            patched &= F.col(diffs).isNull() | value.isNotNull()
        joined = joined.withColumn(f"__n{i}", value)
    joined = joined.withColumn(PATCHED, patched)
    kept = [c for c in frame.columns if not c.startswith("c")]
    return joined.select(*[F.col(f"__n{i}").alias(f"c{i}") for i in range(width)], *kept, PATCHED)


def _patch() -> Callable[..., Column]:
    """Documents with their diffs applied; NULL where they don't fit."""

    def patch(batches: Iterator[tuple[pa.Array, pa.Array]]) -> Iterator[pa.Array]:
        for documents, diffs in batches:
            pairs = zip(documents.to_pylist(), diffs.to_pylist(), strict=True)
            yield pa.array([_patched(d, diff) for d, diff in pairs], pa.string())

    return arrow_udf(patch, StringType())  # type: ignore[call-overload,no-any-return]


def _patched(document: str | None, diffs: bytes | None) -> str | None:
    return document if diffs is None else patched(document, diffs)
