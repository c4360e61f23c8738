"""Clean-up of a table's log: each promised version stays readable, the rest goes, whatever happens
in between."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from spark_repl.delta.log import log_cleanup
from spark_repl.delta.log.add_actions import live_files
from spark_repl.delta.log.checkpoint_schedule import last
from spark_repl.delta.log.durable import Durable
from spark_repl.delta.log.log_cleanup import remove_commits
from tests.support.disk_steps import disk_steps

NEWEST = 29


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of 30 versions, a row each; those before the 20th are two days old. It has
    checkpoints at 12 and 24."""
    path = str(tmp_path_factory.mktemp("made") / "t")
    for number in range(NEWEST + 1):
        write_deltalake(path, pa.table({"id": [number]}), mode="append")
        if number in (12, 24):
            DeltaTable(path).create_checkpoint()
    for entry in Path(path, "_delta_log").iterdir():
        if entry.name[:20].isdigit() and int(entry.name[:20]) < 20:
            os.utime(entry, (0, time.time() - 48 * 3600))
    return path


@pytest.fixture
def folder(made: str, tmp_path: Path) -> str:
    return shutil.copytree(made, str(tmp_path / "t"))


def rows(folder: str, version: int) -> list[int]:
    table = DeltaTable(folder, version=version)
    return sorted(table.to_pyarrow_table().column("id").to_pylist())


def readable(folder: str) -> list[int]:
    """The versions that have all their rows."""
    found = []
    for version in range(NEWEST + 1):
        try:
            assert rows(folder, version) == list(range(version + 1))
        except Exception as error:
            assert not isinstance(error, AssertionError), f"version {version} lost rows"
            continue
        live = live_files(folder, version)
        assert live is not None and len(live) == version + 1
        found.append(version)
    return found


def names(folder: str, kind: str) -> list[int]:
    entries = Path(folder, "_delta_log").glob(f"*.{kind}")
    return sorted(int(entry.name[:20]) for entry in entries)


def from_ahead(folder: str, *versions: int) -> None:
    """The clock was a week ahead when these were written."""
    for version in versions:
        at = time.time() + 7 * 24 * 3600
        os.utime(Path(folder, "_delta_log", f"{version:020d}.json"), (at, at))


def clean(folder: str, *keep: int, begin: int | None = None) -> int:
    return remove_commits(
        folder, Durable(os.path.dirname(folder)), before=time.time() - 3600, keep=keep, begin=begin
    )


def test_protected_checkpoints_go_at_once_or_stay(folder: str) -> None:
    """Delta's feature checkpointProtection, which DROP FEATURE leaves on a table."""
    durable, at = Durable(os.path.dirname(folder)), time.time() - 3600
    assert remove_commits(folder, durable, before=at, protected=13) == 0
    assert remove_commits(folder, durable, before=at, protected=12, keep=[3]) == 0
    assert names(folder, "checkpoint.parquet") == [12, 24]
    assert remove_commits(folder, durable, before=at, protected=12) == 12


def test_a_checkpoint_that_young_versions_need_stays(folder: str) -> None:
    """The 20th is the oldest young one, and stands on the checkpoint at 12."""
    assert clean(folder) == 12
    assert names(folder, "json") == list(range(12, NEWEST + 1))
    assert readable(folder) == list(range(12, NEWEST + 1))
    assert clean(folder) == 0


def test_promised_versions_stay_readable_after_a_clean_up(folder: str) -> None:
    assert clean(folder, 0, 3, 7, 11, 15, 27) == 8
    assert readable(folder) == [0, 3, 7, 11, *range(12, NEWEST + 1)]
    assert names(folder, "checkpoint.parquet") == [0, 3, 7, 11, 12, 24]
    write_deltalake(folder, pa.table({"id": [NEWEST + 1]}), mode="append")
    assert rows(folder, NEWEST + 1) == list(range(NEWEST + 2))
    assert clean(folder, 7) == 3, "of which three are promised no more"
    assert readable(folder) == [7, *range(12, NEWEST + 1)]
    assert names(folder, "checkpoint.parquet")[:2] == [7, 12]


def test_what_was_written_at_that_very_time_is_young(folder: str) -> None:
    for version, gone in ((23, 12), (24, 12)):
        at = Path(folder, "_delta_log", f"{version:020d}.json").stat().st_mtime
        durable = Durable(os.path.dirname(folder))
        assert remove_commits(folder, durable, before=at) == gone


def test_one_commit_of_a_clock_that_was_ahead_holds_nothing_back(folder: str) -> None:
    """It is as old as those around it; the newest ones may be young, whatever their clock said."""
    from_ahead(folder, 5, 27, 28, 29)
    clean(folder)
    assert readable(folder) == list(range(12, NEWEST + 1))


def test_a_log_whose_clock_was_ahead_stays(folder: str) -> None:
    from_ahead(folder, *range(2, NEWEST + 1))
    clean(folder)
    assert readable(folder) == list(range(NEWEST + 1))


def test_commits_that_a_start_reads_stay(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_cleanup, "_APART", 1)
    assert clean(folder, begin=5) == 0
    assert clean(folder, begin=13) == 12


def test_what_stays_is_on_the_disk_before_anything_goes(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It syncs the checkpoint that replaces the removed commits, that of a promised version, and
    the folder that names both."""
    steps = disk_steps(monkeypatch)
    clean(folder, 3)
    first = next(number for number, step in enumerate(steps) if step.what == "remove")
    before = [step.name for step in steps[:first] if step.what == "sync"]
    for version in (3, 12, 24):
        assert f"{version:020d}.checkpoint.parquet" in before
    assert before[-2:] == ["_last_checkpoint", "_delta_log"]
    named = before[: before.index("_last_checkpoint")]
    assert named[-1] == "_delta_log", "the hint names a checkpoint that is there"
    assert all(step.what == "remove" for step in steps[first:])
    steps.clear()
    clean(folder, 3)
    assert steps == [], "nothing went"


def test_an_idle_clean_up_syncs_nothing(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle tables cost no disk."""
    clean(folder)
    steps = disk_steps(monkeypatch)
    assert clean(folder) == 0
    assert not steps


def test_what_was_written_at_that_moment_stays(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit is removed that was written before it."""
    monkeypatch.setattr(log_cleanup, "_APART", 1)
    at = int(time.time()) - 48 * 3600
    for version in range(20):
        os.utime(Path(folder, "_delta_log", f"{version:020d}.json"), (0, at))
    durable = Durable(os.path.dirname(folder))
    assert remove_commits(folder, durable, before=at) == 0
    assert remove_commits(folder, durable, before=at + 1) == 12


def test_nothing_goes_without_a_checkpoint(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    (tmp_path / "t/_delta_log").mkdir(parents=True)
    assert remove_commits(path, Durable(str(tmp_path)), before=time.time() + 60) == 0
    for number in range(5):
        write_deltalake(path, pa.table({"id": [number]}), mode="append")
    assert remove_commits(path, Durable(str(tmp_path)), before=time.time() + 60) == 0
    DeltaTable(path).create_checkpoint()
    assert remove_commits(path, Durable(str(tmp_path)), before=time.time() + 60) == 4
    assert rows(path, 4) == list(range(5))
    assert remove_commits(path, Durable(str(tmp_path)), before=0) == 0


def test_checksums_of_old_versions_go(folder: str) -> None:
    log = Path(folder, "_delta_log")
    for number in range(NEWEST + 1):
        (log / f"{number:020d}.crc").write_text("{}")
        if number < 27:
            os.utime(log / f"{number:020d}.crc", (0, time.time() - 3700))
    clean(folder, 3)
    assert names(folder, "crc") == [27, 28, 29]


def test_few_files_are_asked_when_they_were_written(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One behind those that go, not all that stay."""
    for number in range(NEWEST + 1):
        Path(folder, "_delta_log", f"{number:020d}.crc").touch()
    asked = list[str]()
    true = log_cleanup.modified
    monkeypatch.setattr(log_cleanup, "modified", lambda path: asked.append(path) or true(path))
    assert clean(folder) == 12
    assert len(asked) == 20 + 1 + 1, "commits up to the first young one, and a checksum"
    asked.clear()
    assert clean(folder) == 0
    assert len(asked) == 8 + 1 + 1


def test_a_part_that_is_gone_meanwhile(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits go on beside the clean-up: theirs is renamed behind the listing."""
    true, part = log_cleanup.listed, f".{NEWEST + 1:020d}.json.ab.tmp"
    monkeypatch.setattr(log_cleanup, "listed", lambda path: {**true(path), part: None})
    assert clean(folder) == 12


def test_files_of_killed_commits_are_removed(folder: str) -> None:
    log = Path(folder, "_delta_log")
    names = [".1.json.ab.tmp", "..1.json.ab.tmp.crc", f"{30:020d}.json#1", "_commit_ab.json.tmp"]
    for name in [*names, *(f"young{name}" for name in names[2:3]), "other.tmp"]:
        (log / name).touch()
        os.utime(log / name, (0, time.time() - (3600 if "young" in name else 25 * 3600)))
    before = {path.name for path in log.iterdir() if not path.name[:20].isdigit()}
    clean(folder)
    left = {path.name for path in log.iterdir()}
    assert before - left == set(names[:2] + names[3:]) and f"{30:020d}.json#1" not in left


def test_checkpoints_are_thinned_where_few_commits_lie_between(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The base's and the newest one stay, those that a reader may just have found, and one for so
    many commits."""
    for number in (14, 15, 16, 18, 19, 21, 26):
        DeltaTable(folder, version=number).create_checkpoint()
        if number != 21:
            path = Path(folder, "_delta_log", f"{number:020d}.checkpoint.parquet")
            os.utime(path, (0, time.time() - 3700))
    monkeypatch.setattr(log_cleanup, "_APART", 4)
    clean(folder, 3, begin=13)
    assert names(folder, "checkpoint.parquet") == [3, 12, 16, 21, 24, 26]
    assert readable(folder) == [3, *range(12, NEWEST + 1)]


def test_the_checkpoint_that_the_hint_names_stays(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody was cut off between two hints: it names one in the midst. So does the newest one,
    which readers find that list the log."""
    for number in (14, 16, 24):
        if number < 24:
            DeltaTable(folder, version=number).create_checkpoint()
        path = Path(folder, "_delta_log", f"{number:020d}.checkpoint.parquet")
        os.utime(path, (0, time.time() - 3700))
    monkeypatch.setattr(log_cleanup, "_APART", 10)
    hint = Path(folder, "_delta_log", "_last_checkpoint")
    hint.write_text(hint.read_text().replace('"version":24', '"version":16'))
    os.utime(Path(folder, "_delta_log", f"{24:020d}.checkpoint.parquet"), (0, time.time() - 3700))
    assert last(folder) == 16
    clean(folder, begin=13)
    assert names(folder, "checkpoint.parquet") == [12, 16, 24], "the newest one stays, too"


@pytest.mark.parametrize("left", [b"", bytes(5000)])
def test_nothing_stands_on_a_checkpoint_that_is_not_whole(folder: str, left: bytes) -> None:
    """Its bytes were not on the disk when the power failed. It goes, as delta-rs would take it."""
    for version in (3, 16):
        Path(folder, "_delta_log", f"{version:020d}.checkpoint.parquet").write_bytes(left)
    assert clean(folder, 3) == 11
    assert readable(folder) == [3, *range(12, NEWEST + 1)]
    assert names(folder, "checkpoint.parquet") == [3, 12, 24]


@pytest.mark.parametrize("after", range(0, 24, 5))
def test_promised_versions_stay_readable_if_a_clean_up_is_killed(
    folder: str, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """Whatever was removed before it ended: promised versions are whole, and the next one ends
    it."""
    left = [after]
    true = os.remove

    def remove(path: str) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        true(path)

    (Path(folder, "_delta_log") / "_last_checkpoint").write_text(json.dumps({"version": 3}))
    monkeypatch.setattr(os, "remove", remove)
    with pytest.raises(KeyboardInterrupt):
        for keep in ((3, 7), (7,)):
            clean(folder, *keep)
        raise KeyboardInterrupt
    assert {7, *range(12, NEWEST + 1)} <= set(readable(folder))
    monkeypatch.undo()
    clean(folder, 7)
    assert last(folder) == NEWEST, "the hint names a checkpoint that is there"
    assert readable(folder) == [7, *range(12, NEWEST + 1)]
