"""Staged rows between two stages: objects of a store whose requests take 20 ms, or Spark's shuffle.

    python -m tests.bench.staging_shuffle [--latency-ms 20] [--runs 5] [--workers 8] [MIB...]

Two executors, in JVMs of their own, have a core each. ``workers`` tasks make MIB megabytes of rows,
divided evenly among as many write tasks, which read them. Both ways run in turn, each once before
it is measured. The store is moto's server behind ``tests/support/store_proxy``. For each size there
is a line of JSON with the median seconds of both ways.

* ``store``: as ``apply`` does it. A task puts one object and returns the ranges; a job of its own
  reads these.
* ``shuffle``: ``partitionBy`` of an RDD with a value for each pair of tasks, in one job.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
from pyspark import SparkContext

from spark_repl.delta.store import storage
from spark_repl.runtime.target_uri import canonical

from .slow_store import slow_store


def stage(folder: str, worker: int, workers: int, size: int) -> list[tuple[int, str, int, int]]:
    """Put the rows of a worker; return (write task, object, offset, length) of each part."""
    path, part = f"{folder}/{worker}", size // workers // workers
    storage.put(path, os.urandom(part) * workers)
    return [(task, path, task * part, part) for task in range(workers)]


def by_store(context: SparkContext, folder: str, workers: int, size: int) -> int:
    parts = context.parallelize(range(workers), workers).flatMap(
        lambda worker: stage(folder, worker, workers, size)
    )
    plan = [[part for part in parts.collect() if part[0] == task] for task in range(workers)]
    read = context.parallelize(plan, workers).map(
        lambda mine: sum(len(storage.read_range(*part[1:])) for part in mine)
    )
    return sum(read.collect())


def by_shuffle(context: SparkContext, folder: str, workers: int, size: int) -> int:
    part = size // workers // workers

    def rows(worker: int) -> Iterator[tuple[int, bytes]]:
        content = os.urandom(part)
        return ((task, content) for task in range(workers))

    shuffled = (
        context.parallelize(range(workers), workers)
        .flatMap(rows)
        .partitionBy(workers, lambda task: task)
    )
    return sum(shuffled.mapPartitions(lambda mine: [sum(len(row) for _, row in mine)]).collect())


def seconds(way: Callable[..., int], *arguments: object) -> float:
    began = time.perf_counter()
    way(*arguments)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency-ms", type=float, default=20)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("mib", nargs="*", type=int, default=[1, 16, 128])
    options = parser.parse_args()
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with slow_store(options.latency_ms) as bucket:
        context = SparkContext("local-cluster[2,1,1024]", "staging")
        try:
            for mib in options.mib:
                folder = canonical(f"{bucket}/staging")
                there = (context, folder, options.workers, mib << 20)
                ways: dict[str, list[float]] = {"store": [], "shuffle": []}
                for _ in range(options.runs + 1):
                    ways["store"].append(seconds(by_store, *there))
                    ways["shuffle"].append(seconds(by_shuffle, *there))
                medians = {way: round(statistics.median(s[1:]), 3) for way, s in ways.items()}
                print(json.dumps({"mib": mib, "latency_ms": options.latency_ms, **medians}))
        finally:
            context.stop()


if __name__ == "__main__":
    main()
