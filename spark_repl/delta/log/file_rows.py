"""File actions as Arrow rows, as checkpoints have them: ``add`` and ``remove``.

Delta protocol, section "Checkpoint Schema".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

Action = dict[str, Any]

_TEXTS = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    {
        "storageType": pa.string(),
        "pathOrInlineDv": pa.string(),
        "offset": pa.int32(),
        "sizeInBytes": pa.int32(),
        "cardinality": pa.int64(),
        "maxRowIndex": pa.int64(),
    }
)
ADD = pa.schema(
    {
        "path": pa.string(),
        "partitionValues": _TEXTS,
        "size": pa.int64(),
        "modificationTime": pa.int64(),
        "dataChange": pa.bool_(),
        "stats": pa.large_string(),  # statistics of a million files may exceed 2 GiB
        "tags": _TEXTS,
        "deletionVector": _VECTOR,
        "baseRowId": pa.int64(),
        "defaultRowCommitVersion": pa.int64(),
        "clusteringProvider": pa.string(),
    }
)
REMOVE = pa.schema(
    {
        "path": pa.string(),
        "deletionTimestamp": pa.int64(),
        "dataChange": pa.bool_(),
        "extendedFileMetadata": pa.bool_(),
        "partitionValues": _TEXTS,
        "size": pa.int64(),
        "deletionVector": _VECTOR,
        "baseRowId": pa.int64(),
        "defaultRowCommitVersion": pa.int64(),
    }
)


def aligned(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows of a checkpoint with the fields of ``schema``: NULLs where it has none."""
    return pa.table([_column(table, field) for field in schema], schema=schema)


def to_rows(actions: Iterable[Action], schema: pa.Schema) -> pa.Table:
    """Return actions as rows of ``schema``."""
    return pa.Table.from_pylist(list(actions), schema=schema)


def to_actions(rows: pa.Table) -> list[Action]:
    """Return rows in the form of a commit's JSON: without NULLs."""
    return [_plain(row) for row in rows.to_pylist(maps_as_pydicts="strict")]


def _plain(row: Action) -> Action:
    fields = {name: value for name, value in row.items() if value is not None}
    if vector := fields.get("deletionVector"):
        fields["deletionVector"] = without_nulls(vector)
    return fields


def without_nulls(fields: Action) -> Action:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def _column(table: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    if field.name not in table.column_names:
        return pa.chunked_array([pa.nulls(len(table), field.type)])
    column = table[field.name]
    if field.type != _VECTOR or column.type == _VECTOR:
        return column.cast(field.type)
    return pa.chunked_array([pa.array(column.to_pylist(), _VECTOR)])
