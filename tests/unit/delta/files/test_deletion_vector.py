"""Deletion vectors: what was damaged is named, and no row goes twice."""

from __future__ import annotations

import struct
import time
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from spark_repl.delta.files import deletion_vector
from spark_repl.delta.files.deletion_vector import KeptVectors, bitmap_of
from spark_repl.delta.files.delta_columns import Columns, schema_json, write_file
from spark_repl.delta.store import storage
from spark_repl.errors import TargetError
from spark_repl.runtime.store_requests import request_counts
from spark_repl.runtime.wall_clock import SteadyTime
from spark_repl.write.files.commit import row_actions
from spark_repl.write.files.write_task import Written

COLUMNS = Columns.of(schema_json(pa.schema([pa.field("id", pa.int32())])))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sets(st.integers(0, 2**32 - 1), min_size=1), min_size=1, max_size=4))
def test_written_deletion_vectors_are_read(tmp_path: Path, marked: list[set[int]]) -> None:
    found = deletion_vector.write(str(tmp_path), [BitMap(sorted(rows)) for rows in marked])
    assert [set(deletion_vector.read(str(tmp_path), one)) for one in found] == marked


def test_every_flipped_bit_is_found(tmp_path):
    (descriptor,) = deletion_vector.write(str(tmp_path), [BitMap([1, 5, 70_000])])
    (path,) = tmp_path.glob("*.bin")
    whole = path.read_bytes()
    for at in range(1, len(whole)):  # behind the byte that says the file's version
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(TargetError, match="deletion vector"):
            deletion_vector.read(str(tmp_path), descriptor)


def test_a_vector_of_an_object_store_is_requested_once() -> None:
    """Not after this process wrote it, and once after another one did."""
    folder, other = (f"memory://lake/{uuid.uuid4()}" for _ in range(2))
    marked = [BitMap([1, 5, 70_000]), BitMap([2])]
    written = deletion_vector.write(folder, marked)
    (name,) = storage.names(folder)
    storage.put(f"{other}/{name}", storage.read(f"{folder}/{name}"))

    def requests_of_reading(folder: str) -> int:
        before = request_counts().get("get", 0)
        assert [deletion_vector.read(folder, one) for one in written] == marked
        return request_counts().get("get", 0) - before

    assert requests_of_reading(folder) == 0
    assert [requests_of_reading(other), requests_of_reading(other)] == [2, 0]


def test_the_last_vectors_of_so_many_bytes_are_kept() -> None:
    kept = KeptVectors(10)
    for offset, size in ((0, 4), (1, 4), (0, 5), (2, 5)):
        kept.put("memory://a", offset, bytes(size))
    assert [kept.get("memory://a", offset) for offset in range(3)] == [bytes(5), None, bytes(5)]
    kept.put("memory://a", 3, bytes(5))  # 0 was asked for before 2
    assert [kept.get("memory://a", offset) for offset in (0, 2, 3)] == [None, bytes(5), bytes(5)]
    kept.put("memory://a", 4, bytes(11))
    assert [kept.get("memory://a", offset) for offset in range(5)] == [None] * 5
    kept.put("/a/file", 0, b"1")  # a disk's own cache has it
    assert kept.get("/a/file", 0) is None


def test_every_kind_of_descriptor_is_read(tmp_path):
    """Other writers': with a folder of random letters, absolute, at a file's begin, and inline."""
    rows = {1, 5, 70_000}
    (own,) = deletion_vector.write(str(tmp_path), [BitMap(rows)])
    (path,) = tmp_path.glob("*.bin")
    whole = path.read_bytes()
    below = tmp_path / "ab" / path.name
    below.parent.mkdir()
    below.write_bytes(whole)
    begin = tmp_path / "begin.bin"
    begin.write_bytes(whole[1:])
    bare = {key: own[key] for key in ("sizeInBytes", "cardinality")}
    inline = deletion_vector._to_z85(whole[5:-4] + bytes(-len(whole[5:-4]) % 4))
    others = [
        {**own, "pathOrInlineDv": "ab" + own["pathOrInlineDv"]},
        {**own, "storageType": "p", "pathOrInlineDv": f"file:{tmp_path}/ab/{path.name}"},
        {**bare, "storageType": "p", "pathOrInlineDv": str(begin)},
        {**bare, "storageType": "i", "pathOrInlineDv": inline},
    ]
    path.unlink()
    assert all(set(deletion_vector.read(str(tmp_path), one)) == rows for one in others)


def test_a_deletion_vector_of_another_format_is_refused(tmp_path):
    other = deletion_vector._to_z85(struct.pack("<IQ", deletion_vector.MAGIC + 1, 0))
    descriptor = {"storageType": "i", "pathOrInlineDv": other, "sizeInBytes": 12}
    with pytest.raises(TargetError, match="unknown format"):
        deletion_vector.read(str(tmp_path), descriptor)


def commit_of(folder: Path, dead: list[int], marks: list[int]) -> list[dict[str, Any]]:
    """The actions of a commit that marks rows of a file in which ``dead`` are marked already."""
    add = write_file(str(folder), COLUMNS, pa.table({"id": pa.array(range(10), pa.int32())}))
    if dead:
        (add["deletionVector"],) = deletion_vector.write(str(folder), [BitMap(dead)])
    written = Written("t.a", marks={add["path"]: BitMap(marks).serialize()})
    commits: Any = SimpleNamespace(
        action=lambda table, path: add, time=SteadyTime(), inline_vector_bytes=0
    )
    table: Any = SimpleNamespace(name="t.a", folder=str(folder))
    return row_actions(commits, table, [written])


def test_a_row_goes_once(tmp_path):
    *_, action = commit_of(tmp_path, [1, 2], [3])
    assert set(deletion_vector.read(str(tmp_path), action["add"]["deletionVector"])) == {1, 2, 3}
    with pytest.raises(TargetError, match="removed twice"):
        commit_of(tmp_path, [1, 2], [2, 3])


def test_new_files_are_out_of_vacuums_reach(tmp_path):
    """VACUUM RETAIN 0 HOURS removes what is older than now and in no version."""
    commit_of(tmp_path, [1], [2])
    files = [*tmp_path.glob("*.bin"), *tmp_path.glob("*.parquet")]
    assert len(files) == 3
    assert all(path.stat().st_mtime > time.time() + 3000 for path in files)


def inline(vector: bytes) -> dict[str, Any]:
    text = deletion_vector._to_z85(vector + bytes(-len(vector) % 4))
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(vector)}


def test_vectors_without_the_one_bitmap_of_ours_are_read() -> None:
    """Without any bitmap, as of no rows; or with two, of which the second is of rows above 2^32,
    which no file has."""
    none = struct.pack("<IQ", deletion_vector.MAGIC, 0)
    assert not deletion_vector.read("", inline(none))
    small = BitMap([1, 7]).serialize()
    wide = struct.pack("<IQI", deletion_vector.MAGIC, 2, 0) + small
    wide += struct.pack("<I", 1) + BitMap().serialize()
    assert set(deletion_vector.read("", inline(wide))) == {1, 7}


def test_a_cut_off_inline_vector_is_an_error() -> None:
    """It has no check sum."""
    whole = struct.pack("<IQI", deletion_vector.MAGIC, 1, 0) + BitMap([1, 5, 70_000]).serialize()
    for length in range(4, len(whole)):
        with pytest.raises(TargetError, match="deletion vector is damaged"):
            deletion_vector.read("", inline(whole[:length]))


def test_a_bitmap_of_rows_in_any_order() -> None:
    rows = np.array([70_000, 3, 2**32 - 1, 5])
    assert list(bitmap_of(rows)) == sorted(rows.tolist())
    assert not bitmap_of(rows[:0])
    for wrong in (-1, 2**32):
        with pytest.raises(OverflowError, match="no deletion vector holds"):
            bitmap_of(np.array([7, wrong]))
