"""What the applier decides, without Spark; in the soak the same with workers on Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.binlog_writer import LogWriter, Table

_ON_SPARK = pytest.param("direct", marks=pytest.mark.soak)


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    """A log that creates the table t.a."""
    made = LogWriter(tmp_path / "log")
    made.ddl("CREATE DATABASE t")
    made.ddl(Table("a").create)
    return made


@pytest.fixture(params=["", _ON_SPARK])
def engine(request: pytest.FixtureRequest) -> SparkSession | None:
    """None: without Spark (tests/support/local_delta.py)."""
    return request.getfixturevalue("spark") if request.param else None
