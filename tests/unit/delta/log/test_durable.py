"""What is synced of a table, in which order, and that a sync which failed is never believed."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_repl.delta.files import deletion_vector
from spark_repl.delta.files.new_file import new_file
from spark_repl.delta.log.durable import Durable
from tests.support.disk_steps import disk_steps
from tests.support.local_delta import put


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], list[str]]:
    """The files and folders that were synced since it was asked last, without repetitions."""
    true, seen = os.fsync, list[str]()

    def fsync(fd: int) -> None:
        seen.append(os.path.relpath(os.readlink(f"/proc/self/fd/{fd}"), tmp_path))
        true(fd)

    def said() -> list[str]:
        found = list(dict.fromkeys(seen))
        seen.clear()
        return found

    monkeypatch.setattr(os, "fsync", fsync)
    return said


@pytest.fixture
def table(tmp_path: Path) -> Path:
    folder = tmp_path / "lake/t/a"
    commit(folder, 0)
    return folder


def commit(folder: Path, version: int, inner: str = "", **more: Any) -> None:
    path = folder / inner / f"{version}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    put(str(folder), version, [{"add": {"path": str(path.relative_to(folder)), **more}}])


def log(version: int) -> str:
    return f"lake/t/a/_delta_log/{version:020d}.json"


def test_all_at_first_then_what_is_new(
    table: Path, tmp_path: Path, synced: Callable[[], list[str]]
) -> None:
    durable = Durable(str(tmp_path / "lake"))
    (table / "theirs.parquet").touch()
    synced()
    durable.sync(str(table))
    found = synced()
    above = {"lake/t", "lake", "."}
    assert set(found[:2]) == {"lake/t/a/0.parquet", "lake/t/a/theirs.parquet"}
    assert found[2:5] == ["lake/t/a", log(0), "lake/t/a/_delta_log"] and set(found[5:]) == above
    durable.sync(str(table))
    assert synced() == [] and durable.newest(str(table)) == 0
    (vector,) = deletion_vector.write(str(table), [deletion_vector.BitMap([1])])
    commit(table, 1, "p=x", deletionVector=vector)
    (table / "_change_data").mkdir()
    (table / "_change_data/2.parquet").touch()
    changes = {"cdc": {"path": "_change_data/2.parquet"}}
    put(str(table), 2, [changes, {"remove": {"path": "0.parquet"}}])
    marks = os.path.relpath(deletion_vector.path_of(str(table), vector) or "", tmp_path)
    synced()
    durable.sync(str(table))
    found = synced()
    files = {"lake/t/a/p=x/1.parquet", marks, "lake/t/a/_change_data/2.parquet"}
    assert set(found[:3]) == files
    assert set(found[3:6]) == {"lake/t/a", "lake/t/a/p=x", "lake/t/a/_change_data"}
    assert set(found[6:8]) == {log(1), log(2)} and found[8:] == ["lake/t/a/_delta_log"]


def test_of_several_tables_each_folder_above_is_synced_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each table's files before its commits, and these before the folders."""
    names, seen = [f"t/{n}" for n in range(150)], list[str]()
    for name in names:
        commit(tmp_path / "lake" / name, 0)
    monkeypatch.setattr(os, "fsync", lambda fd: seen.append(os.readlink(f"/proc/self/fd/{fd}")))
    durable = Durable(str(tmp_path / "lake"))
    durable.sync_tables(str(tmp_path / "lake" / name) for name in [*names, "t/gone"])
    at = {os.path.relpath(path, tmp_path): place for place, path in enumerate(seen)}
    for name in names:
        steps = [
            f"{name}/0.parquet", name, f"{name}/_delta_log/{0:020d}.json", f"{name}/_delta_log",
        ]  # fmt: skip
        places = [at[f"lake/{step}"] for step in steps]
        assert places == sorted(places) and places[-1] < at["lake/t"]
    assert seen.count(str(tmp_path / "lake/t")) == 2, "once for each hundred tables"
    seen.clear()
    commit(tmp_path / "lake/t/7", 1)
    durable.sync_tables(str(tmp_path / "lake" / name) for name in names)
    assert len(seen) == 4 and {os.path.relpath(p, tmp_path / "lake")[:3] for p in seen} == {"t/7"}


def test_an_unchanged_table_is_not_listed_again(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even if an earlier process has synced it."""
    folder = str(table)
    Durable(str(tmp_path / "lake"), str(tmp_path / "notes")).sync(folder)
    durable = Durable(str(tmp_path / "lake"), str(tmp_path / "notes"))
    durable.sync_tables([folder])
    monkeypatch.setattr(os, "listdir", None)
    monkeypatch.setattr(os, "scandir", None)
    durable.sync_tables([folder])
    assert durable.newest(folder) == 0


def test_no_later_version_than_asked_for_is_synced(
    table: Path, tmp_path: Path, synced: Callable[[], list[str]]
) -> None:
    durable = Durable(str(tmp_path / "lake"))
    for version in (1, 2):
        commit(table, version)
    synced()
    durable.sync(str(table), 1)
    assert {log(0), log(1)} < set(found := synced()) and log(2) not in found
    durable.sync(str(table), 0)
    assert synced() == []
    durable.sync(str(table))
    assert log(2) in synced()


def test_a_start_syncs_only_versions_after_the_noted_one(
    table: Path, tmp_path: Path, synced: Callable[[], list[str]]
) -> None:
    """A start on an old table syncs what came since, and no file of the days before; a note that
    was cut off, or is of another table, says nothing."""
    for version in range(1, 30):
        commit(table, version)
    notes = tmp_path / "notes"
    Durable(str(tmp_path / "lake"), str(notes)).sync(str(table))
    commit(table, 30)
    synced()
    durable = Durable(str(tmp_path / "lake"), str(notes))
    assert durable.newest(str(table)) == 30
    durable.sync(str(table))
    found = ["lake/t/a/30.parquet", "lake/t/a", log(30), "lake/t/a/_delta_log"]
    assert synced() == found
    note = notes / "t/a"
    text = note.read_text()
    for damaged in ("", text[:-4], text[: len(text) // 2], "7", text.replace("[1,", "[2,")):
        note.write_text(damaged)
        Durable(str(tmp_path / "lake"), str(notes)).sync(str(table))
        assert log(0) in synced() and note.read_text() == text
    Path(tmp_path / "lake" / "t/a/_delta_log" / f"{30:020d}.json").touch()  # it was put back
    Durable(str(tmp_path / "lake"), str(notes)).sync(str(table))
    assert log(0) in synced()


@pytest.mark.parametrize("hint", ['{"version": 4}', "", None])
def test_a_note_of_an_old_working_state_is_not_trusted(
    table: Path, tmp_path: Path, synced: Callable[[], list[str]], hint: str | None
) -> None:
    """The working state of a machine that the target comes back to, or one put back: the version
    that it names is kept, as a cut was pinned, and those behind it were removed meanwhile. What
    names the last checkpoint may be lost, or empty, since the power failed."""
    notes = tmp_path / "notes"
    Durable(str(tmp_path / "lake"), str(notes)).sync(str(table))
    for version in range(1, 9):
        commit(table, version)
    for version in (1, 2, 3):
        (tmp_path / log(version)).unlink()
    if hint is not None:
        (table / "_delta_log" / "_last_checkpoint").write_text(hint)
    synced()
    durable = Durable(str(tmp_path / "lake"), str(notes))
    assert durable.newest(str(table)) == 8
    durable.sync(str(table))
    assert {"lake/t/a/2.parquet", "lake/t/a/8.parquet", log(8)} < set(synced())


def test_a_synced_version_is_not_the_newest_if_a_checkpoint_is_later(
    table: Path, tmp_path: Path, synced: Callable[[], list[str]]
) -> None:
    """Another channel feeds the table also, and has removed commits after a pinned version."""
    durable = Durable(str(tmp_path / "lake"))
    durable.sync(str(table))
    for version in range(1, 9):
        commit(table, version)
    for version in (1, 2, 3):
        (tmp_path / log(version)).unlink()
    (table / "_delta_log" / "_last_checkpoint").write_text('{"version": 4}')
    synced()
    durable.sync(str(table))
    assert durable.newest(str(table)) == 8 and log(8) in synced()


def test_a_note_whose_versions_were_removed_is_not_trusted(
    table: Path, tmp_path: Path, synced: Callable[[], list[str]]
) -> None:
    """The versions after the one that it names exist and are missing in turn."""
    notes = tmp_path / "notes"
    Durable(str(tmp_path / "lake"), str(notes)).sync(str(table))
    for version in (1, 2, 3):
        commit(table, version)
    (tmp_path / log(2)).unlink()
    synced()
    Durable(str(tmp_path / "lake"), str(notes)).sync(str(table), 3)
    assert {"lake/t/a/2.parquet", log(3)} < set(synced())


def test_a_commit_that_is_replaced_while_it_is_synced(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a writer that renames its own over it: what it has written is not on the disk."""
    true, there = os.fsync, tmp_path / log(0)

    def fsync(fd: int) -> None:
        true(fd)
        if os.readlink(f"/proc/self/fd/{fd}") == str(there):
            (tmp_path / "theirs").write_text(there.read_text())
            (tmp_path / "theirs").rename(there)

    durable, seen = Durable(str(tmp_path / "lake")), list[int]()
    monkeypatch.setattr(os, "fsync", fsync)
    durable.sync(str(table))
    monkeypatch.setattr(os, "fsync", lambda fd: seen.append(os.fstat(fd).st_ino))
    durable.sync(str(table))
    assert there.stat().st_ino in seen


def test_another_table_in_its_place_is_synced_anew(
    table: Path, tmp_path: Path, synced: Callable[[], list[str]]
) -> None:
    durable = Durable(str(tmp_path / "lake"))
    durable.sync(str(table))
    table.rename(tmp_path / "away")
    assert durable.newest(str(table)) == -1
    durable.sync(str(table))  # nothing is there
    commit(table, 0)
    commit(table, 1)
    synced()
    durable.sync(str(table))
    assert {log(0), log(1)} < set(synced())


def test_a_file_that_is_gone_is_not_asked_for(table: Path, tmp_path: Path) -> None:
    durable = Durable(str(tmp_path / "lake"))
    durable.sync(str(table))
    commit(table, 1)
    (table / "1.parquet").unlink()
    durable.sync(str(table))


def test_a_data_file_elsewhere_is_synced_with_the_tables_folders(
    table: Path, tmp_path: Path, synced: Callable[[], list[str]]
) -> None:
    """As a shallow clone names it."""
    durable = Durable(str(tmp_path / "lake"))
    durable.sync(str(table))
    other = tmp_path / "b.parquet"
    other.touch()
    put(str(table), 1, [{"add": {"path": str(other)}}])
    synced()
    durable.sync(str(table))
    assert set(synced()) == {"b.parquet", "lake/t/a", log(1), "lake/t/a/_delta_log"}


def test_a_sync_that_failed_is_not_tried_again(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system says once that it has lost what was written."""
    durable = Durable(str(tmp_path / "lake"))

    def broken(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched, pytest.raises(OSError, match="Input/output"):
        patched.setattr(os, "fsync", broken)
        durable.sync(str(table))
    for again in (durable.sync, durable.sync_checkpoint):
        with pytest.raises(OSError, match="Input/output"):
            again(str(table))
    Durable(str(tmp_path / "lake")).sync(str(table))


def test_a_checkpoint_is_synced_before_its_hint(
    table: Path, tmp_path: Path, synced: Callable[[], list[str]]
) -> None:
    durable = Durable(str(tmp_path / "lake"))
    names = [f"{0:020d}.checkpoint.parquet", "_sidecars/x.parquet", "_last_checkpoint", "0.crc"]
    (table / "_delta_log/_sidecars").mkdir()
    for name in names:
        (table / "_delta_log" / name).touch()
    synced()
    durable.sync(str(table))
    paths = [f"lake/t/a/_delta_log/{name}" for name in names]
    assert log(0) in (found := synced()) and not set(paths) & set(found)
    durable.sync_checkpoint(str(table))
    found = synced()
    assert set(found[:2]) == set(paths[:2])
    assert set(found[2:4]) == {"lake/t/a/_delta_log", "lake/t/a/_delta_log/_sidecars"}
    assert found[4:] == [paths[2]], "and the folder once more"


def test_an_object_store_is_not_asked(tmp_path: Path) -> None:
    durable = Durable("s3a://bucket/lake")
    durable.sync("s3a://bucket/lake/t/a")
    durable.sync_checkpoint("s3a://bucket/lake/t/a")
    assert durable.newest("s3a://bucket/lake/t/a") == -1


def test_a_new_file_is_on_the_disk_before_a_commit_can_name_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that was written, with what Python still held back; its folder is the commit's part."""
    steps = disk_steps(monkeypatch)
    with new_file(str(tmp_path / "new.parquet")) as file:
        file.write(b"rows")
    assert steps == [("sync", "new.parquet", 4)]
