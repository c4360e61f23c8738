"""Clean-up of what other engines leave in a log: V2 checkpoints, parts, sidecars, compactions."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path

import pytest

from spark_repl.delta.log.add_actions import live_files
from spark_repl.delta.log.durable import Durable
from spark_repl.delta.log.log_checkpoints import newest
from spark_repl.delta.log.log_cleanup import remove_commits
from spark_repl.delta.log.vacuum import vacuum
from spark_repl.delta.store.remover import Remover
from tests.support.v2_checkpoint import write_parts, write_v2
from tests.unit.delta.log.test_log_state import Table, add

DAYS_S = 24 * 3600


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table of 11 versions, a file each."""
    table = Table(tmp_path / "t")
    for number in range(1, 11):
        table.commit(add(f"f{number}"))
    return table


def log(table: Table) -> Path:
    return Path(table.folder, "_delta_log")


def age(table: Table, days: float = 3) -> None:
    for path in log(table).rglob("*"):
        if path.is_file():
            os.utime(path, (0, time.time() - days * DAYS_S))


def clean(table: Table, *keep: int, begin: int | None = None) -> int:
    durable = Durable(os.path.dirname(table.folder))
    before = time.time() - DAYS_S
    return remove_commits(table.folder, durable, before=before, keep=keep, begin=begin)


def commits(table: Table) -> list[int]:
    return sorted(int(path.stem) for path in log(table).glob("*.json") if path.stem.isdigit())


def checkpoints(table: Table) -> set[int]:
    return {int(path.name[:20]) for path in log(table).glob("*.checkpoint.*")}


def check(table: Table, *versions: int) -> None:
    for version in versions:
        assert len(live_files(table.folder, version)) == version


@pytest.mark.parametrize("kind", ["json", "parquet", "parts"])
def test_commits_go_behind_a_checkpoint_of_any_kind(table: Table, kind: str) -> None:
    for version in (3, 6, 9):
        write_parts(table.folder, version) if kind == "parts" else write_v2(
            table.folder, version, kind
        )
    age(table)
    assert clean(table) == 9
    assert commits(table) == [9, 10]
    assert checkpoints(table) == {9}
    assert len(list(log(table).glob("_sidecars/*"))) == (0 if kind == "parts" else 9)
    check(table, 9, 10)
    assert clean(table) == 0


def test_a_promised_version_keeps_its_checkpoint_and_its_sidecars(table: Table) -> None:
    for version in (3, 6, 9):
        write_v2(table.folder, version)
    age(table)
    assert clean(table, 3, 5) == 7
    assert commits(table) == [3, 5, 9, 10]
    assert checkpoints(table) == {3, 5, 9}
    check(table, 3, 5, 9, 10)
    assert len(list(log(table).glob("_sidecars/*"))) == 3 + 9
    age(table)
    clean(table, 5)
    assert checkpoints(table) == {5, 9}
    assert len(list(log(table).glob("_sidecars/*"))) == 9
    check(table, 5, 9, 10)


@pytest.mark.parametrize("loss", ["sidecar", "line", "part"])
def test_no_commit_goes_behind_a_checkpoint_that_is_not_whole(table: Table, loss: str) -> None:
    write_v2(table.folder, 2)
    if loss == "part":
        write_parts(table.folder, 8)[1].unlink()
    else:
        manifest, sidecars = write_v2(table.folder, 8)
        if loss == "sidecar":
            sidecars[4].unlink()
        else:
            lines = manifest.read_text().splitlines(keepends=True)
            manifest.write_text("".join(lines[:-1]))
    age(table)
    assert clean(table) == 2
    base = newest(table.folder)
    assert base is not None and base.version == 2
    check(table, 2, *range(2, 11))


def test_what_is_left_of_checkpoints_goes_with_the_versions_around(table: Table) -> None:
    write_parts(table.folder, 2)[1].unlink()
    _, sidecars = write_v2(table.folder, 4)
    sidecars[0].unlink()
    write_v2(table.folder, 8)
    age(table)
    assert clean(table) == 8
    assert checkpoints(table) == {8}
    assert len(list(log(table).glob("_sidecars/*"))) == 8
    check(table, 8, 9, 10)


def test_a_sidecar_that_no_checkpoint_names_goes_after_a_day(table: Table) -> None:
    """A writer writes its sidecars first. Hadoop's checksum lies beside each."""
    _, sidecars = write_v2(table.folder, 9)
    folder = sidecars[0].parent
    for name in ("orphan.parquet", ".orphan.parquet.crc", f".{sidecars[0].name}.crc"):
        (folder / name).write_bytes(b"x")
    age(table)
    (folder / "young.parquet").write_bytes(b"x")
    clean(table)
    left = {path.name for path in folder.iterdir()}
    named = {path.name for path in sidecars}
    assert left == {*named, f".{sidecars[0].name}.crc", "young.parquet"}


def test_sidecars_stay_where_a_manifest_cannot_be_read(table: Table) -> None:
    """It may name them."""
    manifest, sidecars = write_v2(table.folder, 9)
    manifest.write_text("{")
    age(table)
    clean(table)
    assert all(path.exists() for path in sidecars)


def test_sidecars_of_a_manifest_with_a_classic_name_stay(table: Table) -> None:
    manifest, sidecars = write_v2(table.folder, 9, "parquet")
    manifest.rename(log(table) / f"{9:020d}.checkpoint.parquet")
    age(table)
    assert clean(table) == 9
    assert all(path.exists() for path in sidecars)
    check(table, 9, 10)


def test_a_checkpoint_with_a_classic_name_that_lacks_a_sidecar_is_no_base(table: Table) -> None:
    manifest, sidecars = write_v2(table.folder, 9, "parquet")
    manifest.rename(log(table) / f"{9:020d}.checkpoint.parquet")
    sidecars[3].unlink()
    age(table)
    assert clean(table) == 0
    assert commits(table) == list(range(11))


def test_a_checkpoint_whose_footer_is_damaged_is_no_base(table: Table) -> None:
    write_v2(table.folder, 3)
    path = write_parts(table.folder, 9, parts=1)[0].rename(
        log(table) / f"{9:020d}.checkpoint.parquet"
    )
    content = path.read_bytes()
    begin = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    path.write_bytes(content[:begin] + bytes(len(content) - 8 - begin) + content[-8:])
    age(table)
    assert clean(table) == 3
    assert commits(table) == list(range(3, 11))


def test_compacted_commits_go_behind_the_last_checkpoint(table: Table) -> None:
    write_v2(table.folder, 6)
    for begin, end in ((0, 3), (4, 6), (5, 5), (7, 9)):
        (log(table) / f"{begin:020d}.{end:020d}.compacted.json").write_text("{}\n")
    age(table)
    (log(table) / f"{1:020d}.{2:020d}.compacted.json").write_text("{}\n")
    assert clean(table) == 6
    left = sorted(path.name[:41] for path in log(table).glob("*.compacted.json"))
    assert left == [f"{1:020d}.{2:020d}", f"{4:020d}.{6:020d}", f"{7:020d}.{9:020d}"]


def test_checksums_of_hadoop_go_after_their_files(table: Table) -> None:
    write_v2(table.folder, 9)
    for version in (2, 10):
        (log(table) / f".{version:020d}.json.crc").write_bytes(b"crc")
    age(table)
    clean(table)
    clean(table)
    assert [path.name for path in log(table).glob(".*.crc")] == [f".{10:020d}.json.crc"]


def test_vacuum_removes_what_killed_writers_leave(tmp_path: Path) -> None:
    """The same age counts as for data files. A checksum of Hadoop's goes with its file."""
    table = Table(tmp_path / "t")
    table.commit(add("live.parquet"))
    probe, temporary = f".{uuid.uuid4()}", f".part-1.parquet.{uuid.uuid4()}.tmp"
    gone = [probe, temporary, f"a/{temporary}", f".{temporary}.crc", "b.parquet", ".b.parquet.crc"]
    kept = [
        *("live.parquet", ".live.parquet.crc", ".other", ".other.crc", "_x.tmp"),
        *(f".hidden/{probe}", f"_delta_log/{temporary}"),
    ]
    for name in (*gone, *kept, f"young/{probe}"):
        path = Path(table.folder, name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x")
        at = time.time() - (0 if name.startswith("young") else 30 * DAYS_S)
        os.utime(path, (at, at))
    assert vacuum(table.folder, Remover(), time.time()) == len(gone) - 1
    assert [name for name in gone if Path(table.folder, name).exists()] == []
    assert all(Path(table.folder, name).exists() for name in (*kept, f"young/{probe}"))


def test_a_probe_in_a_log_goes_after_a_day(table: Table) -> None:
    probe = log(table) / f".{uuid.uuid4()}"
    probe.write_bytes(b"first")
    clean(table)
    assert probe.exists()
    age(table)
    clean(table)
    assert not probe.exists()
