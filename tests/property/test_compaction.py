"""Compaction: the rewrite holds the rows that are live when it lands, whatever happened since it
was planned; and the choice of files ends."""

from __future__ import annotations

import array
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from spark_repl.delta.files import deletion_vector
from spark_repl.delta.files.delta_columns import Columns, schema_json, write_file
from spark_repl.delta.log.add_actions import AddActions
from spark_repl.write.files.compaction import (
    CompactTask,
    RewriteTask,
    compact,
    compaction_actions,
    rewrite,
)
from spark_repl.write.files.file_choice import choose_files
from spark_repl.write.files.key_index import KeyIndex, hash_keys
from spark_repl.write.files.write_task import LiveFile

SCHEMA = pa.schema([pa.field("id", pa.int32(), False), pa.field("v", pa.string())])
COLUMNS = Columns.of(schema_json(SCHEMA))
MARKS = st.sets(st.integers(0, 8))
# rows of a file; marked before the plan; marked between plan and commit; the file is gone by then
FILE = st.tuples(st.integers(1, 8), MARKS, MARKS, st.booleans())


def marked(folder: Path, add: dict[str, Any], rows: set[int]) -> dict[str, Any]:
    found = BitMap(array.array("I", sorted(rows)))
    stats = {**json.loads(add["stats"]), "tightBounds": False}
    vector = deletion_vector.write(str(folder), [found])[0] if rows else None
    return {**add, "deletionVector": vector, "stats": json.dumps(stats)} if rows else add


def live_rows(folder: Path, add: dict[str, Any]) -> list[tuple[Any, ...]]:
    rows = pq.read_table(folder / add["path"]).to_pylist()
    vector = add.get("deletionVector")
    dead = deletion_vector.read(str(folder), vector) if vector else BitMap()
    return [tuple(row.values()) for i, row in enumerate(rows) if i not in dead]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(FILE, min_size=1, max_size=5))
def test_what_goes_meanwhile_is_gone_in_the_new_file(
    tmp_path: Path, files: list[tuple[int, set[int], set[int], bool]]
) -> None:
    planned, live, want = [], {}, []
    for number, (count, before, since, gone) in enumerate(files):
        ids = pa.array(range(100 * number, 100 * number + count), pa.int32())
        rows = pa.table({"id": ids, "v": pa.array([f"v{i}" for i in ids.to_pylist()])})
        add = write_file(str(tmp_path), COLUMNS, rows)
        before = {row for row in before if row < count}
        after = before | {row for row in since if row < count}
        planned.append(LiveFile(add["path"], marked(tmp_path, add, before).get("deletionVector")))
        if not gone and len(after) < count:
            live[add["path"]] = marked(tmp_path, add, after)
            want += live_rows(tmp_path, live[add["path"]])
    keys = tmp_path / "keys"
    task = CompactTask(
        "t.p", str(tmp_path), str(keys), COLUMNS, SCHEMA, (COLUMNS.physical[0],), tuple(planned)
    )
    done = compact(task)
    actions = compaction_actions(done, str(tmp_path), live, vectors=True, now_ms=1)

    assert {a["remove"]["path"] for a in actions if "remove" in a} == live.keys()
    adds = [a["add"] for a in actions if "add" in a]
    assert bool(adds) == bool(want)
    assert [row for add in adds for row in live_rows(tmp_path, add)] == want
    assert not any(a[kind]["dataChange"] for a in actions for kind in a)
    for add in adds:
        index = KeyIndex(str(keys), str(tmp_path), [COLUMNS.physical[0]])
        hashes = hash_keys([pa.chunked_array([pa.array([want[-1][0]], pa.int32())])])
        (row,) = index.candidates(add["path"], hashes)[1]
        assert pq.read_table(tmp_path / add["path"]).to_pylist()[row]["id"] == want[-1][0]


def test_rows_that_went_meanwhile_where_a_table_has_no_vectors(tmp_path: Path) -> None:
    """The rewrite was in vain; it holds if none went."""
    rows = pa.table({"id": pa.array(range(4), pa.int32()), "v": pa.array(["x"] * 4)})
    old = write_file(str(tmp_path), COLUMNS, rows)
    files, key = (LiveFile(old["path"], None),), (COLUMNS.physical[0],)
    folder, keys = str(tmp_path), str(tmp_path / "keys")
    done = compact(CompactTask("t.p", folder, keys, COLUMNS, SCHEMA, key, files))
    gone = {old["path"]: marked(tmp_path, old, {1})}
    assert compaction_actions(done, folder, gone, vectors=False, now_ms=1) == []
    for vectors in (True, False):
        removed, added = compaction_actions(
            done, folder, {old["path"]: old}, vectors=vectors, now_ms=1
        )
        assert removed["remove"]["path"] == old["path"]
        assert "deletionVector" not in added["add"]


@given(FILE)
def test_what_is_left_of_a_file_is_in_the_new_one(
    tmp_path_factory: pytest.TempPathFactory, file: tuple[int, set[int], set[int], bool]
) -> None:
    """With its key index; there is none where nothing is left."""
    count, before, since, _ = file
    folder = tmp_path_factory.mktemp("rewrite")
    rows = pa.table({"id": pa.array(range(count), pa.int32()), "v": pa.array(["x"] * count)})
    old = write_file(str(folder), COLUMNS, rows)
    there = marked(folder, old, {row for row in before if row < count})
    live = LiveFile(old["path"], there.get("deletionVector"))
    key, keys = (COLUMNS.physical[0],), folder / "keys"
    task = CompactTask("t.p", str(folder), str(keys), COLUMNS, SCHEMA, key, (live,))
    gone = BitMap(array.array("I", sorted(row for row in since if row < count)))
    written = rewrite(RewriteTask(task, gone.serialize()))
    want = [row for row in range(count) if row not in before | since]
    assert written.gone == [old["path"]]
    assert [row for one in written.adds for row, _ in live_rows(folder, one)] == want
    assert len(written.adds) == bool(want)
    for one in written.adds:
        hashes = hash_keys([pa.chunked_array([pa.array(want, pa.int32())])])
        assert task.index.candidates(one["path"], hashes)[1].tolist() == list(range(len(want)))


def add(path: str, rows: int, dead: int = 0, size: int = 100) -> dict[str, Any]:
    vector = {"deletionVector": {"cardinality": dead}} if dead else {}
    return {"path": path, "size": size, "stats": json.dumps({"numRecords": rows}), **vector}


def choose(files: dict[str, dict[str, Any]], enough: int) -> list[list[str]]:
    return choose_files("", AddActions(None, files), enough)


@given(st.lists(st.tuples(st.integers(1, 1 << 20), st.integers(0, 1 << 20)), max_size=60))
def test_folding_comes_to_an_end_with_few_files(sizes: list[tuple[int, int]]) -> None:
    files = {str(i): add(str(i), live + dead, dead) for i, (live, dead) in enumerate(sizes)}
    for step in range(200):
        if not (chosen := choose(files, 4)):
            break
        (paths,) = chosen
        rows = [json.loads(files[p]["stats"])["numRecords"] for p in paths]
        dead = [files[p].get("deletionVector", {}).get("cardinality", 0) for p in paths]
        half_full = len(paths) > 1 and sum(rows) - sum(dead) >= 1_000_000
        assert (
            len(paths) >= 4 or half_full or any(d >= r - d for d, r in zip(dead, rows, strict=True))
        )
        for path in paths:
            del files[path]
        files[f"new{step}"] = add(f"new{step}", sum(rows) - sum(dead))
    assert not choose(files, 4)


def test_files_of_other_orders_of_magnitude_are_left_alone() -> None:
    files = {"big": add("big", 100_000), **{str(i): add(str(i), 50) for i in range(4)}}
    assert [sorted(paths) for paths in choose(files, 4)] == [["0", "1", "2", "3"]]
    assert choose(files, 5) == []
    half_dead = {**files, "big": add("big", 100_000, 60_000)}
    assert choose(half_dead, 9) == [["big"]]


def test_each_partition_is_folded_by_itself() -> None:
    """Whatever order others write the values in, and NULL as an empty text."""
    values: list[dict[str, Any]] = [
        {"a": "1", "b": None}, {"b": None, "a": "1"}, {"a": "1", "b": ""},
        {"a": "2", "b": "x"}, {"b": "x", "a": "2"}, {"a": "2", "b": "x"}, {"a": "3", "b": "x"},
    ]  # fmt: skip
    files = {str(i): {**add(str(i), 50), "partitionValues": v} for i, v in enumerate(values)}
    chosen = choose(files, 3)
    assert [sorted(paths) for paths in chosen] == [
        ["0", "1", "2"],
        ["3", "4", "5"],
    ]


@pytest.mark.slow
def test_each_row_is_rewritten_once_per_order_of_magnitude() -> None:
    files: dict[str, Any] = {}
    written = 0
    for number in range(4096):
        files[str(number)] = add(str(number), 10)
        while chosen := choose(files, 8):
            (paths,) = chosen
            rows = sum(json.loads(files.pop(path)["stats"])["numRecords"] for path in paths)
            files[f"{number}+{rows}"] = add(f"{number}+{rows}", rows)
            written += rows
    assert len(files) < 40
    assert written < 6 * 40960
