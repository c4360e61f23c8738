"""Workers: Spark partitions that run one task each, or this process for a tiny group."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ..errors import SparkReplError

T = TypeVar("T")
R = TypeVar("R")

# Each task of Spark's costs 20 ms: above so many per worker it takes several of our tasks.
_BUNDLES = 4
# What is at most so large takes less time in this process than starting a Spark job for it: bytes
# of log to read, staged rows to write, bytes of data files to rewrite.
HERE_LOG_BYTES, HERE_ROWS, HERE_FILE_BYTES = 1 << 19, 4000, 1 << 20

# The scheduler's pool of a session's jobs, where several channels have sessions on one JVM.
POOL = "spark_repl.pool"

_warm = 0


class Workers:
    """Runs functions of importable modules on the executors, at most ``count`` at a time.
    ``task_retries``: attempts that Spark repeated because an executor was lost."""

    def __init__(self, spark: SparkSession, count: int) -> None:
        self.spark, self.count, self.task_retries = spark, count, 0
        self._pool = spark.conf.get(POOL, None)

    @staticmethod
    def is_small(*, log_bytes: int = 0, rows: int = 0, file_bytes: int = 0) -> bool:
        """Whether so much work is done here, where a Spark job would cost more."""
        return log_bytes <= HERE_LOG_BYTES and rows <= HERE_ROWS and file_bytes <= HERE_FILE_BYTES

    def run(self, function: Callable[[T], R], tasks: Sequence[T], *, here: bool = False) -> list[R]:
        """Results in the order of the tasks, of which the heaviest should come first. ``here``: run
        them in this process, where a Spark job would cost more than the work. Raises the error of
        the first task that has one."""
        return all_of(self.outcomes(function, tasks, here=here))

    def outcomes(
        self, function: Callable[[T], R], tasks: Sequence[T], *, here: bool = False
    ) -> list[R | Exception]:
        """The results as ``run`` has them, with a task's error in the place of its result: one that
        fails takes nothing away from the others. Where Spark gives the whole job up, that is the
        error of each task."""
        guarded = _Guarded(function)
        if here or not tasks:
            return [guarded.outcome(task) for task in tasks]
        count = min(len(tasks), _BUNDLES * self.count)
        if self._pool:  # of Spark's slots, which are several channels', no more than ours
            count = min(count, self.count)
            self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", self._pool)
        bundles = [tasks[first::count] for first in range(count)]
        try:
            outcomes = self.spark.sparkContext.parallelize(bundles, count).map(guarded).collect()
        except (PySparkException, Py4JError, OSError) as error:  # a task's own come home
            return [error] * len(tasks)
        self.task_retries += sum(attempt for attempt, _ in outcomes)
        return [outcomes[i % count][1][i // count] for i in range(len(tasks))]


def all_of(outcomes: Iterable[R | Exception]) -> list[R]:
    """The results. Raises the first error among them."""
    results = []
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
        results.append(outcome)
    return results


class _Guarded:
    """Brings our own errors home as values: raised, Spark would turn them into text. Beside the
    results stands which attempt of Spark's this was, from 0."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def __call__(self, tasks: Sequence[Any]) -> tuple[int, list[Any]]:
        _settle()
        context = TaskContext.get()
        attempt = context.attemptNumber() if context else 0
        try:
            return attempt, [self.outcome(task) for task in tasks]
        finally:
            # Idle workers stay; what Arrow keeps for later tasks would count in each of them.
            pa.default_memory_pool().release_unused()

    def outcome(self, task: Any) -> Any:
        try:
            return self.function(task)
        except (SparkReplError, OSError) as error:
            return error


def _settle() -> None:
    """Freezes this worker's objects in its first tasks: pyspark runs a full gc.collect() after each
    task, 60 ms with numba's heap, and frozen objects are not visited."""
    global _warm
    _warm += 1
    if _warm <= 6:
        gc.freeze()
