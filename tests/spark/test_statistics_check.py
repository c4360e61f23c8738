"""The correction of statistics as Delta reads it: files keep path, vector and row ids, no feed and
no stream sees a change, and each later version reads as before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_repl.delta.files.corrected_statistics import CORRECT, PROPERTY
from spark_repl.delta.log.add_actions import live_files
from spark_repl.delta.log.log_replay import read_commit
from spark_repl.delta.log.log_state import newest_version
from spark_repl.write.tables.target_options import TargetOptions
from tests.spark.lab import run
from tests.support.binlog_writer import LogWriter, Table, delete, insert
from tests.support.delta_snapshot import forget
from tests.support.old_statistics import make_old

A = Table("a")


@pytest.mark.slow
def test_files_added_again_keep_rows_and_feed(
    spark: SparkSession, log: LogWriter, target: Path
) -> None:
    place, keys = str(target / "t" / "a"), {"target.change_data_feed": True}
    log.transaction(insert(A, *((key, f"\U00020bb7{key}") for key in range(6))))
    run(spark, log.folder, target, keys=keys)
    spark.sql(f"ALTER TABLE delta.`{place}` SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')")
    log.transaction(delete(A, (3, "\U00020bb73")), insert(A, (7, "\U00020bb7")))
    run(spark, log.folder, target, keys=keys)
    make_old(target)
    forget(spark)
    version = newest_version(place)
    before, rows = live_files(place, version), rows_and_ids(spark, place)
    run(spark, log.folder, target, keys=keys)
    after = live_files(place, newest_version(place))
    assert before and after and before.keys() == after.keys()
    assert newest_version(place) == version + 1
    for path, add in before.items():
        assert "\\ud842" in add["stats"] and "baseRowId" in add
        assert "\U00020bb7" in after[path]["stats"] and after[path]["dataChange"] is False
        for kept in ("deletionVector", "baseRowId", "defaultRowCommitVersion", "size"):
            assert after[path].get(kept) == add.get(kept), kept
    assert any("deletionVector" in add for add in after.values())
    assert rows_and_ids(spark, place) == rows
    feed = spark.read.format("delta").option("readChangeFeed", True)
    assert feed.option("startingVersion", version + 1).load(place).count() == 0
    assert not any("remove" in action for action in read_commit(place, version + 1) or ())
    log.transaction(delete(A, (7, "\U00020bb7")))
    run(spark, log.folder, target, keys=keys)
    assert spark.read.format("delta").load(place).count() == 5


def rows_and_ids(spark: SparkSession, place: str) -> list[Any]:
    table = spark.read.format("delta").load(place)
    return sorted(table.select("id", "v", "_metadata.row_id").collect())


def test_new_tables_say_that_they_have_them() -> None:
    assert TargetOptions().properties()[PROPERTY] == CORRECT
