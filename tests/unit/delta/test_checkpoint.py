"""A checkpoint that was not on the disk when the power failed, and what still names it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from spark_repl.delta.checkpoint import forget_lost, last

NEWEST = 5


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The log's folder of a table of six versions, a row each, with checkpoints at 2 and 5."""
    table = str(tmp_path / "t")
    for number in range(NEWEST + 1):
        write_deltalake(table, pa.table({"id": [number]}), mode="append")
        if number in (2, NEWEST):
            DeltaTable(table).create_checkpoint()
    return tmp_path / "t/_delta_log"


def rows(log: Path) -> int:
    return int(DeltaTable(str(log.parent)).to_pyarrow_table().num_rows)


@pytest.mark.parametrize("left", ["nothing", "a name without bytes"])
def test_what_names_it_goes(log: Path, left: str) -> None:
    """delta-rs opens no such table; without a hint it looks for another checkpoint, as Delta."""
    lost = log / f"{NEWEST:020d}.checkpoint.parquet"
    lost.unlink() if left == "nothing" else lost.write_bytes(b"")
    with pytest.raises(DeltaError, match="_last_checkpoint"):
        rows(log)
    assert forget_lost(str(log.parent))
    assert last(str(log.parent)) == 0 and rows(log) == NEWEST + 1
    assert not forget_lost(str(log.parent))


def test_one_of_an_account_that_may_not(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def remove(path: str) -> None:
        raise PermissionError(path)

    (log / f"{NEWEST:020d}.checkpoint.parquet").unlink()
    monkeypatch.setattr(os, "remove", remove)
    assert not forget_lost(str(log.parent)) and last(str(log.parent)) == NEWEST


@pytest.mark.parametrize("part", ["0000000001.0000000002.parquet", "a-b-c.json"])
def test_of_other_kinds_a_part_is_enough(log: Path, part: str) -> None:
    (log / f"{NEWEST:020d}.checkpoint.parquet").rename(log / f"{NEWEST:020d}.checkpoint.{part}")
    assert not forget_lost(str(log.parent)) and last(str(log.parent)) == NEWEST


def test_a_hint_of_a_checkpoint_that_is_there_stays(log: Path, tmp_path: Path) -> None:
    assert not forget_lost(str(log.parent)) and last(str(log.parent)) == NEWEST
    (log / "_last_checkpoint").write_text(json.dumps({"version": 2}))
    assert not forget_lost(str(log.parent)) and last(str(log.parent)) == 2
    for other in (str(tmp_path / "none"), "s3a://bucket/t"):
        assert not forget_lost(other)
