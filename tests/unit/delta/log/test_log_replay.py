"""A table's log, read from its own files: positions, live files, checkpoints, and what is gone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_repl.delta.log.add_actions import live_files
from spark_repl.delta.log.log_replay import (
    commits_after,
    last_user_metadata,
)
from spark_repl.errors import TargetError
from tests.support.local_delta import put

APP = "spark_repl:default"
ROWS = {"path": "theirs", "size": 1, "dataChange": True, "partitionValues": {}}


@pytest.fixture
def log(tmp_path: Path) -> Callable[..., str]:
    """Commits with these positions (None: somebody else's), each with a file of its own."""

    def write(*positions: int | None) -> str:
        for version, position in enumerate(positions):
            app = "" if position is None else APP
            adds = [{"add": {**ROWS, "path": f"f{version}"}}]
            put(str(tmp_path), version, adds, app, position or 0, f"said {position}")
        return str(tmp_path)

    return write


def lose(folder: str, version: int) -> None:
    Path(folder, "_delta_log", f"{version:020d}.json").unlink()


def test_the_newest_commit_counts(log):
    folder = log(1, 2, None, None)
    assert last_user_metadata(folder, 3, APP) == "said 2"
    assert last_user_metadata(folder, 3, "another") is None


def test_commits_that_are_gone_tell_nothing(log):
    folder = log(1, 2, None, None)
    lose(folder, 2)
    assert last_user_metadata(folder, 3, APP) is None
    with pytest.raises(TargetError, match="version 2 of the table's log is gone"):
        live_files(folder, 3)
    with pytest.raises(TargetError, match="version 2 of the table's log is gone"):
        commits_after(folder, 0, 3)
    assert len(commits_after(folder, 2, 3)) == 1


def test_live_files_begin_behind_a_checkpoint(log, tmp_path):
    folder = log(*[None] * 70)
    names = {f"f{version}" for version in range(70)}
    assert live_files(folder, 69).keys() == names
    lose(folder, 0)
    with pytest.raises(TargetError, match="version 0"):
        live_files(folder, 69)
    put(folder, 70, [{"remove": {"path": "f3"}}, {"add": {**ROWS, "path": "f69", "size": 2}}])
    vector = {"storageType": "u", "pathOrInlineDv": "x", "offset": None, "sizeInBytes": 1}
    adds: list[Any] = [{"path": f"f{v}", "size": 1, "stats": None} for v in range(10)]
    adds[4] |= {"partitionValues": [("p", "1")], "deletionVector": vector, "tags": [("k", "v")]}
    kept = pa.struct(
        [
            ("path", pa.string()), ("size", pa.int64()), ("stats", pa.string()),
            ("partitionValues", pa.map_(pa.string(), pa.string())),
            ("tags", pa.map_(pa.string(), pa.string())), ("stats_parsed", pa.int64()),
            ("deletionVector", pa.struct(
                [("storageType", pa.string()), ("pathOrInlineDv", pa.string()),
                 ("offset", pa.int32()), ("sizeInBytes", pa.int32())])),
        ]
    )  # fmt: skip
    place = tmp_path / "_delta_log"
    checkpoint = pa.table({"add": pa.array([*adds, None], kept)})
    pq.write_table(checkpoint, place / f"{9:020d}.checkpoint.parquet")
    says(tmp_path, version=9)
    for version in range(1, 10):
        lose(folder, version)
    found = live_files(folder, 70) or {}
    assert found.keys() == names - {"f3"}
    assert found["f69"]["size"] == 2
    del vector["offset"]
    assert found["f4"] == {
        "path": "f4", "size": 1, "partitionValues": {"p": "1"}, "tags": {"k": "v"},
        "deletionVector": vector,
    }  # fmt: skip
    assert (live_files(folder, 9) or {}).keys() == {f"f{v}" for v in range(10)}


def says(folder: Path, **said: Any) -> None:
    (folder / "_delta_log" / "_last_checkpoint").write_text(json.dumps(said))


def write_checkpoint(path: Path, *adds: str, sidecars: tuple[str, ...] = ()) -> None:
    """Write a part of a checkpoint, or a manifest, as Parquet or as JSON."""
    lines = [{"add": {"path": name, "size": 1}} for name in adds]
    lines += [{"sidecar": {"path": name, "sizeInBytes": 1}} for name in sidecars]
    if path.suffix == ".json":
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return
    kinds = {"add": ("path", "size"), "sidecar": ("path", "sizeInBytes")}
    types = {
        kind: pa.struct({text: pa.string(), number: pa.int64()})
        for kind, (text, number) in kinds.items()
    }
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(lines, schema=pa.schema(types)), path)


ONE_FILE = f"{1:020d}.checkpoint.parquet"
PART = f"{1:020d}.checkpoint.{{:010d}}.0000000002.parquet"
MANIFEST = f"{1:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11"
HINTS: list[dict[str, Any] | None] = [
    {"version": 1},
    None,  # a power failure has taken it
    {"version": 0},  # there is none of this version
    {"version": 3},  # a later version than is asked for
]


@pytest.mark.parametrize("hint", HINTS)
@pytest.mark.parametrize("kind", ["one file", "parts", "parquet manifest", "json manifest"])
def test_live_files_begin_with_every_kind_of_checkpoint(log, tmp_path, kind, hint):
    folder = log(None, None, None, None)
    for version in (0, 1):
        lose(folder, version)
    place = tmp_path / "_delta_log"
    hint = None if hint is None else dict(hint)
    if kind == "one file":
        write_checkpoint(place / ONE_FILE, "f0", "f1")
    elif kind == "parts":
        write_checkpoint(place / PART.format(1), "f0")
        write_checkpoint(place / PART.format(2), "f1")
        if hint and hint["version"] == 1:
            hint["parts"] = 2
    else:
        name = f"{MANIFEST}.{kind.split()[0]}"
        write_checkpoint(place / name, sidecars=("a.parquet", "b.parquet"))
        write_checkpoint(place / "_sidecars" / "a.parquet", "f0")
        write_checkpoint(place / "_sidecars" / "b.parquet", "f1")
        if hint and hint["version"] == 1:
            hint["v2Checkpoint"] = {"path": name}
    if hint:
        says(tmp_path, **hint)
    assert live_files(folder, 2).keys() == {"f0", "f1", "f2"}


def test_a_checkpoint_that_lacks_a_part_is_none(log, tmp_path):
    folder = log(None, None, None)
    write_checkpoint(tmp_path / "_delta_log" / PART.format(2), "f1")
    says(tmp_path, version=1, parts=2)
    assert live_files(folder, 2).keys() == {"f0", "f1", "f2"}


@pytest.mark.parametrize("named", [3, None])
@pytest.mark.parametrize("left", [b"", bytes(2000), b"PAR1" + bytes(2000)])
def test_a_checkpoint_that_is_not_whole_is_none(log, tmp_path, named, left):
    """Its bytes were not on the disk when the power failed: the commits are there."""
    folder = log(*[None] * 5)
    lose(folder, 0)
    place = tmp_path / "_delta_log"
    adds = pa.table({"add": [{"path": "f0", "size": 1}]})
    pq.write_table(adds, place / f"{1:020d}.checkpoint.parquet")
    (place / f"{3:020d}.checkpoint.parquet").write_bytes(left)
    if named:
        says(tmp_path, version=named)
    assert (live_files(folder, 4) or {}).keys() == {"f0", "f2", "f3", "f4"}


@pytest.mark.parametrize("lost", ["pages", "footer"])
def test_a_checkpoint_with_other_damage_is_refused_by_name(log, tmp_path, lost):
    """Both ends of the file exist, and the bytes before the last one, or after the first one, are
    missing."""
    folder = log(None, None, None)
    lose(folder, 0)
    path = tmp_path / "_delta_log" / f"{1:020d}.checkpoint.parquet"
    pq.write_table(pa.table({"add": [{"path": "f0", "size": 1}]}), path)
    whole = path.read_bytes()
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    begin, end = (4, footer) if lost == "pages" else (footer, len(whole) - 8)
    path.write_bytes(whole[:begin] + bytes(end - begin) + whole[end:])
    with pytest.raises(TargetError, match="checkpoint of version 1") as found:
        live_files(folder, 2)
    assert found.value.file == str(path) and found.value.hint


@pytest.mark.parametrize("content", ['{"add": {"pa', "\udcff"])
def test_a_damaged_commit_is_named(log, content):
    """A writer without atomic renames, or a failure of the disk, leaves half of one."""
    folder = log(1, 2)
    path = Path(folder, "_delta_log", f"{1:020d}.json")
    path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(TargetError, match="version 1 of the table's log is damaged") as found:
        live_files(folder, 1)
    assert found.value.file == str(path) and found.value.hint


def test_a_commit_without_commit_info_says_nothing(log):
    folder = log(1)
    path = Path(folder, "_delta_log", f"{1:020d}.json")
    path.write_text(json.dumps({"txn": {"appId": APP, "version": 2}}))
    assert last_user_metadata(folder, 1, APP) is None
