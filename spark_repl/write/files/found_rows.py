"""Rows that a worker has found for others: kept in a file, with where each lies."""

from __future__ import annotations

import os
import uuid

import pyarrow as pa

from ...decode.part import Part

FILE, ROW = "file", "row"
"""Columns of a row that was found, behind the table's own: where it lies."""


def kept(name: str, rows: pa.Table, folder: str) -> Part:
    """``rows`` as a Part, in a file of its own."""
    path = os.path.join(folder, f"cascade-{uuid.uuid4().hex}.arrow")
    with pa.OSFile(path, "wb") as sink:
        with pa.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_table(rows)
        size = sink.tell()
    return Part(name, 0, len(rows), path=path, length=size, whole=True)
