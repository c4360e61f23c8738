"""The demo on S3: moto's server keeps the tables, and Spark, DuckDB and Polars read them back.

    make demo-s3

Each engine reads the tables of the last cut by its own reader of Delta, straight from the store.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from urllib.parse import urlsplit

from rich.console import Console

from spark_repl.control.table.cut import TableVersion
from spark_repl.demo.bank_demo import BANK, TOTAL, Demo
from spark_repl.demo.expected import expected_tables
from spark_repl.errors import DemoError, SparkReplError
from tests.support.readers import by_duckdb_query
from tests.support.s3_server import BUCKET, s3_server

TARGET = f"s3://{BUCKET}/{uuid.uuid4()}"
"""The working state is named after it: no two runs share one."""
SUMS = {"bank.account": "balance", "bank.till": "balance", "bank.pending": "amount"}
Tables = Iterable[tuple[str, str, TableVersion]]
"""name, folder and version of each table at a cut"""
Row = tuple[int, Decimal]
"""number of rows of a table, and the sum of one of its columns"""


def by_spark(tables: Tables) -> dict[str, Row]:
    from spark_repl import build_session

    spark = build_session(target=TARGET)
    try:
        rows = {}
        for name, folder, at in tables:
            table = spark.read.format("delta").option("versionAsOf", at.version).load(folder)
            ((count, total),) = table.selectExpr("count(*)", f"sum({SUMS[name]})").collect()
            rows[name] = count, total or Decimal(0)
        return rows
    finally:
        spark.stop()


def by_duckdb(tables: Tables) -> dict[str, Row]:
    endpoint = urlsplit(os.environ["AWS_ENDPOINT_URL"]).netloc
    secret = (
        f"CREATE SECRET (TYPE s3, KEY_ID '{os.environ['AWS_ACCESS_KEY_ID']}', SECRET"
        f" '{os.environ['AWS_SECRET_ACCESS_KEY']}', REGION 'us-east-1', ENDPOINT '{endpoint}',"
        " URL_STYLE 'path', USE_SSL false)"
    )
    named = list(tables)
    queries = [
        f"SELECT count(*), sum({SUMS[name]}) FROM"
        f" delta_scan('{folder.replace('s3a:', 's3:')}', version => {at.version})"
        for name, folder, at in named
    ]
    answers = by_duckdb_query([(secret, ()), *((query, ()) for query in queries)])[1:]
    return {
        name: (count, total or Decimal(0))
        for (name, _, _), ((count, total),) in zip(named, answers, strict=True)
    }


def by_polars(tables: Tables) -> dict[str, Row]:
    import polars

    options = {"aws_endpoint_url": os.environ["AWS_ENDPOINT_URL"], "aws_allow_http": "true"}
    rows = {}
    for name, folder, at in tables:
        frame = polars.scan_delta(
            folder.replace("s3a:", "s3:"), version=at.version, storage_options=options
        )
        count, total = frame.select(polars.len(), polars.col(SUMS[name]).sum()).collect().row(0)
        rows[name] = count, total or Decimal(0)
    return rows


ENGINES: Mapping[str, Callable[[Tables], dict[str, Row]]] = {
    "Spark": by_spark, "DuckDB": by_duckdb, "Polars": by_polars,
}  # fmt: skip


def read_back(demo: Demo) -> None:
    """Read the last cut by each engine. Raise DemoError if one reads other rows than the server
    had, or another sum."""
    cut = demo.control.cuts()[-1]
    tables = [(name, demo.layout.table(cut.tables[name].path), cut.tables[name]) for name in SUMS]
    counts = {
        name: len(rows) for name, _, rows in expected_tables(BANK / "expected") if name in SUMS
    }
    for engine, read in ENGINES.items():
        rows = read(tables)
        total = sum((sum_ for _, sum_ in rows.values()), Decimal(0))
        if total != TOTAL or {name: count for name, (count, _) in rows.items()} != counts:
            raise DemoError(f"{engine} reads {rows}")
        demo.say(f"{engine} reads the last cut from {TARGET}: {sum(counts.values())} rows,"
                 f" the sum is {total:,}.")  # fmt: skip


def main() -> int:
    with s3_server() as environment, tempfile.TemporaryDirectory(prefix="spark-repl-") as folder:
        os.environ.update(environment)
        # Polars refuses tables with mapped columns.
        demo = Demo(folder, BANK, Console(soft_wrap=True), TARGET, mapped=False)
        try:
            demo.carry_out()
            read_back(demo)
        except SparkReplError as error:
            print(f"Error: {error}", file=sys.stderr)
            return 1
        finally:
            shutil.rmtree(demo.layout.state, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
