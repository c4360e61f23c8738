"""Workers are forked from a process that has what their tasks need."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_repl import Config, Replica
from spark_repl.apply.start.replica import Parts
from spark_repl.runtime.workers import Workers
from tests.support.binlog_writer import LogWriter, Table, delete, insert
from tests.support.local_delta import apply_without_stream


def ours(_: int) -> tuple[int, str, set[str]]:
    """The process that this one is a child of, its command, and our modules that this one has."""
    parent = os.getppid()
    command = Path(f"/proc/{parent}/cmdline").read_bytes().decode()
    return parent, command, {name for name in sys.modules if name.startswith("spark_repl.")}


def test_what_workers_do_was_imported_before_the_fork(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More rows than are read, or written, in this process: tasks of Spark's jobs for both, and a
    second group, whose rows are looked for. Spark has a daemon for each environment, so these
    workers have done nothing for other tests."""
    monkeypatch.setitem(spark.sparkContext.environment, "SPARK_REPL_DAEMON_OF", str(tmp_path))
    log, a, text = LogWriter(tmp_path / "log"), Table("a"), "x" * 40
    log.ddl(a.create)
    log.transaction(insert(a, *((i, text) for i in range(16000))))
    log.transaction(delete(a, *((i, text) for i in range(15000))))
    config = {"relay": {"path": str(log.folder)}, "target": {"path": str(tmp_path / "lake")}}
    config |= {"apply": {"workers": 2, "group_max_transactions": 1}}
    before = Workers(spark, 2).run(ours, [0, 1])
    with Replica(spark, Config.from_mapping(config), parts=Parts()) as replica:
        assert apply_without_stream(replica).counters.row_changes == 31_000
    after = Workers(spark, 2).run(ours, [0, 1])
    ((parent, command),) = {(parent, command) for parent, command, _ in before + after}
    assert parent != os.getpid() and "spark_repl.service.worker_daemon" in command
    assert all("spark_repl.write.rows.direct_writer" in modules for _, _, modules in before)
    assert set().union(*(modules for _, _, modules in after)) == before[0][2]
