"""What a power failure leaves of the newest commits goes; what anybody stands on, or may be
writing, stays and is refused by its name."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_repl.delta.log import empty_commits
from spark_repl.delta.log.empty_commits import remove_empty_commits
from spark_repl.delta.log.log_replay import commit_path
from spark_repl.errors import TargetError
from tests.support.v2_checkpoint import write_parts, write_v2
from tests.unit.delta.log.test_log_state import Table, add


def _table(folder: Path, *texts: str, age_s: float = 600) -> str:
    (folder / "_delta_log").mkdir()
    for version, text in enumerate(texts):
        path = commit_path(str(folder), version)
        Path(path).write_text(text)
        os.utime(path, (time.time() - age_s,) * 2)
    return str(folder)


def _left(folder: Path) -> list[str]:
    return sorted(path.name.lstrip("0")[:6] for path in (folder / "_delta_log").iterdir())


def test_the_newest_go_with_their_checksums(tmp_path):
    table = _table(tmp_path, "{}", "{}", "", "")
    for name in (f"{2:020d}.crc", f".{3:020d}.json.crc"):
        (tmp_path / "_delta_log" / name).write_bytes(b"x")
    assert remove_empty_commits(table, 1) == [3, 2]
    assert _left(tmp_path) == [".json", "1.json"]
    assert remove_empty_commits(table, 1) == []


@pytest.mark.parametrize("name", ["{}.crc", ".{}.crc.crc", ".{}.json.crc"])
def test_a_commit_goes_behind_its_checksums(tmp_path, name):
    """Else the next commit of that version would have another's checksum."""
    table = _table(tmp_path, "{}", "")
    (tmp_path / "_delta_log" / name.format(f"{1:020d}")).mkdir()  # which can not be unlinked
    with pytest.raises(OSError, match=r"irectory|not permitted"):
        remove_empty_commits(table, 0)
    assert Path(commit_path(table, 1)).exists()


def test_one_with_a_commit_behind_it_stays(tmp_path):
    assert remove_empty_commits(_table(tmp_path, "{}", "", "{}"), -1) == []
    assert len(_left(tmp_path)) == 3


def test_what_a_cut_or_a_checkpoint_stands_on_is_refused(tmp_path):
    table = _table(tmp_path, "{}", "")
    with pytest.raises(TargetError, match="a cut or a checkpoint"):
        remove_empty_commits(table, 1)
    pq.write_table(pa.table({"add": [1]}), tmp_path / "_delta_log" / f"{1:020d}.checkpoint.parquet")
    with pytest.raises(TargetError, match="a cut or a checkpoint"):
        remove_empty_commits(table, 0)
    assert len(_left(tmp_path)) == 3


@pytest.mark.parametrize("left", [b"", bytes(2000)])
def test_on_a_checkpoint_that_is_not_whole_nothing_stands(tmp_path, left):
    """It was written behind the commit, and is lost as that is."""
    table = _table(tmp_path, "{}", "")
    (tmp_path / "_delta_log" / f"{1:020d}.checkpoint.parquet").write_bytes(left)
    assert remove_empty_commits(table, 0) == [1]


def test_one_that_somebody_may_be_writing_is_refused(tmp_path):
    with pytest.raises(TargetError, match="may be writing"):
        remove_empty_commits(_table(tmp_path, "{}", "", age_s=1), 0)
    assert len(_left(tmp_path)) == 2


@pytest.mark.parametrize(("shown", "checkpoint"), [(95, 0), (-1, 95), (4, 95), (95, 4)])
def test_an_old_log_is_not_listed(tmp_path, monkeypatch, shown, checkpoint):
    """From the cut, or the last checkpoint, on a few names are asked for."""
    table, asked = _table(tmp_path, *["{}"] * 100), []
    if checkpoint:
        (tmp_path / "_delta_log" / "_last_checkpoint").write_text(f'{{"version": {checkpoint}}}')
    true = os.path.exists
    monkeypatch.setattr(
        empty_commits, "newest_and_names", lambda folder: pytest.fail("the log is listed")
    )
    monkeypatch.setattr(os.path, "exists", lambda path: asked.append(path) or true(path))
    assert remove_empty_commits(table, shown) == []
    assert len(asked) == 6 + 8


def test_an_empty_commit_after_missing_names_is_removed(tmp_path):
    """A file system may bring a later name back, not an earlier one."""
    table = _table(tmp_path, "{}", "{}", "{}", "")
    os.remove(commit_path(table, 2))
    assert remove_empty_commits(table, 1) == [3]
    assert _left(tmp_path) == [".json", "1.json"]


def test_the_last_one_is_found_without_a_place_to_begin_at(tmp_path):
    """Another process removed the commits that a cut names, or the hint is wrong."""
    table = _table(tmp_path, "{}", "{}", "")
    os.remove(commit_path(table, 0))
    (tmp_path / "_delta_log" / "_last_checkpoint").write_text('{"version": 7}')
    assert remove_empty_commits(table, -1) == [2]


def test_a_folder_without_a_log_has_no_empty_commit(tmp_path):
    assert remove_empty_commits(str(tmp_path / "none"), -1) == []
    assert remove_empty_commits("s3a://bucket/t", -1) == []


@pytest.mark.parametrize("kind", ["json", "parquet", "parts"])
def test_an_empty_commit_that_a_checkpoint_of_another_kind_stands_on(
    tmp_path: Path, kind: str
) -> None:
    table = Table(tmp_path / "t")
    table.commit(add("a"))
    write_parts(table.folder) if kind == "parts" else write_v2(table.folder, kind=kind)
    path = Path(commit_path(table.folder, 1))
    path.write_bytes(b"")
    os.utime(path, (1, 1))
    with pytest.raises(TargetError, match="a checkpoint stands on it"):
        remove_empty_commits(table.folder, -1)
    assert path.exists()
