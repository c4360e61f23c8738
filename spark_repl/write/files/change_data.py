"""Change files of Delta's change data feed: what a commit did to each row of a shard.

Protocol: section "Add CDC File". If a commit has such files, its readers take the changes from them
only. So a file has every change of the shard, including INSERTs. Old rows are read from the files
in which they are marked: readers of the feed see the same values leave as readers of the table.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from ...delta.files.delta_columns import Columns, read_rows, with_type
from ...delta.files.new_file import new_file
from ...delta.store.storage import make_folder

if TYPE_CHECKING:
    from ...delta.files.partitions import Values

_FOLDER = "_change_data"
_CHANGE_TYPE = "_change_type"

Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def write_changes(
    folder: str,
    columns: Columns,
    old: Mapping[str, tuple[Longs, Bools]],
    new: pa.Table,
    replaces: Bools,
) -> list[dict[str, Any]]:
    """Write one change file, or one for each partition, and return Delta's ``cdc`` actions.
    ``old``: data file -> its removed rows, and whether a row of ``new`` replaces each; ``replaces``
    [n]: whether a row of ``new`` replaces an old one."""
    after = columns.rename(new)
    parts = [_typed(after, replaces, "update_postimage", "insert")]
    for path, (rows, replaced) in old.items():
        arrays = read_rows(folder, path, columns.physical, rows)
        kinds = [field.type for field in after.schema]
        typed = [with_type(a, kind) for a, kind in zip(arrays, kinds, strict=True)]
        before = pa.Table.from_arrays(typed, schema=after.schema)
        parts.append(_typed(before, replaced, "update_preimage", "delete"))
    make_folder(os.path.join(folder, _FOLDER))
    return [_write(folder, *part) for part in columns.split(pa.concat_tables(parts))]


def _write(folder: str, values: Values, changes: pa.Table) -> dict[str, Any]:
    name = f"{_FOLDER}/cdc-{uuid.uuid4()}.zstd.parquet"
    with new_file(os.path.join(folder, name)) as file:
        pq.write_table(changes, file, compression="zstd")
        size = file.tell()
    return {"path": name, "partitionValues": values, "size": size, "dataChange": False}


def _typed(rows: pa.Table, which: Bools, yes: str, no: str) -> pa.Table:
    kind = pa.DictionaryArray.from_arrays(pa.array(which.astype(np.int8)), pa.array([no, yes]))
    return rows.append_column(_CHANGE_TYPE, kind.cast(pa.string()))
