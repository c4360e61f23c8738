"""Spark jobs: run a function on the executors, in a classic session or one of Spark Connect.

A classic session has RDDs. A session of Spark Connect has none, and its JVM is another machine's:
the items travel as rows of a DataFrame (``mapInArrow``). There the function's module is imported by
the Python of the server's executors, so spark_repl must be installed in it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")

CONNECT = "sc://"
"""how the address of a Spark Connect server begins"""
CONNECT_SETTINGS = {"spark.sql.leafNodeDefaultParallelism": "10000"}
"""so that each row of a local table is a task of its own"""
_COLUMNS = "number int, content binary"


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
