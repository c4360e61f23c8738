"""A transaction of any size is one commit to each table. Its keys are divided into shards, and a
worker holds one shard at a time, or a share of a shard that is too large."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_repl.apply.group import stager
from spark_repl.decode import spans
from spark_repl.write.files.write_task import WriteTask, Written
from spark_repl.write.rows import direct_writer, group_writer
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import Here, cuts, rows, run

A = Table("a")
NARROW = Table("n", columns=(("id", "int"),))
KEYS = 800
SHARD = 16 << 10


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> list[list[pa.Table]]:
    """The rows of each write task, with small bounds."""
    monkeypatch.setattr(spans, "_SLICE_BYTES", SHARD)
    for module in (stager, group_writer):
        monkeypatch.setattr(module, "SHARD_MAX_BYTES", SHARD)
    seen: list[list[pa.Table]] = []

    def begins(self: Here, function: Any, tasks: Sequence[Any]) -> None:
        seen.extend([p.read() for p in task.parts] for task in tasks if isinstance(task, WriteTask))

    monkeypatch.setattr(Here, "begins", begins)
    return seen


def counts(tasks: list[list[pa.Table]]) -> list[int]:
    return [sum(part.num_rows for part in parts) for parts in tasks]


def results_of(monkeypatch: pytest.MonkeyPatch) -> list[Written]:
    """The results of all write tasks from here on."""
    written: list[Written] = []
    outcomes = Here.outcomes

    def recorded(self: Here, function: Any, tasks: Sequence[Any], **named: Any) -> list[Any]:
        results = outcomes(self, function, tasks, **named)
        written.extend(result for result in results if isinstance(result, Written))
        return results

    monkeypatch.setattr(Here, "outcomes", recorded)
    return written


@pytest.mark.parametrize("compressed", [False, True])
def test_no_task_has_more_than_a_shard_of_a_large_transaction(
    tmp_path: Path,
    tasks: list[list[pa.Table]],
    compressed: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = LogWriter(tmp_path / "log")
    for statement in ("CREATE DATABASE t", A.create):
        log.ddl(statement)
    inserts = [insert(A, (key, "x" * 40)) for key in range(KEYS)]
    log.transaction(*inserts, compressed=compressed)
    changes = [update(A, ((key, "x" * 40), (key, "y" * 40))) for key in range(0, KEYS, 2)]
    changes += [delete(A, (key, "x" * 40)) for key in range(1, KEYS, 4)]
    log.transaction(*changes, compressed=compressed)
    monkeypatch.setattr(direct_writer, "MARKS_MAX_BYTES", 20)
    written = results_of(monkeypatch)
    assert run(log.folder, tmp_path / "lake", group_max_transactions=1)
    want = [(key, ("x" if key % 2 else "y") * 40) for key in range(KEYS) if key % 4 != 1]
    assert rows(tmp_path / "lake", A) == want
    assert len(cuts(tmp_path / "lake")) <= 4, "each transaction was published by one cut"
    sizes = counts(tasks)
    assert sum(sizes) == KEYS + KEYS // 2 + KEYS // 4 and max(sizes) < KEYS // 4
    marks = [sum(map(len, part.marks.values())) for part in written]
    assert max(marks) <= 20 and any(part.spilled for part in written)


def test_a_shard_of_many_narrow_rows_is_divided_further(
    tmp_path: Path, tasks: list[list[pa.Table]]
) -> None:
    """Rows take more bytes in memory than in the log: the bound is on staged bytes as well."""
    log = LogWriter(tmp_path / "log")
    for statement in ("CREATE DATABASE t", NARROW.create):
        log.ddl(statement)
    keys = [(key,) for key in range(5 * KEYS)]
    log.transaction(insert(NARROW, *keys))
    log.transaction(*(delete(NARROW, *keys[at :: 2 * KEYS]) for at in range(0, 2 * KEYS, 2)))
    assert sum(end - start for _, start, end in log.spans[2:3]) < 2 * SHARD, "one shard"
    assert run(log.folder, tmp_path / "lake", group_max_transactions=1)
    assert rows(tmp_path / "lake", NARROW) == keys[1::2]
    assert sum(counts(tasks)) == len(keys) + len(keys) // 2
    assert max(sum(part.nbytes for part in parts) for parts in tasks) < 2 * SHARD
