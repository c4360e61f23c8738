"""Spark SQL reads cuts from the control table by the SQL of docs/python.md."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from spark_repl.control.table.control import Control
from tests.support.cut_queries import CHOSEN, QUERY, expected, publish_cuts


def test_cuts_are_read_by_spark_sql(spark: SparkSession, tmp_path: Path) -> None:
    control = Control(str(tmp_path / "control"))
    published = publish_cuts(control)
    at = published[1].at
    assert at is not None
    by_time = CHOSEN["time"].replace("2026-11-24 14:00:00+00:00", at.isoformat(sep=" "))
    table = f"FROM delta.`{control.path}`"
    by_source_time = CHOSEN["source time"].replace("1795528800000000", "20000000")
    for chosen, cut in (
        (CHOSEN["newest"], published[3]), (by_time, published[1]), (CHOSEN["gtid"], published[2]),
        (by_source_time, published[2]),
    ):  # fmt: skip
        query = QUERY.replace(CHOSEN["newest"], chosen).replace("FROM control", table)
        assert [tuple(row) for row in spark.sql(query).collect()] == expected(cut)
