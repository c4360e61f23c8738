"""Cascades that the log does not hold, through Delta's own log, with either writer, and on a
runtime of which only public APIs are known."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_repl.delta import delta_log
from spark_repl.runtime import workers
from tests.applier.test_cascades import LAST, TABLES, History, go_on
from tests.spark.lab import run
from tests.support.local_delta import rows

# Which rows a cascade changes is known before a writer has them.
_SOAK = pytest.mark.soak
_EACH = ["direct", *(pytest.param(one, marks=_SOAK) for one in ("public", "merge"))]


@pytest.mark.parametrize("writer", _EACH)
def test_each_writer(
    spark: SparkSession, tmp_path: Path, writer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if writer == "public":
        monkeypatch.setattr(delta_log, "KNOWN_DELTA", ("0.",))
    log, target = History(tmp_path / "log"), tmp_path / "lake"
    kind = "" if writer == "public" else writer
    run(spark, log.folder, target, writer=kind)
    go_on(log)
    if writer == "direct":  # all on Spark's workers
        monkeypatch.setattr(workers, "HERE_LOG_BYTES", -1)
        monkeypatch.setattr(workers, "HERE_ROWS", -1)
    run(spark, log.folder, target, writer=kind)
    assert [rows(target, table) for table in TABLES] == LAST
