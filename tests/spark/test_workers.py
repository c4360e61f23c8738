"""Tasks on executors: one that fails takes nothing away from the others."""

from __future__ import annotations

import os
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


def test_one_of_three_workers_reads_twice(spark: SparkSession, log: Any, target: Path) -> None:
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
