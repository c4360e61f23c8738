"""Fixtures of all tests: one Spark session for the whole run, small logs, and an S3 server."""

from __future__ import annotations

import gc
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.support.s3_server import BUCKET, s3_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# No test is timed: a busy machine, or a kernel's first compilation, is no failure.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

_HERE = Path(__file__).parent
_BANK = _HERE.parent / "spark_repl" / "demo" / "bank"
_MARKS = {
    "spark": pytest.mark.spark,
    "conformance": pytest.mark.spark,
    "crash": pytest.mark.crash,
    "live": pytest.mark.live,
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test below tests/spark, tests/crash or tests/live bears the mark of its folder."""
    for item in items:
        mark = _MARKS.get(item.path.relative_to(_HERE).parts[0])
        if mark is not None:
            item.add_marker(mark)


_outlived: set[threading.Thread] = set()
"""threads of leases that a test before has left, and that the garbage collector did not end"""


def pytest_runtest_logfinish() -> None:
    """Stop renewing the leases that the test has claimed and not released.

    The renewals end with their ``Control``. A ``Control`` in a reference cycle, for example in the
    traceback that ``pytest.raises`` keeps, would live on, and write during later tests.
    """
    global _outlived
    if _leases() - _outlived:
        gc.collect()
        _outlived = _leases()


def _leases() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "lease"}


# Tables of a few rows: compiling Java for each plan takes longer than any of them. Processes that
# tests start, and the soak, have the product's settings.
_INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture(scope="session")
def spark(pytestconfig: pytest.Config) -> Iterator[SparkSession]:
    from spark_repl.runtime.spark_release import reads_delta
    from spark_repl.runtime.spark_session import build_session

    soak = pytestconfig.getoption("markexpr") == "soak"
    settings = {} if soak else _INTERPRETED
    session = build_session(master="local[2]", settings=settings, delta=reads_delta())
    yield session
    session.stop()


@pytest.fixture(scope="session")
def bank() -> Path:
    """The recorded log that ships with the demo, with the server's end state in ``expected``."""
    return _BANK


@pytest.fixture(scope="module")
def s3_environment() -> Iterator[dict[str, str]]:
    """The environment in which everything finds an S3 server."""
    with s3_server() as environment:
        yield environment


@pytest.fixture
def s3_prefix(
    s3_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> str:
    """An empty prefix of the server's bucket, in the server's environment."""
    for name, value in s3_environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SPARK_REPL_CACHE", str(tmp_path / "cache"))
    return f"s3a://{BUCKET}/{uuid.uuid4()}"
