"""Fixtures of the Spark tests: a log to be written, a target, and the bank applied once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_repl.observe.reports.applier_status import Result
from tests.spark.lab import run
from tests.support.binlog_writer import LogWriter, Table


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    """A log that creates the table t.a."""
    made = LogWriter(tmp_path / "log")
    made.ddl("CREATE DATABASE t")
    made.ddl(Table("a").create)
    return made


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture(scope="session")
def applied(
    spark: SparkSession, bank: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Result]:
    """The bank's log, applied in groups of 400. Read only: a test that writes takes a copy."""
    target = tmp_path_factory.mktemp("bank") / "lake"
    return target, run(spark, bank, target, stream=True, group_max_transactions=400)
