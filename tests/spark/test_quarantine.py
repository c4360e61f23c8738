"""Quarantine on Spark: rows that a user inserts with Spark SQL let what is kept be replayed.
``applier/test_quarantine.py`` shows the rest without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_repl.cli.main import main
from spark_repl.observe.status.status import status
from tests.spark.lab import assert_applied_once, assert_rows, cuts, run
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update

A, B = Table("a"), Table("b")
BAG = Table("bag", key=())
KEEP: dict[str, Any] = {"on_error": "quarantine"}


@pytest.mark.slow
def test_a_table_with_a_key_and_one_without(
    spark: SparkSession, log: LogWriter, target: Path
) -> None:
    log.ddl(B.create)
    log.ddl(BAG.create)
    log.transaction(
        insert(A, (1, "x"), (2, "x")), insert(B, (1, "x")), insert(BAG, *[(1, "x")] * 3)
    )
    log.transaction(delete(A, (77, "no such")), insert(A, (77, "y")), insert(B, (2, "x")))
    log.transaction(delete(BAG, (2, "no such")), insert(BAG, (3, "y")), delete(BAG, (1, "x")))
    log.transaction(update(A, ((1, "x"), (9, "moved"))), update(B, ((1, "x"), (3, "x"))))
    run(spark, log.folder, target, **KEEP)
    marks = {name: one.transactions for name, one in cuts(target)[-1].quarantined.items()}
    assert marks == {"t.a": 2, "t.bag": 1}
    assert_rows(spark, target, A, [(1, "x"), (2, "x")])
    assert_rows(spark, target, BAG, [(1, "x")] * 3)
    assert_rows(spark, target, B, [(2, "x"), (3, "x")])
    log.transaction(insert(B, (5, "x")))
    mend = "INSERT INTO delta.`{}` VALUES ({}, 'no such')"
    spark.sql(mend.format(target / "t" / "a", 77))
    spark.sql(mend.format(target / "t" / "bag", 2))
    for name in ("t.a", "t.bag"):
        assert main(["quarantine", "replay", "--target", str(target), "--table", name]) == 0
    run(spark, log.folder, target, keys={"target.on_foreign_change": "accept"}, **KEEP)
    assert not cuts(target)[-1].quarantined and not status(str(target))["quarantined"]
    assert_rows(spark, target, A, [(2, "x"), (9, "moved"), (77, "y")])
    assert_rows(spark, target, BAG, [(1, "x"), (1, "x"), (3, "y")])
    assert_rows(spark, target, B, [(2, "x"), (3, "x"), (5, "x")])
    assert_applied_once(target)
    assert not list((target / "_repl" / "quarantine").iterdir())
