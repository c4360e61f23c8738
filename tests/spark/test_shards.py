"""Shards that are read as one table at a cut."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_repl import cut
from spark_repl.errors import ConfigError
from tests.spark.lab import run
from tests.support.binlog_writer import LogWriter, Table, delete, insert

TO = [{"match": r"shop\_%.orders", "to": "all.orders_%"}]


def test_a_column_has_what_the_sign_stands_for(spark: SparkSession, tmp_path: Path) -> None:
    """One shard is a column ahead of the other; equal keys are two rows."""
    log = LogWriter(tmp_path / "log")
    one, two = (Table("orders", database=f"shop_{number}") for number in (1, 2))
    for table in (one, two):
        log.ddl(f"CREATE DATABASE {table.database}")
        log.ddl(table.create)
    log.transaction(insert(one, (1, "a"), (2, "b")), insert(two, (1, "c")))
    log.ddl("ALTER TABLE shop_2.orders ADD w INT FIRST")
    wide = Table("orders", (("w", "int"), *two.columns), database="shop_2", key=(1,))
    log.transaction(insert(wide, (7, 2, "d")), delete(one, (2, "b")))
    run(spark, log.folder, tmp_path / "lake", keys={"tables": TO})
    now = cut(spark, str(tmp_path / "lake"))
    shown = now.union("all.orders_%", "shop")
    assert shown.columns == ["shop", "id", "v", "w"]
    assert sorted(map(tuple, shown.collect()), key=str) == [
        ("1", 1, "a", None), ("2", 1, "c", None), ("2", 2, "d", 7),
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="no table like"):
        now.union("shop_%.orders")
