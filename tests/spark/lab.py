"""Help for the tests with Spark: one way to run the applier, and to look at what it made."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, patch

import pyarrow as pa
import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession

from spark_repl import Config, Replica, cut
from spark_repl.apply.start.replica import Parts
from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut
from spark_repl.delta.store.delta_rs_read import read as read_elsewhere
from spark_repl.demo.expected import differences, expected_tables
from spark_repl.errors import SparkReplError
from spark_repl.observe.reports.applier_status import Result
from spark_repl.runtime.spark_release import reads_delta, spark_release
from tests.support.binlog_writer import Table
from tests.support.local_delta import HERE, apply_without_stream, at_once
from tests.support.local_delta import rows as rows_without_spark

PARTS = Parts(wait=at_once)


def run(
    spark: SparkSession | None,
    log: Path,
    target: Path,
    *,
    keys: dict[str, Any] | None = None,
    on_group: Any = None,
    stream: bool = False,
    parts: Parts | None = None,
    **apply: Any,
) -> Result:
    """Applies the whole log, through a stream, even if the log is so short that it needs none, or
    without one. ``apply`` are keys of the section [apply], ``keys`` any others; ``parts``: those of
    the applier."""
    config = Config.from_mapping(
        {"relay": {"path": str(log)}, "target": {"path": str(target)}, "apply": apply}
    )
    more = {"parts": parts} if parts else {}
    with replica_of(spark, config.override(keys or {}), on_group, **more) as replica:
        if not stream:
            return apply_without_stream(replica)
        with streaming():
            return replica.apply()


@contextmanager
def streaming() -> Iterator[None]:
    """Each log, however short, is left to a stream."""
    of_stream = "spark_repl.apply.stream.stream"
    with patch(f"{of_stream}._FIRST_BATCH", 1), patch(f"{of_stream}._WITHOUT_STREAM", 0):
        yield


def replica_of(
    spark: SparkSession | None, config: Config, on_group: Any = None, **more: Any
) -> Replica:
    """Without ``spark`` one on the Delta log that Python writes."""
    if spark is None:
        config = config.override({"target.column_mapping": False})
        return Replica(MagicMock(), config, on_group, **{"parts": HERE, **more})
    return Replica(spark, config, on_group, **{"parts": PARTS, **more})


def stopped(spark: SparkSession | None, log: Path, target: Path, **apply: Any) -> SparkReplError:
    """The error that stops the applier."""
    try:
        run(spark, log, target, **apply)
    except SparkReplError as error:
        return error
    raise AssertionError("the applier did not stop")


needs_delta = pytest.mark.skipif(
    not reads_delta(), reason=f"no Delta is published for Spark {spark_release()}"
)


def read(spark: SparkSession, target: Path, table: str) -> DataFrame:
    """The newest rows, read by Spark's Delta; by delta-rs where this Spark has none."""
    folder = str(target / table.replace(".", "/"))
    if reads_delta():
        return spark.read.format("delta").load(folder)
    return _frame(spark, folder)


def _frame(spark: SparkSession, folder: str, version: int | None = None) -> DataFrame:
    """Rows that delta-rs has read: Spark's Arrow has no views of texts."""
    table = read_elsewhere(folder, version)
    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    fields = [field.with_type(plain.get(field.type, field.type)) for field in table.schema]
    return spark.createDataFrame(table.cast(pa.schema(fields)))


def frames_of(spark: SparkSession, target: Path, published: Cut) -> dict[str, DataFrame]:
    """The tables at a cut, read as ``read`` does."""
    if reads_delta():
        reader = cut(spark, str(target), at=published.gtid_executed)
        return {name: reader.table(name) for name in reader.tables}
    return {
        name: _frame(spark, str(target / at.path), at.version)
        for name, at in published.tables.items()
    }


def read_cut(spark: SparkSession, target: Path, published: Cut) -> dict[str, Any]:
    """Columns and sorted rows by table at a cut, read as ``read`` does."""
    return {
        name: (frame.columns, sorted(map(tuple, frame.collect()), key=repr))
        for name, frame in frames_of(spark, target, published).items()
    }


def rows(spark: SparkSession, target: Path, table: Table) -> list[tuple[Any, ...]]:
    """All rows, sorted."""
    found = read(spark, target, f"{table.database}.{table.name}").collect()
    return sorted((tuple(row) for row in found), key=repr)


def assert_rows(spark: SparkSession | None, target: Path, table: Table, want: list[Any]) -> None:
    """The table's rows, in any order; read by delta-rs, in milliseconds."""
    found = rows_without_spark(target, table)
    assert sorted(found, key=repr) == sorted(map(tuple, want), key=repr)


def assert_rows_in_spark(spark: SparkSession, target: Path, table: Table, want: list[Any]) -> None:
    """Compare rows and types as Spark reads them; this takes one or two seconds."""
    kinds = {True: "int", False: "string"}
    schema = ", ".join(f"{name} {kinds[kind == 'int']}" for name, kind in table.columns)
    frame = spark.createDataFrame(want, schema)
    found = read(spark, target, f"{table.database}.{table.name}")
    assert_df_equality(
        found, frame, ignore_row_order=True, ignore_nullable=True, ignore_metadata=True
    )


def assert_server_state(spark: SparkSession, target: Path, expected: Path) -> None:
    """The tables are the server's, and each has its rows, value for value."""
    made = {name.replace("/", ".") for name in versions(target)}
    assert made == {name for name, *_ in expected_tables(expected)}
    for name, columns, want in expected_tables(expected):
        table = read(spark, target, name)
        assert differences(table.columns, table.collect(), columns, want)[:5] == [], name


def assert_server_state_elsewhere(target: Path, expected: Path) -> None:
    """The same, read by delta-rs: where it has been shown that Spark reads these tables."""
    made = {name.replace("/", ".") for name in versions(target)}
    assert made == {name for name, *_ in expected_tables(expected)}
    for name, columns, want in expected_tables(expected):
        table = read_elsewhere(str(target / name.replace(".", "/")))
        got = [tuple(row.values()) for row in table.to_pylist()]
        assert differences(table.column_names, got, columns, want)[:5] == [], name


def versions(target: Path) -> dict[str, int]:
    """table -> number of its newest Delta commit."""
    found = {}
    for log in target.glob("*/*/_delta_log"):
        if log.parent.parent.name != "_repl":
            name = str(log.parent.relative_to(target))
            found[name] = max(int(f.stem) for f in log.glob("*.json") if f.stem.isdigit())
    return found


def commits(target: Path, table: str) -> list[int]:
    """The positions (versions of our txn) of a table's Delta commits, oldest first. The chunks of
    a copy are counted under a name of their own."""
    found = []
    for path in sorted((target / table.replace(".", "/") / "_delta_log").glob("*.json")):
        for line in path.read_text("utf-8").splitlines():
            txn = json.loads(line).get("txn")
            if txn and not txn["appId"].endswith(":copy"):
                found.append(txn["version"])
    return found


def assert_applied_once(target: Path) -> None:
    """No table has two commits at one position, or one that goes back."""
    for table in versions(target):
        found = commits(target, table)
        assert found == sorted(found), table
        assert max(Counter(found).values()) == 1, table


def cuts(target: Path) -> list[Cut]:
    return sorted(Control(str(target / "_repl" / "control")).cuts(), key=lambda cut: cut.position)
