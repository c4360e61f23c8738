"""Cascades that the log does not hold, as Spark reads what is committed; all on Spark's workers."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_repl.runtime import workers
from tests.applier.test_cascades import LAST, TABLES, History, go_on
from tests.spark.lab import rows as rows_in_spark
from tests.spark.lab import run
from tests.support.local_delta import rows


def test_emulated_cascades_on_sparks_workers_are_read_by_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, target = History(tmp_path / "log"), tmp_path / "lake"
    run(spark, log.folder, target)
    go_on(log)
    monkeypatch.setattr(workers, "HERE_LOG_BYTES", -1)
    monkeypatch.setattr(workers, "HERE_ROWS", -1)
    run(spark, log.folder, target)
    assert [rows(target, table) for table in TABLES] == LAST
    for table in TABLES:
        want = sorted(rows(target, table), key=repr)
        assert rows_in_spark(spark, target, table) == want
