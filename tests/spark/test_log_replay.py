"""Our reading of a table's log returns what Delta's own reader returns, for each writer of the
log."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_repl.delta.log.add_actions import live_files
from spark_repl.delta.log.checkpoint_writer import reconciled
from spark_repl.delta.log.table_log import TableLog
from tests.support.delta_snapshot import DeltaSnapshot, File


def states(spark: SparkSession, folder: Path) -> None:
    """Compares the live files with those of Delta's state, deletion vectors included, and what
    checkpoints and VACUUM go by."""
    snapshot = TableLog().snapshot(str(folder))
    assert snapshot is not None
    delta = DeltaSnapshot(spark, str(folder))
    assert snapshot.version == delta.version
    live = live_files(str(folder), snapshot.version)
    assert files(live.values()) == delta.live() != set()
    adds, removes = reconciled(str(folder), snapshot.state, time.time())
    assert files(adds.to_pylist()) == delta.live()
    assert files(removes.to_pylist()) == delta.removed()


def files(actions: Iterable[dict[str, Any]]) -> set[File]:
    return {(a["path"], (a.get("deletionVector") or {}).get("pathOrInlineDv")) for a in actions}


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


def test_the_last_txn_of_each_application_is_read_at_each_version(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "t"
    for version in (1, 2):
        spark.range(3).write.format("delta").mode("append").option("txnAppId", "us").option(
            "txnVersion", str(version)
        ).save(str(folder))
    spark.range(3).write.format("delta").mode("append").save(str(folder))
    for version, position in ((2, 2), (0, 1)):
        snapshot = TableLog().snapshot(str(folder), version)
        assert snapshot is not None
        assert TableLog.last_txn(snapshot, "us") == position
        assert TableLog.last_txn(snapshot, "others") is None
