"""Spark jobs: run a function on the executors, in a classic session or one of Spark Connect.

A classic session has RDDs. A session of Spark Connect has none, and its JVM is another machine's:
the items travel as rows of a DataFrame (``mapInArrow``). There the function's module is imported by
the Python of the server's executors, so spark_repl must be installed in it.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from pyspark.errors import PySparkException

from ..errors import ConfigError, JvmEndedError, SparkReplError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")

CONNECT = "sc://"
"""how the address of a Spark Connect server begins"""
CONNECT_SETTINGS = {"spark.sql.leafNodeDefaultParallelism": "10000"}
"""so that each row of a local table is a task of its own"""
_COLUMNS = "number int, content binary"
_ENDED = re.compile(
    r"INVALID_HANDLE\.SESSION_|incorrect server side session identifier"
    r"|StatusCode\.UNAVAILABLE|RETRIES_EXCEEDED"
)
_DETAILS = re.compile(r'details = "([^"]+)"')


def is_connect(spark: SparkSession) -> bool:
    """Return whether a session uses Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def master_of(spark: SparkSession) -> str:
    """Return the master of a session's executors. For a Spark Connect server on another machine,
    return its address, because its master may be local there."""
    if not is_connect(spark):
        return spark.sparkContext.master or "local"
    session: Any = spark
    host = str(session.client.host)
    is_here = host in ("localhost", "127.0.0.1", "::1")
    return spark.conf.get("spark.master", "") or "" if is_here else f"{CONNECT}{host}"


def keep_alive(spark: SparkSession) -> None:
    """Keep a session of Spark Connect from ending: a server ends idle sessions. Raise JvmEndedError
    if this one has ended."""
    with connect_errors(spark):
        spark.conf.get("spark.sql.session.timeZone")


@contextmanager
def connect_errors(spark: SparkSession) -> Iterator[None]:
    """Raise errors of Spark Connect that no retry cures as errors of the project: JvmEndedError if
    the session or the server has ended, ConfigError for a message above a limit of gRPC."""
    try:
        yield
    except PySparkException as error:
        if (translated := _translated(error) if is_connect(spark) else None) is None:
            raise
        raise translated from error


def _translated(error: PySparkException) -> SparkReplError | None:
    text = str(error)
    details = _DETAILS.search(text)
    said = details[1] if details else text.partition("\n")[0]
    if _ENDED.search(text):
        return JvmEndedError(
            f"the Spark Connect server has ended, or has ended this session: {said}",
            hint="start again: what was not committed is applied then. A server ends sessions that"
            " are idle for spark.connect.session.manager.defaultSessionTimeout, 60m by default",
        )
    if "RESOURCE_EXHAUSTED" in text:
        return ConfigError(
            f"a message of Spark Connect is too large: {said}",
            hint="start the server with --conf spark.connect.grpc.maxInboundMessageSize=134217728"
            " or more",
        )
    return None


def run_job(spark: SparkSession, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Return what ``function`` returns for each item. Each item is a separate task. Raise what
    Spark raises: PySparkException, Py4JError, OSError."""
    if not is_connect(spark):
        count = len(items)
        return list(spark.sparkContext.parallelize(items, count).map(function).collect())
    rows = [(number, bytearray(pickle.dumps(item))) for number, item in enumerate(items)]
    frame = spark.createDataFrame(rows, _COLUMNS)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                result = pickle.dumps(function(pickle.loads(row["content"])))
                numbers, contents = pa.array([row["number"]], pa.int32()), [result]
                columns = [numbers, pa.array(contents, pa.binary())]
                yield pa.RecordBatch.from_arrays(columns, ["number", "content"])

    results = {row[0]: row[1] for row in frame.mapInArrow(run, _COLUMNS).collect()}
    return [pickle.loads(results[number]) for number in range(len(items))]
