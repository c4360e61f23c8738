"""Checkpoints of a table's log, written by the protocol: one Parquet file, V1 spec.

Delta protocol, sections "Checkpoints" and "Checkpoint Schema". A checkpoint is the checkpoint
before and the commits after it, reconciled in Arrow: a table may have a million files, and few of
them change between two checkpoints.
"""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..store.storage import put
from . import log_checkpoints
from .file_rows import ADD, REMOVE, to_rows
from .log_checkpoints import of_checkpoint
from .log_replay import checkpoint_path, each_commit_after
from .retention_properties import retained_hours

if TYPE_CHECKING:
    from .log_state import LogState

Action = dict[str, Any]

_ROWS_AT_ONCE = 50_000
_TEXTS = pa.map_(pa.string(), pa.string())
_STATE = pa.schema(
    {
        "protocol": pa.struct(
            {
                "minReaderVersion": pa.int32(),
                "minWriterVersion": pa.int32(),
                "readerFeatures": pa.list_(pa.string()),
                "writerFeatures": pa.list_(pa.string()),
            }
        ),
        "metaData": pa.struct(
            {
                "id": pa.string(),
                "name": pa.string(),
                "description": pa.string(),
                "format": pa.struct({"provider": pa.string(), "options": _TEXTS}),
                "schemaString": pa.string(),
                "partitionColumns": pa.list_(pa.string()),
                "configuration": _TEXTS,
                "createdTime": pa.int64(),
            }
        ),
        "txn": pa.struct({"appId": pa.string(), "version": pa.int64(), "lastUpdated": pa.int64()}),
        "domainMetadata": pa.struct(
            {"domain": pa.string(), "configuration": pa.string(), "removed": pa.bool_()}
        ),
    }
)


def write(folder: str, state: LogState) -> None:
    """Write the checkpoint of a version, and the hint that names it, unless the hint already names
    a later one.

    Raise OSError, and TargetError if the log does not reach back to the last checkpoint.
    """
    adds, removes = reconciled(folder, state, time.time())
    table = _rows(state, adds, removes)
    content = io.BytesIO()
    # Without Arrow's schema a reader treats all texts alike. A row group is read as a whole.
    pq.write_table(
        table, content, compression="snappy", store_schema=False, row_group_size=_ROWS_AT_ONCE
    )
    put(checkpoint_path(folder, state.version), content.getvalue())
    if log_checkpoints.hinted_version(folder) <= state.version:
        hint = {
            "version": state.version,
            "size": len(table),
            "sizeInBytes": content.getbuffer().nbytes,
            "numOfAddFiles": len(adds),
        }
        path = os.path.join(folder, "_delta_log", log_checkpoints.HINT)
        put(path, json.dumps(hint, separators=(",", ":")).encode())


def reconciled(folder: str, state: LogState, now_s: float) -> tuple[pa.Table, pa.Table]:
    """Return the live files of a version, and the removed files that VACUUM must still retain at
    ``now_s`` (seconds since 1970). Raise as ``write``."""
    base = log_checkpoints.newest(folder, state.version)
    adds, removes = dict[str, Action](), dict[str, Action]()
    touched, since = set[str](), set[str]()
    for actions in each_commit_after(folder, base.version if base else -1, state.version):
        for action in actions:
            if "remove" in action:
                remove = action["remove"]
                adds.pop(remove["path"], None)
                removes[_key(remove)] = remove
                touched.add(remove["path"])
                since.add(_key(remove))
        for action in actions:
            if "add" in action:
                add = action["add"]
                adds[add["path"]] = add
                removes.pop(_key(add), None)
                touched.add(add["path"])
                since.add(_key(add))
    old_adds = [
        _without(table, touched, table["path"]) for table in of_checkpoint(base, "add", ADD)
    ]
    old_removes = [
        _without(table, since, _keys(table)) for table in of_checkpoint(base, "remove", REMOVE)
    ]
    since_ms = 1000 * (now_s - 3600 * retained_hours(state.metadata["configuration"]))
    gone = pa.concat_tables([*old_removes, to_rows(removes.values(), REMOVE)])
    gone = gone.filter(pc.greater(pc.fill_null(gone["deletionTimestamp"], 0), since_ms))
    return pa.concat_tables([*old_adds, to_rows(adds.values(), ADD)]), gone


def _without(table: pa.Table, keys: set[str], column: pa.ChunkedArray) -> pa.Table:
    if not keys:
        return table
    return table.filter(pc.invert(pc.is_in(column, pa.array(sorted(keys), pa.string()))))


def _key(action: Mapping[str, Any]) -> str:
    """Return the identity of a file with its deletion vector; of a file without one its path."""
    vector = action.get("deletionVector") or {}
    if not vector:
        return str(action["path"])
    return f"{action['path']}\n{vector['storageType']}{vector['pathOrInlineDv']}"


def _keys(table: pa.Table) -> pa.ChunkedArray:
    """Return ``_key`` of each row."""
    vector = table["deletionVector"]
    kind = pc.fill_null(pc.struct_field(vector, "storageType"), "")
    place = pc.fill_null(pc.struct_field(vector, "pathOrInlineDv"), "")
    line = pc.if_else(pc.is_valid(vector), "\n", "")
    return pc.binary_join_element_wise(table["path"], line, kind, place, "")


def _rows(state: LogState, adds: pa.Table, removes: pa.Table) -> pa.Table:
    """Return the checkpoint's rows, each with a value in one column."""
    parts = [
        pa.Table.from_pylist([{kind: action} for action in actions], schema=_STATE)
        for kind, actions in (
            ("protocol", [state.protocol]),
            ("metaData", [state.metadata]),
            ("txn", state.txns.values()),
            ("domainMetadata", state.domains.values()),
        )
    ]
    for kind, table in (("add", adds), ("remove", removes)):
        schema = pa.struct(list(table.schema))
        rows = [
            pa.StructArray.from_arrays(b.columns, fields=[*b.schema]) for b in table.to_batches()
        ]
        parts.append(pa.table({kind: pa.chunked_array(rows, schema)}))
    return pa.concat_tables(parts, promote_options="default")
