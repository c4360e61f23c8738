"""Staged streams in a store: large ones are ranges of an object, small ones travel."""

from __future__ import annotations

import pyarrow as pa

from spark_repl.decode.stage_task import Part, StagedObject
from spark_repl.runtime.object_store import ObjectStore

FOLDER = "memory://staged-objects/lake/_repl/staging/1/group-1"


def stream(rows: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as out:
        out.write_table(rows)
    return sink.getvalue()


def test_streams_are_read_back() -> None:
    tables = [pa.table({"n": range(count)}) for count in (20_000, 3, 30_000)]
    out = StagedObject(FOLDER, "worker-0")
    parts = [out.write(Part("t.a", 0, len(rows)), stream(rows)) for rows in tables]
    out.close()
    assert [part.blob is None for part in parts] == [True, False, True]
    assert parts[0].path == parts[2].path and parts[1].path is None
    assert [part.read() for part in parts] == tables
    assert len(ObjectStore().names(FOLDER)) == 1


def test_small_streams_write_no_object() -> None:
    folder = f"{FOLDER}-none"
    out = StagedObject(folder, "worker-0")
    out.write(Part("t.a", 0, 1), stream(pa.table({"n": [1]})))
    out.close()
    assert ObjectStore().names(folder) == []


def test_many_small_streams_are_in_an_object() -> None:
    """What travels is bounded."""
    rows = pa.table({"n": range(7000)})  # 56 kB
    out = StagedObject(f"{FOLDER}-many", "worker-0")
    parts = [out.write(Part("t.a", 0, 7000), stream(rows)) for _ in range(100)]
    out.close()
    travels = sum(len(part.blob) for part in parts if part.blob is not None)
    assert 3 << 20 < travels <= 4 << 20
    assert parts[-1].path is not None and parts[-1].read() == rows
