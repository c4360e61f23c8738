"""Partitioned tables: which columns may partition a table, and rows split by partition.

Protocol: sections "Partition Value Serialization" and "Materialize Partition Columns". Our data
files also contain the partition columns, and the table requires that of all writers. So code that
reads a single file (key index, old rows, compaction) can ignore partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import SchemaError, TargetError, reset_table
from .large_columns import gathered

if TYPE_CHECKING:
    from ...tables.table_definition import TableDefinition

MATERIALIZED = "materializePartitionColumns"
PROPERTIES = {
    f"delta.feature.{MATERIALIZED}": "supported",
    "delta.writePartitionColumnsToParquet": "true",
}

NO_PARTITION = 1526
"""MySQL's ER_NO_PARTITION_FOR_GIVEN_VALUE, here for a value that Delta's partitions can't have"""
_NULLS = ("", "__HIVE_DEFAULT_PARTITION__")
TAKEN_FOR_NULL = "Spark takes '' and '__HIVE_DEFAULT_PARTITION__' for NULL there"
NO_PARTITION_HINT = f"take the table out of target.partition_by; {reset_table()}"

Values = dict[str, str | None]
"""A file's partitionValues: physical column name -> value as text, None for NULL."""


def check(definition: TableDefinition, columns: Sequence[str]) -> None:
    """Raise SchemaError for columns by which the table can't be partitioned."""
    schema, name = definition.arrow_schema(), definition.name
    for column in columns:
        if column not in schema.names:
            raise SchemaError(f"target.partition_by: there is no column {column}", table=name)
        if not _fits(kind := schema.field(column).type):
            raise SchemaError(
                f"target.partition_by: {column} is {kind}",
                table=name,
                hint="partitions can be made by integers, dates, texts and booleans",
            )
    if len(set(columns)) == len(schema.names):
        raise SchemaError("target.partition_by names all columns of the table", table=name)


def _fits(kind: pa.DataType) -> bool:
    plain = (pa.types.is_integer, pa.types.is_date32, pa.types.is_boolean)
    texts = (pa.types.is_string, pa.types.is_large_string)
    return any(test(kind) for test in (*plain, *texts))


def split(rows: pa.Table, by: Mapping[str, int]) -> Iterator[tuple[Values, pa.Table]]:
    """Yield the rows of each partition, in their order. ``by``: physical name of a partition column
    -> its number in ``rows``; empty for a table without partitions.

    Raise TargetError before the first partition for rows that are ``unplaced``.
    """
    if not by or not rows.num_rows:
        yield {}, rows
        return
    if unplaced(rows, by.values()).any():
        message = f"a text can't be a partition's value ({', '.join(by)}): {TAKEN_FOR_NULL}"
        raise TargetError(message, hint=NO_PARTITION_HINT)
    code = np.zeros(rows.num_rows, np.int64)
    for number in by.values():
        column = rows.column(number).combine_chunks().dictionary_encode(null_encoding="encode")
        _, code = np.unique(
            code * len(column.dictionary) + column.indices.to_numpy(), return_inverse=True
        )
    order = np.argsort(code, kind="stable")
    edges = np.flatnonzero(np.diff(code[order], prepend=-1, append=-1))
    ordered = rows if len(edges) == 2 else gathered(rows).take(pa.array(order))
    for first, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        part = ordered.slice(first, end - first)
        values = {name: part.column(number)[0].as_py() for name, number in by.items()}
        yield {name: _text(value) for name, value in values.items()}, part


def unplaced(rows: pa.Table, by: Iterable[int]) -> npt.NDArray[np.bool_]:
    """Return which of the rows [n] can't be in any partition, because Spark would write NULL in
    place of a text, in MERGE or in its next OPTIMIZE."""
    refused = np.zeros(rows.num_rows, bool)
    for column in map(rows.column, by):
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            refused |= np.asarray(pc.is_in(column, pa.array(_NULLS, column.type)))
    return refused


def _text(value: int | bool | str | date | None) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)
