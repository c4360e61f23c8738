"""Copy-on-write, for tables without deletion vectors: a file that loses rows is written anew."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from ..binlog.definition import TableDefinition
from . import deletion_vector
from .columns import Columns, one_chunk, open_file, with_type, write_file
from .direct import LiveFile, Written
from .key_index import KeyIndex, hash_keys


@dataclass(frozen=True)
class RewriteTask:
    """``rows``: serialized roaring bitmap of the rows of ``file`` that go."""

    table: str
    folder: str
    index_folder: str
    columns: Columns
    definition: TableDefinition
    file: LiveFile
    rows: bytes


def rewrite(task: RewriteTask) -> Written:
    """What is left of the file as a new one, with its key index; none if nothing is left."""
    gone = BitMap.deserialize(task.rows)
    if task.file.vector is not None:  # from a time when the table had them
        gone |= deletion_vector.read(task.folder, task.file.vector)
    out = Written(task.table, gone=[task.file.path])
    with open_file(os.path.join(task.folder, task.file.path)) as file:
        stays = np.ones(file.metadata.num_rows, bool)
        stays[np.frombuffer(gone.to_array(), np.uint32)] = False
        if not stays.any():
            return out
        whole = file.read(columns=list(task.columns.physical)).filter(pa.array(stays))
    schema = task.definition.arrow_schema()
    arrays = [
        with_type(one_chunk(whole.column(name)), field.type)
        for name, field in zip(task.columns.physical, schema, strict=True)
    ]
    rows = pa.Table.from_arrays(arrays, schema=schema)
    add = write_file(task.folder, task.columns, rows)
    chosen = task.definition.primary_key or range(len(schema))
    physical = [task.columns.physical[i] for i in chosen]
    index = KeyIndex(task.index_folder, task.folder, physical)
    index.add(add["path"], hash_keys([rows.column(i) for i in chosen]))
    out.adds.append(add)
    return out
