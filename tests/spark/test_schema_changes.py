"""Statements that change tables, as Spark reads the tables afterwards and at old cuts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.lab import cuts, read_cut, run
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update

A = Table("a")
WIDER = Table("a", (("n", "int"), ("id", "int"), ("w", "varchar(40)")), (1,))
REAL = Table("b", (("n", "double"), ("id", "int")), (1,))


def changed(log: LogWriter) -> None:
    log.transaction(insert(A, (1, "x"), (2, "y")))
    log.ddl("ALTER TABLE t.a ADD COLUMN n INT FIRST, RENAME COLUMN v TO w")
    log.transaction(update(WIDER, ((None, 1, "x"), (5, 1, "xx"))), insert(WIDER, (6, 3, "z")))
    log.ddl("ALTER TABLE t.a MODIFY n DOUBLE, DROP COLUMN w, RENAME TO t.b")
    log.transaction(insert(REAL, (0.5, 4)))
    log.ddl("CREATE TABLE t.a LIKE t.b")
    log.ddl("RENAME TABLE t.a TO t.x, t.b TO t.a, t.x TO t.b")
    log.transaction(insert(REAL, (1.5, 9)))
    log.ddl("TRUNCATE TABLE t.b")


def shown(spark: SparkSession, target: Path, number: int) -> dict[str, Any]:
    """Rows by table at the cut behind a transaction of the log."""
    last = [one for one in cuts(target) if one.gtid_executed.endswith((f"-{number}", f":{number}"))]
    return read_cut(spark, target, last[-1])


def test_spark_reads_each_cuts_columns_and_rows_after_schema_changes(
    spark: SparkSession, log: LogWriter, target: Path
) -> None:
    changed(log)
    run(spark, log.folder, target, group_max_transactions=1)
    assert shown(spark, target, 3) == {"t.a": (["id", "v"], [(1, "x"), (2, "y")])}
    assert shown(spark, target, 4) == {"t.a": (["n", "id", "w"], [(None, 1, "x"), (None, 2, "y")])}
    assert shown(spark, target, 5) == {
        "t.a": (["n", "id", "w"], [(5, 1, "xx"), (6, 3, "z"), (None, 2, "y")])
    }
    rows = [(0.5, 4), (5.0, 1), (6.0, 3), (None, 2)]
    assert shown(spark, target, 7) == {"t.b": (["n", "id"], rows)}
    swapped = shown(spark, target, 9)
    assert swapped == {"t.a": (["n", "id"], rows), "t.b": (["n", "id"], [])}
    assert shown(spark, target, 10)["t.b"] == (["n", "id"], [(1.5, 9)])
    assert shown(spark, target, 11) == {"t.a": (["n", "id"], rows), "t.b": (["n", "id"], [])}
    run(spark, log.folder, target)
    assert shown(spark, target, 11)["t.a"] == (["n", "id"], rows), "nothing is done twice"


def test_spark_reads_columns_and_rows_that_a_policy_keeps(
    spark: SparkSession, log: LogWriter, target: Path
) -> None:
    """The target has more columns than the log, and rows that the source has removed."""
    log.transaction(insert(A, (1, "x"), (2, "y")))
    log.ddl("ALTER TABLE t.a DROP COLUMN v, ADD COLUMN n INT FIRST")
    rest = Table("a", (("n", "int"), ("id", "int")), (1,))
    log.transaction(update(rest, ((None, 1), (5, 1))), insert(rest, (6, 3)))
    log.ddl("CREATE TABLE t.b (id INT, v VARCHAR(40), PRIMARY KEY (id))")
    b = Table("b")
    log.transaction(insert(b, (1, "old"), (2, "old")))
    log.ddl("TRUNCATE t.b")
    log.transaction(insert(b, (1, "new")))
    log.transaction(insert(b, (2, "new")), delete(b, (2, "new")))
    log.ddl("DROP TABLE t.b")
    keys = {"ddl.policy": ["t.a: additive_only", "t.b: ignore_drop"]}
    run(spark, log.folder, target, keys=keys)
    assert shown(spark, target, 11) == {
        "t.a": (["n", "id", "v"], [(5, 1, None), (6, 3, None), (None, 2, "y")]),
        "t.b": (["id", "v"], [(1, "new")]),
    }


@pytest.mark.slow
def test_spark_reads_what_dropped_partitions_leave(
    spark: SparkSession, log: LogWriter, target: Path
) -> None:
    log.ddl(
        "ALTER TABLE t.a PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (10), PARTITION q"
        " VALUES LESS THAN (20), PARTITION r VALUES LESS THAN MAXVALUE)"
    )
    log.transaction(insert(A, *((one, "x") for one in (1, 9, 10, 19, 20))))
    log.ddl("ALTER TABLE t.a DROP PARTITION q")
    log.transaction(insert(A, (12, "y")))
    log.ddl("ALTER TABLE t.a TRUNCATE PARTITION p")
    for _ in range(2):  # nothing is done twice
        run(spark, log.folder, target, group_max_transactions=1)
        left = [(1, "x"), (20, "x"), (9, "x")]
        assert shown(spark, target, 5)["t.a"] == (["id", "v"], left)
        assert shown(spark, target, 7)["t.a"] == (["id", "v"], [(12, "y"), (20, "x")])
    log.ddl("ALTER TABLE t.a TRUNCATE PARTITION ALL")
    run(spark, log.folder, target, group_max_transactions=1)
    assert shown(spark, target, 8)["t.a"] == (["id", "v"], [])
