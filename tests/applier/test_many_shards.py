"""A transaction of any size is one commit to each table. Its keys are divided into shards, and a
worker holds one shard at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from spark_repl.apply.group import stager
from spark_repl.decode import spans
from spark_repl.decode.stage_task import rows_of
from spark_repl.write.files.write_task import WriteTask
from spark_repl.write.rows import group_writer
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import Here, cuts, rows, run

A = Table("a")
KEYS = 800


def test_no_task_has_more_than_a_shard_of_a_large_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spans, "_SLICE_BYTES", 16 << 10)
    for module in (stager, group_writer):
        monkeypatch.setattr(module, "SHARD_MAX_BYTES", 16 << 10)
    sizes: list[int] = []

    def begins(self: Here, function: Any, tasks: Sequence[Any]) -> None:
        sizes.extend(rows_of(task.parts) for task in tasks if isinstance(task, WriteTask))

    monkeypatch.setattr(Here, "begins", begins)
    log = LogWriter(tmp_path / "log")
    for statement in ("CREATE DATABASE t", A.create):
        log.ddl(statement)
    log.transaction(*(insert(A, (key, "x" * 40)) for key in range(KEYS)))
    changes = [update(A, ((key, "x" * 40), (key, "y" * 40))) for key in range(0, KEYS, 2)]
    log.transaction(*changes, *(delete(A, (key, "x" * 40)) for key in range(1, KEYS, 4)))
    assert run(log.folder, tmp_path / "lake")
    want = [(key, ("x" if key % 2 else "y") * 40) for key in range(KEYS) if key % 4 != 1]
    assert rows(tmp_path / "lake", A) == want
    assert len(cuts(tmp_path / "lake")) <= 4, "each transaction was published by one cut"
    assert sum(sizes) == KEYS + KEYS // 2 + KEYS // 4 and max(sizes) < KEYS // 4
