"""Random rows of every type, by copy and by log: the server, Spark, delta-rs, DuckDB and Polars
find the same by random conditions. ``SPARK_REPL_SEED`` chooses them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from spark_repl.runtime.spark_release import reads_delta
from tests.support.live.receiving import config_for
from tests.support.live.server import Server
from tests.support.random_rows import random_conditions, row
from tests.support.readers import by_delta_rs, by_duckdb, by_mysql, by_polars, by_spark

from .test_copy import _catch_up, _copy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = int(os.environ.get("SPARK_REPL_SEED", "1"))
COLUMNS = {
    "place": "VARCHAR(20) COLLATE utf8mb4_0900_bin", "truth": "BIT(1)", "i8": "TINYINT",
    "i16": "SMALLINT", "i32": "INT", "i64": "BIGINT", "unsigned": "BIGINT UNSIGNED",
    "d5": "DECIMAL(5,2)", "d15": "DECIMAL(15,4)", "d30": "DECIMAL(30,10)", "single": "FLOAT",
    "double": "DOUBLE", "text": "VARCHAR(200) COLLATE utf8mb4_0900_bin", "bytes": "VARBINARY(300)",
    "day": "DATE", "local": "DATETIME(6)", "moment": "TIMESTAMP(6) NULL",
}  # fmt: skip
CREATE = (
    "CREATE TABLE t.r (id BIGINT PRIMARY KEY,"
    f" {', '.join(f'`{name}` {kind}' for name, kind in COLUMNS.items())})"
)
_ROWS_OF_AN_INSERT, _SAMPLE = 500, 500


def rows_of(random: Random, count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        values = row(random, number)
        unsigned = values["unsigned"]
        values["unsigned"] = unsigned and min(abs(unsigned), Decimal(2**64 - 1))
        yield {name: values[name] for name in ("id", *COLUMNS)}


def insert(server: Server, rows: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the first of each INSERT's rows."""
    names = ", ".join(f"`{name}`" for name in ("id", *COLUMNS))
    places = ", ".join(["%s"] * (1 + len(COLUMNS)))
    first = []
    with server.connect(charset="utf8mb4") as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        while some := list(islice(rows, _ROWS_OF_AN_INSERT)):
            values = [[_sent(value) for value in one.values()] for one in some]
            cursor.executemany(f"INSERT INTO t.r ({names}) VALUES ({places})", values)
            connection.commit()
            first.append(some[0])
    return first


def _sent(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else value


@pytest.mark.parametrize(
    ("rows", "asked", "mapped"),
    [
        pytest.param(4_000, 60, False, marks=pytest.mark.slow),
        pytest.param(1_000_000, 400, False, marks=pytest.mark.soak),
        pytest.param(1_000_000, 400, True, marks=pytest.mark.soak),
    ],
)
def test_the_server_and_all_readers_find_the_same_rows(
    make_server: Callable[..., Server], spark: SparkSession, tmp_path: Path,
    chunk_rows: Callable[[int], None], rows: int, asked: int, mapped: bool,
) -> None:  # fmt: skip
    chunk_rows(rows // 50)
    random, server = Random(SEED + mapped), make_server()
    server.query("CREATE DATABASE t", CREATE)
    made = rows_of(random, rows)
    sample = insert(server, (next(made) for _ in range(rows // 2)))
    config = config_for(
        server, tmp_path, target__column_mapping=mapped, target__compact_files=0,
        apply__group_max_transactions=max(1, rows // 50 // _ROWS_OF_AN_INSERT),
    )  # fmt: skip
    _copy(spark, config)
    sample += insert(server, made)
    server.query("DELETE FROM t.r WHERE id % 9 = 0", "UPDATE t.r SET i8 = 7 WHERE id % 11 = 0")
    _catch_up(spark, config, server.executed)
    folder = f"{config.target.path}/t/r"
    schema = pa.schema(DeltaTable(folder).schema().to_arrow())
    sample = random.sample(sample, min(len(sample), _SAMPLE))
    conditions = random.sample(random_conditions(random, sample, 5), asked)
    with server.connect(charset="utf8mb4") as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        expected = by_mysql(cursor, "t.r", conditions)
    answers = {
        "delta-rs": by_delta_rs(folder, schema, conditions),
        "duckdb": by_duckdb(folder, schema, conditions),
    }
    if reads_delta():
        answers["spark"] = by_spark(spark, folder, schema, conditions)
    if not mapped:
        answers["polars"] = by_polars(folder, schema, conditions)
    for reader, found in answers.items():
        wrong = [a for a, b, c in zip(conditions, found, expected, strict=True) if b != c]
        assert not wrong, reader
    assert len({one.count for one in expected}) > asked // 5
