"""Tasks on executors: one that fails takes nothing away from the others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_repl import Config, Replica
from spark_repl.apply.start.replica import Parts
from spark_repl.observe.status.status import status
from spark_repl.runtime.workers import Workers
from tests.support.binlog_writer import Table, insert
from tests.support.failing_stage import second_fails_once
from tests.support.local_delta import apply_without_stream


@pytest.mark.parametrize("here", [True, False])
def test_the_error_of_one_task_stands_in_its_place(spark: SparkSession, here: bool) -> None:
    workers = Workers(spark, 3)
    first, failed, last = workers.outcomes(os.path.getsize, ["/", "/no such file", "/"], here=here)
    assert first == last == os.path.getsize("/")
    assert isinstance(failed, FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        workers.run(os.path.getsize, ["/", "/no such file"], here=here)


def test_only_the_failed_of_three_workers_reads_again(
    spark: SparkSession, log: Any, target: Path
) -> None:
    """More log than is read in this process: three tasks of a job, and a second job with one."""
    a, text = Table("a"), "x" * 40
    log.parent = log.gno - 1
    for worker in range(3):
        log.transaction(insert(a, *((worker * 6000 + i, text) for i in range(6000))))
    config = {"relay": {"path": str(log.folder)}, "target": {"path": str(target)}}
    config |= {"apply": {"workers": 3, "group_max_transactions": 3}}
    parts = Parts(stage=second_fails_once)
    with Replica(spark, Config.from_mapping(config), parts=parts) as replica:
        counters = apply_without_stream(replica).counters
    assert (counters.transactions, counters.row_changes, counters.retries) == (5, 18000, 1)
    assert sorted((log.folder.parent / "reads").read_text().split()) == ["0", "1", "1", "2"]
    rows = status(str(target))["replication_applier_status_by_worker"]
    assert [row["COUNT_TRANSACTIONS_RETRIES"] for row in rows] == [0, 1, 0]


def test_a_job_that_spark_gives_up_is_each_tasks_error(spark: SparkSession) -> None:
    outcomes = Workers(spark, 2).outcomes(int, ["1", "no number"])
    assert len(outcomes) == 2
    assert all(
        "no number" in str(outcome) for outcome in outcomes if isinstance(outcome, Exception)
    )
    assert isinstance(outcomes[0], Exception) and outcomes[0] is outcomes[1]


# One JVM has one master, hence a process of its own.
_HEAVY = """
from spark_repl.runtime.spark_session import build_session
from spark_repl.runtime.workers import Workers
settings = {"spark.rpc.message.maxSize": "1"}
spark = build_session(master="local-cluster[1,1,1024]", settings=settings, delta=False)
tasks = [bytes(size) for size in (300_000, 5_000_000, *[300_000] * 8)]
assert Workers(spark, 1).run(len, tasks) == [*map(len, tasks)]
spark.stop()
"""


@pytest.mark.slow
def test_tasks_larger_than_a_message_of_spark_s_are_run(tmp_path: Path) -> None:
    """Spark aborts a job that has one (spark.rpc.message.maxSize, here 1 MiB)."""
    ran = subprocess.run(
        [sys.executable, "-c", _HEAVY], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
