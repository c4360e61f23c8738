"""Our reading of a table's log says what Delta's own says, whoever wrote the log."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_repl.delta import log_replay
from spark_repl.delta.delta_log import DeltaLog

VECTOR = "deletionVector.pathOrInlineDv"


def states(spark: SparkSession, folder: Path) -> None:
    """Compares the live files with those of Delta's state, deletion vectors included."""
    delta = DeltaLog(spark)
    snapshot = delta.snapshot(str(folder))
    assert snapshot is not None
    found = log_replay.live_files(str(folder), snapshot.version)
    assert found is not None
    frame = DataFrame(snapshot.java.allFiles().toDF(), spark)
    rows = {row.path: row.dv for row in frame.selectExpr("path", f"{VECTOR} as dv").collect()}
    said = {p: a.get("deletionVector", {}).get("pathOrInlineDv") for p, a in found.items()}
    assert said == rows
    assert rows


@pytest.mark.slow
def test_live_files_are_deltas(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    path = f"delta.`{folder}`"
    spark.range(100).repartition(4).write.format("delta").option(
        "delta.enableDeletionVectors", "true"
    ).option("delta.checkpointInterval", "3").save(str(folder))
    states(spark, folder)
    spark.sql(f"DELETE FROM {path} WHERE id IN (3, 50)")
    states(spark, folder)
    spark.sql(f"DELETE FROM {path} WHERE id = 51")
    spark.sql(f"UPDATE {path} SET id = 1000 WHERE id = 52")
    states(spark, folder)  # a checkpoint lies behind by now
    (folder / "_delta_log" / f"{0:020d}.json").unlink()
    states(spark, folder)  # and is needed
    spark.sql(f"OPTIMIZE {path}")
    states(spark, folder)
    spark.sql(f"RESTORE {path} TO VERSION AS OF 3")
    states(spark, folder)


def test_last_txn(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    for version in (1, 2):
        spark.range(3).write.format("delta").mode("append").option("txnAppId", "us").option(
            "txnVersion", str(version)
        ).save(str(folder))
    spark.range(3).write.format("delta").mode("append").save(str(folder))
    assert log_replay.last_txn(str(folder), 2, "us") == 2
    assert log_replay.last_txn(str(folder), 0, "us") == 1
    delta = DeltaLog(spark)
    snapshot = delta.snapshot(str(folder))
    assert snapshot is not None
    assert delta.last_txn(snapshot, "us") == 2
    assert delta.last_txn(snapshot, "others") is None
    assert log_replay.last_txn(str(folder), 2, "others") is None, "without Delta's reconstruction"
    (folder / "_delta_log" / f"{0:020d}.json").unlink()
    with pytest.raises(LookupError):
        log_replay.last_txn(str(folder), 2, "others")
