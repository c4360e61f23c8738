"""Spark reads the views of cuts, by the SQL of docs/catalogs.md."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from spark_repl.catalog.cut_views import CutViews
from spark_repl.catalog.naming import Naming
from spark_repl.catalog.session_catalog import SessionCatalog
from spark_repl.control.records.channels import Channel
from spark_repl.control.records.retention import pin
from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut, TableVersion
from spark_repl.control.table.layout import Layout
from tests.support.examples import ALL

UUID = "11111111-2222-3333-4444-555555555555"
TWO_PM = 1_795_528_800_000_000
"""2026-11-24 14:00:00 UTC, in microseconds since 1970"""
CUSTOMERS = pa.table({"id": [1, 2], "name": ["Ada", "Grace"]})
ORDERS = (
    {"id": [10, 11], "customer": [1, 2], "amount": [Decimal("12.50"), Decimal("7.00")]},
    {"id": [12], "customer": [1], "amount": [Decimal("30.00")]},
)


@pytest.fixture
def views(spark: SparkSession, tmp_path: Path) -> Iterator[CutViews]:
    """A shop of two cuts, each of which was published; the first one also as month_end."""
    layout = Layout(str(tmp_path))
    control = Control(layout.control)
    control.claim()
    catalog = SessionCatalog(spark)
    views = CutViews(Channel("default", layout, control), Naming())
    write_deltalake(layout.table("shop/customers"), CUSTOMERS)
    for number, rows in enumerate(ORDERS):
        write_deltalake(layout.table("shop/orders"), pa.table(rows), mode="append")
        tables = {
            "shop.customers": TableVersion("shop/customers", 0, "", 1),
            "shop.orders": TableVersion("shop/orders", number, "", 1),
        }
        source = {"commit_time": TWO_PM + (number * 2 - 1) * 60_000_000}
        cut = Cut(number + 1, f"{UUID}:1-{7 + number}", "log", source, tables)
        control.publish(cut)
        assert views.carry_out(catalog, cut) == []
    first = control.cuts()[0]
    pin(control, first, "month_end")
    views.publish(catalog, first, "month_end")
    yield views
    for schema in [name for name in catalog.schemas() if name.startswith("shop_cut")]:
        for entry in catalog.entries(schema):
            catalog.drop(entry.name)
        catalog.drop_schema(schema)


def output(spark: SparkSession, text: str) -> str:
    """Return what spark-sql prints for the last of these statements."""
    result: Any = None
    for statement in text.split(";\n"):
        result = spark.sql(statement)
    rows = [result.columns, *([str(value) for value in row] for row in result.collect())]
    return "".join("\t".join(row) + "\n" for row in rows)


@pytest.mark.usefixtures("views")
@pytest.mark.parametrize("number", [1, 2, 3])
def test_spark_reads_cuts_as_documented(spark: SparkSession, number: int) -> None:
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    query = ALL[f"docs/catalogs.md sql {number}"].text.rstrip().removesuffix(";")
    assert output(spark, query) == ALL[f"docs/catalogs.md text {number}"].text


@pytest.mark.usefixtures("views")
def test_views_are_described_and_listed(spark: SparkSession) -> None:
    described = {
        row.col_name: row.data_type for row in spark.sql("DESCRIBE shop_cut.orders").collect()
    }
    assert described == {
        "id": "bigint", "customer": "bigint", "amount": "decimal(4,2)", "_cut": "bigint",
    }  # fmt: skip
    shown = spark.sql("SHOW VIEWS IN shop_cut_1").collect()
    assert [row.viewName for row in shown] == ["customers", "orders"]


@pytest.mark.usefixtures("views")
def test_a_view_reads_an_old_version_if_the_session_allows_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A pinned cut's files are kept, whatever the table's retention."""
    spark.sql(
        f"ALTER TABLE delta.`{tmp_path}/shop/orders` SET TBLPROPERTIES"
        " ('delta.deletedFileRetentionDuration' = 'interval 0 seconds')"
    )
    with pytest.raises(Exception, match="TIME_TRAVEL_BEYOND"):
        spark.sql(f"SELECT * FROM delta.`{tmp_path}/shop/orders` VERSION AS OF 0").collect()
    name = "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration"
    spark.conf.set(name, "false")
    try:
        assert spark.table("shop_cut_month_end.orders").count() == 2
    finally:
        spark.conf.unset(name)
