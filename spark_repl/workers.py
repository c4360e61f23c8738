"""Workers: Spark partitions that run one task each, or this process for a tiny group."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from .errors import SparkReplError

T = TypeVar("T")
R = TypeVar("R")

# Data files of so many bytes together are rewritten here rather than in a Spark job.
HERE_BYTES = 1 << 20

_warm = 0


class Workers:
    """Runs functions of importable modules on the executors; at most ``count`` tasks at a time.
    ``task_retries``: attempts that Spark made anew, because an executor was lost."""

    def __init__(self, spark: SparkSession, count: int) -> None:
        self.spark, self.count, self.task_retries = spark, count, 0

    def run(self, function: Callable[[T], R], tasks: Sequence[T], *, here: bool = False) -> list[R]:
        """Results in the order of the tasks. ``here``: in this process, where a Spark job would
        cost more than the work. Raises what a task raised, first task first."""
        if here or not tasks:
            return [function(task) for task in tasks]
        guarded = _Guarded(function)
        found = self.spark.sparkContext.parallelize(list(tasks), len(tasks)).map(guarded).collect()
        self.task_retries += sum(attempt for attempt, _ in found)
        for _, result in found:
            if isinstance(result, SparkReplError | OSError):
                raise result
        return [result for _, result in found]  # type: ignore[misc]


class _Guarded:
    """Brings our own errors home as values: raised, Spark would turn them into text. Beside the
    result stands which attempt of Spark's this was, from 0."""

    def __init__(self, function: Callable[[T], R]) -> None:
        self.function = function

    def __call__(self, task: T) -> tuple[int, R | SparkReplError | OSError]:
        _settle()
        context = TaskContext.get()
        attempt = context.attemptNumber() if context else 0
        try:
            return attempt, self.function(task)  # type: ignore[return-value,arg-type]
        except (SparkReplError, OSError) as error:
            return attempt, error
        finally:
            # Idle workers stay; what Arrow keeps for later tasks would count in each of them.
            pa.default_memory_pool().release_unused()


def _settle() -> None:
    """pyspark runs a full gc.collect() after every task, 60 ms with numba's heap; frozen objects
    are not visited."""
    global _warm
    _warm += 1
    if _warm <= 6:
        gc.freeze()
