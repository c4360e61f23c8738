"""A table's log, read from its own files: positions, live files, checkpoints, and what is gone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_repl.delta.log_replay import (
    commits_after,
    last_txn,
    last_user_metadata,
    live_files,
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


def test_the_newest_position_counts(log):
    folder = log(1, 2, None, None)
    assert last_txn(folder, 3, APP) == 2
    assert last_txn(folder, 0, APP) == 1
    assert last_txn(folder, 3, "another") is None
    assert last_user_metadata(folder, 3, APP) == "said 2"
    assert last_user_metadata(folder, 3, "another") is None


def test_commits_that_are_gone_tell_nothing(log):
    folder = log(1, 2, None, None)
    lose(folder, 2)
    with pytest.raises(LookupError):
        last_txn(folder, 3, APP)
    assert last_user_metadata(folder, 3, APP) is None
    assert live_files(folder, 3) is None
    with pytest.raises(TargetError, match="version 2 of the table's log is gone"):
        commits_after(folder, 0, 3)
    assert len(commits_after(folder, 2, 3)) == 1


def test_positions_are_looked_for_in_64_versions(log):
    assert last_txn(log(7, *[None] * 63), 63, APP) == 7


def test_a_position_further_back_is_left_to_spark(log):
    folder = log(7, *[None] * 64)
    with pytest.raises(LookupError):
        last_txn(folder, 64, APP)


def test_live_files_begin_behind_a_checkpoint(log, tmp_path):
    folder = log(*[None] * 70)
    names = {f"f{version}" for version in range(70)}
    assert (live_files(folder, 69) or {}).keys() == names
    lose(folder, 0)
    assert live_files(folder, 69) is None
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


@pytest.mark.parametrize(
    ("said", "columns", "known"),
    [
        ({"version": 1}, {}, True),
        ({"version": 1}, {"sidecar": [None]}, True),
        ({"version": 1}, {"sidecar": ["elsewhere"]}, False),
        ({"version": 1, "parts": 2}, {}, False),
        ({"version": 1, "v2Checkpoint": {"path": "elsewhere"}}, {}, False),
        ({"version": 0}, {}, True),  # there is none: another one is looked for
        ({"version": 3}, {}, True),  # of a later version: there is one before
        (None, {}, True),  # it is lost since the power failed: one is looked for
        (None, {"sidecar": ["elsewhere"]}, False),
    ],
)
def test_checkpoints_of_other_kinds_are_left_to_spark(log, tmp_path, said, columns, known):
    folder = log(None, None, None, None)
    for version in (0, 1):
        lose(folder, version)
    adds = pa.table({"add": [{"path": "f0", "size": 1}], **columns})
    for version in (1, 3):
        pq.write_table(adds, tmp_path / "_delta_log" / f"{version:020d}.checkpoint.parquet")
    if said is not None:
        says(tmp_path, **said)
    found = live_files(folder, 2)
    assert found is None if not known else (found or {}).keys() == {"f0", "f2"}


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
    """Both ends are there, and what lies before the last one, or behind the first, is not."""
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


def test_a_commit_without_commit_info_says_nothing(log):
    folder = log(1)
    path = Path(folder, "_delta_log", f"{1:020d}.json")
    path.write_text(json.dumps({"txn": {"appId": APP, "version": 2}}))
    assert last_txn(folder, 1, APP) == 2
    assert last_user_metadata(folder, 1, APP) is None
