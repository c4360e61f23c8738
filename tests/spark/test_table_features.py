"""Features that others switch on: change data feed, row tracking and more; other engines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

from spark_repl.delta.log import log_replay
from spark_repl.delta.log.table_log import TableLog
from spark_repl.errors import TargetError
from tests.spark.lab import assert_rows_in_spark, assert_server_state, read, run, stopped, versions
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update

A, BAG = Table("a"), Table("bag", key=())
BRANCH = (b"branch", b"", 1)
_SOAK = pytest.mark.soak


def alter(spark: SparkSession, target: Path, table: str, *settings: str) -> None:
    pairs = ", ".join(f"'delta.{name}' = 'true'" for name in settings)
    spark.sql(f"ALTER TABLE delta.`{target}/t/{table}` SET TBLPROPERTIES ({pairs})")


def feed(spark: SparkSession, target: Path, table: str, version: int) -> list[tuple[Any, ...]]:
    """The change data feed of one version, sorted."""
    found = (
        spark.read.format("delta")
        .option("readChangeFeed", "true")
        .option("startingVersion", version)
        .option("endingVersion", version)
        .load(str(target / "t" / table))
    )
    return sorted(tuple(row) for row in found.select("id", "v", "_change_type").collect())


def begin(spark: SparkSession, log: LogWriter, target: Path, **keys: Any) -> None:
    log.ddl(BAG.create)
    log.transaction(insert(A, *[(key, "x") for key in range(6)]))
    log.transaction(insert(BAG, (1, "x"), (1, "x"), (2, "x")))
    run(spark, log.folder, target, keys=keys)


@pytest.mark.parametrize("vectors", [True, pytest.param(False, marks=_SOAK)])
def test_the_change_data_feed_has_each_net_change_once(spark, log, target, vectors):
    begin(spark, log, target, **{"target.deletion_vectors": vectors})
    for table in ("a", "bag"):
        alter(spark, target, table, "enableChangeDataFeed")
    log.transaction(insert(A, (7, "new"), (8, "gone at once")), update(A, ((1, "x"), (1, "y"))))
    log.transaction(delete(A, (2, "x"), (8, "gone at once"), (3, "x")), insert(A, (3, "back")))
    log.transaction(update(A, ((4, "x"), (44, "x"))), update(A, ((1, "y"), (1, "z"))))
    log.transaction(delete(BAG, (1, "x")), insert(BAG, (3, "new"), (3, "new")))
    log.xa_prepare(BRANCH, insert(A, (50, "prepared")))
    run(spark, log.folder, target)
    assert feed(spark, target, "a", versions(target)["t/a"]) == [
        (1, "x", "update_preimage"), (1, "z", "update_postimage"), (2, "x", "delete"),
        (3, "back", "update_postimage"), (3, "x", "update_preimage"), (4, "x", "delete"),
        (7, "new", "insert"), (44, "x", "insert"),
    ]  # fmt: skip
    assert feed(spark, target, "bag", versions(target)["t/bag"]) == [
        (1, "x", "delete"), (3, "new", "insert"), (3, "new", "insert"),
    ]  # fmt: skip
    log.xa_end("COMMIT", BRANCH)
    run(spark, log.folder, target)
    assert feed(spark, target, "a", versions(target)["t/a"]) == [(50, "prepared", "insert")]


@pytest.mark.slow
def test_features_that_delta_sees_to(spark, log, target):
    begin(spark, log, target)
    alter(
        spark, target, "a",
        "enableRowTracking", "enableInCommitTimestamps", "enableTypeWidening",
        "enableChangeDataFeed",
    )  # fmt: skip
    for key in range(5):
        log.transaction(update(A, ((key, "x"), (key, "y"))), insert(A, (key + 10, "x")))
    run(spark, log.folder, target, group_max_transactions=2)
    want = dict.fromkeys(range(5), "y") | {5: "x"} | {key + 10: "x" for key in range(5)}
    assert_rows_in_spark(spark, target, A, sorted(want.items()))
    ids = read(spark, target, "t.a").select("_metadata.row_id").collect()
    assert len({row.row_id for row in ids}) == len(want)
    folder = str(target / "t" / "a")
    stamps = [
        action["commitInfo"]["inCommitTimestamp"]
        for actions in log_replay.commits_after(
            folder, versions(target)["t/a"] - 3, versions(target)["t/a"]
        )
        for action in actions
        if "commitInfo" in action
    ]
    assert len(stamps) == 3
    assert stamps == sorted(set(stamps))


def test_an_unsuitable_feature_stops_the_applier(spark, log, target):
    begin(spark, log, target)
    spark.sql(f"ALTER TABLE delta.`{target}/t/a` ADD CONSTRAINT positive CHECK (id >= 0)")
    log.transaction(insert(A, (7, "new")))
    error = stopped(spark, log.folder, target)
    assert isinstance(error, TargetError)
    assert error.table == "t.a"
    assert "checkConstraints" in error.message
    spark.sql(f"ALTER TABLE delta.`{target}/t/a` DROP CONSTRAINT positive")
    run(spark, log.folder, target)
    assert read(spark, target, "t.a").count() == 7


@pytest.mark.slow
def test_a_column_that_spark_widened_stops_the_applier_until_a_restore(spark, log, target):
    """The log's rows still have the narrow type: an ALTER by others is never accepted."""
    table = Table("narrow", (("id", "int"), ("n", "int")))
    log.ddl(table.create)
    log.transaction(insert(table, (1, 7)))
    run(spark, log.folder, target)
    folder = f"delta.`{target}/t/narrow`"
    alter(spark, target, "narrow", "enableTypeWidening")
    log.transaction(insert(table, (2, 8)))
    run(spark, log.folder, target)
    version = versions(target)["t/narrow"]
    spark.sql(f"ALTER TABLE {folder} ALTER COLUMN n TYPE BIGINT")
    log.transaction(insert(table, (3, 9)), update(table, ((1, 7), (1, 70))))
    error = stopped(spark, log.folder, target)
    assert error.table == "t.narrow"
    assert "CHANGE COLUMN" in error.message
    spark.sql(f"RESTORE TABLE {folder} TO VERSION AS OF {version}")
    run(spark, log.folder, target)
    assert_rows_in_spark(spark, target, table, [(1, 70), (2, 8), (3, 9)])


def test_an_unknown_feature_stops_the_applier(spark, log, target):
    """Another writer commits it with a newer Delta."""
    begin(spark, log, target)
    folder = target / "t" / "a"
    version = versions(target)["t/a"]
    snapshot = TableLog().snapshot(str(folder))
    assert snapshot is not None
    protocol = dict(snapshot.state.protocol)
    protocol["writerFeatures"] = [*protocol["writerFeatures"], "notYetThoughtOf"]
    lines = [{"commitInfo": {"operation": "UPGRADE PROTOCOL"}}, {"protocol": protocol}]
    commit = folder / "_delta_log" / f"{version + 1:020d}.json"
    commit.write_text("\n".join(map(json.dumps, lines)))
    log.transaction(insert(A, (7, "new")))
    error = stopped(spark, log.folder, target)
    assert isinstance(error, TargetError)
    assert error.table == "t.a" and "notYetThoughtOf" in error.message
    assert versions(target)["t/a"] == version + 1


@pytest.mark.slow
def test_without_deletion_vectors_any_plain_engine_reads_the_tables(spark, bank, target):
    keys = {"target.deletion_vectors": False, "target.column_mapping": False}
    run(spark, bank, target, keys=keys, group_max_transactions=1000)
    assert_server_state(spark, target, bank / "expected")
    for name in ("account", "till", "pending", "transfer"):
        folder = target / "bank" / name
        assert list(folder.glob("deletion_vector_*")) == []
        table = DeltaTable(str(folder))  # what any engine of the plain protocol reads
        assert set(table.protocol().reader_features or ()) <= {"timestampNtz"}
        lines = (bank / "expected" / f"bank.{name}.jsonl").read_text("utf-8").splitlines()
        assert table.to_pyarrow_table().num_rows == len(lines) - 1


@pytest.mark.slow
@pytest.mark.parametrize("inline", [0, 1024])
def test_foreign_sql_and_another_engine_work_on_the_tables(spark, log, target, inline):
    begin(spark, log, target)
    log.transaction(update(A, ((1, "x"), (1, "y"))), delete(A, (2, "x")))
    run(spark, log.folder, target, keys={"target.inline_vector_bytes": inline})
    assert bool(list((target / "t" / "a").glob("deletion_vector_*"))) == (not inline)
    table, folder = f"delta.`{target}/t/a`", str(target / "t" / "a")
    mine = versions(target)["t/a"]
    ours = QueryBuilder().register("a", DeltaTable(folder)).execute("SELECT id, v FROM a")
    found = sorted((row["id"], row["v"]) for row in pa.table(ours.read_all()).to_pylist())
    assert found == [(0, "x"), (1, "y"), (3, "x"), (4, "x"), (5, "x")]
    spark.sql(f"OPTIMIZE {table}")
    spark.sql(f"DELETE FROM {table} WHERE id = 0")
    spark.sql(
        f"MERGE INTO {table} t USING (SELECT * FROM VALUES (1, 'm'), (9, 'm') AS v(id, v)) s"
        " ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
    )
    assert_rows_in_spark(spark, target, A, [(1, "m"), (3, "x"), (4, "x"), (5, "x"), (9, "m")])
    then = spark.sql(f"SELECT id, v FROM {table} VERSION AS OF {mine}").collect()
    assert sorted((row.id, row.v) for row in then) == found
