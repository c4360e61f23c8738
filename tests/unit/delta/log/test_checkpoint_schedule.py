"""A checkpoint that was not on the disk when the power failed, and what still names it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from spark_repl.delta.log import checkpoint_schedule
from spark_repl.delta.log.checkpoint_schedule import forget_lost, last
from spark_repl.delta.log.table_log import TableLog
from spark_repl.delta.store.remover import Remover

NEWEST = 5
LEFT = {
    "nothing": None,
    "a name without bytes": lambda whole: b"",
    "zeros": lambda whole: bytes(len(whole)),
    "the first half": lambda whole: whole[: len(whole) // 2],
    "the second half": lambda whole: bytes(len(whole) // 2) + whole[len(whole) // 2 :],
    "all but the end": lambda whole: whole[:-8],
    "an end that says too much": lambda whole: whole[:-8] + b"\xff\xff\xff\x7fPAR1",
}
"""what the power leaves of a checkpoint"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The log's folder of a table of six versions, a row each, with checkpoints at 2 and 5."""
    table = str(tmp_path / "t")
    for number in range(NEWEST + 1):
        write_deltalake(table, pa.table({"id": [number]}), mode="append")
        if number in (2, NEWEST):
            DeltaTable(table).create_checkpoint()
    return tmp_path / "t/_delta_log"


@pytest.mark.parametrize("apart", [NEWEST - 1, NEWEST - 2])
def test_one_is_written_when_it_is_due_and_removes_nothing(
    log: Path, monkeypatch: pytest.MonkeyPatch, apart: int
) -> None:
    """What goes from a log knows each version that is promised: the clean-up."""
    folder = str(log.parent)
    named(log, NEWEST).unlink()
    (log / "_last_checkpoint").write_text(json.dumps({"version": 2}))
    snapshot = TableLog().snapshot(folder)
    assert snapshot is not None and snapshot.version == NEWEST
    is_due = apart == NEWEST - 2
    monkeypatch.setattr(checkpoint_schedule, "EVERY", apart)
    assert checkpoint_schedule.write_if_due(snapshot) == is_due
    assert named(log, NEWEST).exists() == is_due
    commits = sorted(path.name for path in log.glob("*.json"))
    assert commits == [f"{version:020d}.json" for version in range(NEWEST + 1)]
    assert last(folder) == (NEWEST if is_due else 2) and rows(log) == NEWEST + 1


def named(log: Path, version: int) -> Path:
    return log / f"{version:020d}.checkpoint.parquet"


def damage(path: Path, left: str) -> None:
    made = LEFT[left]
    path.unlink() if made is None else path.write_bytes(made(path.read_bytes()))


def rows(log: Path) -> int:
    return int(DeltaTable(str(log.parent)).to_pyarrow_table().num_rows)


@pytest.mark.parametrize("left", LEFT)
def test_a_lost_checkpoints_hint_is_removed(log: Path, left: str) -> None:
    """delta-rs opens no such table; without a hint it looks for another checkpoint, as Delta."""
    damage(named(log, NEWEST), left)
    with pytest.raises(DeltaError, match=r"_last_checkpoint|Parquet|footer"):
        DeltaTable(str(log.parent))
    assert forget_lost(str(log.parent), Remover())
    assert last(str(log.parent)) == 0 and rows(log) == NEWEST + 1
    assert not named(log, NEWEST).exists()
    assert not forget_lost(str(log.parent), Remover())


@pytest.mark.parametrize("hint", [None, 2])
def test_a_damaged_one_that_nothing_names(log: Path, hint: int | None) -> None:
    """delta-rs takes it by its name: the hint was not on the disk, or still the one before."""
    damage(named(log, NEWEST), "zeros")
    (log / "_last_checkpoint").unlink()
    if hint:
        (log / "_last_checkpoint").write_text(json.dumps({"version": hint, "size": 5}))
    with pytest.raises(DeltaError, match="Corrupt footer"):
        DeltaTable(str(log.parent))
    assert forget_lost(str(log.parent), Remover())
    assert DeltaTable(str(log.parent)).version() == NEWEST
    assert rows(log) == NEWEST + 1 and last(str(log.parent)) == (hint or 0)


def test_one_stays_where_commits_before_it_are_gone(log: Path) -> None:
    """Without it readers would see an older table, without an error."""
    damage(named(log, NEWEST), "the first half")
    (log / f"{NEWEST - 1:020d}.json").unlink()
    forget_lost(str(log.parent), Remover())
    with pytest.raises(DeltaError, match="Corrupt footer"):
        DeltaTable(str(log.parent))
    assert named(log, NEWEST).exists()


def test_two_lost_checkpoints_are_both_removed(log: Path) -> None:
    for version in (2, NEWEST):
        damage(named(log, version), "zeros")
    assert forget_lost(str(log.parent), Remover()) and rows(log) == NEWEST + 1
    assert not list(log.glob("*.parquet"))


def test_one_of_an_account_that_may_not(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def remove(path: str) -> None:
        raise PermissionError(path)

    (log / f"{NEWEST:020d}.checkpoint.parquet").unlink()
    monkeypatch.setattr(os, "remove", remove)
    assert not forget_lost(str(log.parent), Remover()) and last(str(log.parent)) == NEWEST


@pytest.mark.parametrize("part", ["0000000001.0000000002.parquet", "a-b-c.json"])
def test_of_other_kinds_a_part_is_enough(log: Path, part: str) -> None:
    (log / f"{NEWEST:020d}.checkpoint.parquet").rename(log / f"{NEWEST:020d}.checkpoint.{part}")
    assert not forget_lost(str(log.parent), Remover()) and last(str(log.parent)) == NEWEST


def test_a_hint_of_a_checkpoint_that_is_there_stays(log: Path, tmp_path: Path) -> None:
    assert not forget_lost(str(log.parent), Remover()) and last(str(log.parent)) == NEWEST
    (log / "_last_checkpoint").write_text(json.dumps({"version": 2}))
    assert not forget_lost(str(log.parent), Remover()) and last(str(log.parent)) == 2
    for other in (str(tmp_path / "none"), "s3a://bucket/t"):
        assert not forget_lost(other, Remover())


@pytest.mark.parametrize("hint", [2, NEWEST])
def test_a_log_whose_checkpoints_are_whole_is_not_listed(
    log: Path, monkeypatch: pytest.MonkeyPatch, hint: int
) -> None:
    """Each start asks, of each table: what the hint names, and the few versions behind it."""
    (log / "_last_checkpoint").write_text(json.dumps({"version": hint, "size": 5}))
    monkeypatch.setattr(
        checkpoint_schedule, "names", lambda folder: pytest.fail("the log is listed")
    )
    assert not forget_lost(str(log.parent), Remover()) and last(str(log.parent)) == hint
