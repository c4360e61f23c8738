"""Workers: Spark partitions that run one task each, or this process for a tiny group."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import TaskContext, cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ..errors import SparkReplError
from .executor_disk import executor_disk
from .spark_jobs import connect_errors, is_connect, master_of, run_job
from .starting_session import Session, built, can_rest, in_use, is_built

if TYPE_CHECKING:
    from ..config import Config
    from .executor_disk import ExecutorDisk

T = TypeVar("T")
R = TypeVar("R")

# A Spark task costs 20 ms: with more tasks than this per worker, each one runs several of ours.
_BUNDLES = 4
# Work up to these sizes takes less time in this process than the start of a Spark job: bytes of log
# to read, staged rows to write, bytes of data files to rewrite.
HERE_LOG_BYTES, HERE_ROWS, HERE_FILE_BYTES = 1 << 19, 4000, 1 << 20
_WHILE_BUILT = 32
"""factor of these bounds while there is no session yet, or none any more: 16 MiB, 128,000 rows,
32 MiB"""

_MESSAGE_MIB = 128
"""Spark's default of ``spark.rpc.message.maxSize``, which a task must fit into"""

# Setting with the scheduler's pool of a session's jobs, if several channels share a JVM.
POOL = "spark_repl.pool"

_warm = 0


class Workers:
    """Runs functions of importable modules on the executors, at most ``count`` at a time. Work in
    this process does not wait for a session that is still being built.

    ``task_retries``: attempts that Spark repeated because an executor was lost. ``config``: the
    applier's configuration, or None if the tasks use no file on the driver's disk.
    """

    def __init__(self, spark: Session, count: int, config: Config | None = None) -> None:
        self._session, self.count, self.task_retries = spark, count, 0
        self._config = config

    @cached_property
    def disk(self) -> ExecutorDisk | None:
        """Return the executors' disks, or None if they read the driver's disk. Wait for the session
        if this depends on its master."""
        return None if self._config is None else disk_of(self._session, self._config)

    def has_own_disks(self, *, wait: bool = True) -> bool:
        """Return whether the executors have disks of their own. Without ``wait`` return False while
        the session is being built."""
        return (wait or is_built(self._session)) and self.disk is not None

    def is_small(self, *, log_bytes: int = 0, rows: int = 0, file_bytes: int = 0) -> bool:
        """Return whether this amount of work costs less in this process than as a Spark job, for
        which the session may first have to be built."""
        times = 1 if is_built(self._session) else _WHILE_BUILT
        return (
            log_bytes <= HERE_LOG_BYTES * times
            and rows <= HERE_ROWS * times
            and file_bytes <= HERE_FILE_BYTES * times
        )

    def run(self, function: Callable[[T], R], tasks: Sequence[T], *, here: bool = False) -> list[R]:
        """Run tasks, the heaviest first, and return their results in order.

        ``here``: run them in this process, if a Spark job would cost more than the work. Raise the
        error of the first task that failed.
        """
        return all_of(self.outcomes(function, tasks, here=here))

    def outcomes(
        self, function: Callable[[T], R], tasks: Sequence[T], *, here: bool = False
    ) -> list[R | Exception]:
        """Run tasks as ``run`` does, and return each task's result or error.

        A failed task does not affect the others. If Spark aborts the job, its error is the error of
        each task. Raise the errors of ``connect_errors``.
        """
        in_driver = Guarded(function)
        if here or not tasks:
            return [in_driver.outcome(task) for task in tasks]
        try:
            with in_use(self._session) as spark, connect_errors(spark):
                guarded = Guarded(function, self.disk)
                # Other channels share Spark's slots: use only our own.
                count = self.count if use_pool(spark) else _BUNDLES * self.count
                bundles, heavy = share_out(tasks, count, _message_bytes(spark))
                items = [[tasks[number] for number in bundle] for bundle in bundles]
                outcomes = run_job(spark, guarded, items) if items else []
        except (PySparkException, Py4JError, OSError) as error:  # errors of tasks are outcomes
            return [error] * len(tasks)
        results: dict[int, Any] = {}
        for numbers, (_, of_bundle) in zip(bundles, outcomes, strict=True):
            results.update(zip(numbers, of_bundle, strict=True))
        self.task_retries += sum(attempt for attempt, _ in outcomes)
        results.update((number, in_driver.outcome(tasks[number])) for number in heavy)
        return [results[number] for number in range(len(tasks))]


def share_out(
    tasks: Sequence[object], count: int, most: int | None
) -> tuple[list[list[int]], list[int]]:
    """Return the numbers of each bundle's tasks, and of the tasks that the driver has to run.

    A bundle is one Spark task. There are at most ``count`` bundles, or more if a bundle would be
    larger than ``most`` bytes (None: no bound). A single task above that bound can't be sent. Sizes
    are measured with cloudpickle, which Spark uses, and which also accepts views of dicts.
    """
    dumps: Any = cloudpickle.dumps
    sizes = [0 if most is None else len(dumps(task)) for task in tasks]
    bound = most or 0
    sent = [number for number, size in enumerate(sizes) if size <= bound]
    count = min(len(sent), count)
    while True:
        bundles = [sent[first::count] for first in range(count)]
        if count == len(sent) or all(sum(sizes[i] for i in b) <= bound for b in bundles):
            return bundles, [number for number, size in enumerate(sizes) if size > bound]
        count = min(len(sent), 2 * count)


def _message_bytes(spark: SparkSession) -> int | None:
    """Return how many bytes of tasks fit into one message to an executor, None for a local master,
    which sends none."""
    master = master_of(spark)
    if master.startswith("local") and not master.startswith("local-cluster"):
        return None
    mebibytes = int(spark.conf.get("spark.rpc.message.maxSize", None) or _MESSAGE_MIB)
    return (mebibytes << 20) * 7 // 8  # the rest is for what Spark adds


def use_pool(spark: SparkSession) -> bool:
    """Assign the jobs of this thread to the session's pool. Return whether it has one: Spark keeps
    the choice for each thread."""
    pool = None if is_connect(spark) else spark.conf.get(POOL, None)
    if pool:
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", pool)
    return bool(pool)


def disk_of(session: Session, config: Config) -> ExecutorDisk | None:
    """Return the disks of the session's executors, or None if they read the driver's disk. Wait for
    the session if that depends on its master."""
    if executor_disk("", config) is None or can_rest(session):
        return None
    return executor_disk(master_of(built(session)), config)


def all_of(outcomes: Iterable[R | Exception]) -> list[R]:
    """Return the results. Raise the first error among them."""
    results = []
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
        results.append(outcome)
    return results


class Guarded:
    """Returns errors of tasks as values, because Spark would turn raised errors into text.

    With the outcomes it returns Spark's number of the attempt, starting at 0. ``disk``: the
    executors' disks, or None if they read the driver's disk.
    """

    def __init__(self, function: Callable[[Any], Any], disk: ExecutorDisk | None = None) -> None:
        self.function, self.disk = function, disk

    def __call__(self, tasks: Sequence[Any]) -> tuple[int, list[Any]]:
        _freeze_objects()
        context = TaskContext.get()
        attempt = context.attemptNumber() if context else 0
        try:
            with self.disk.entered() if self.disk is not None else nullcontext():
                return attempt, [self.outcome(task) for task in tasks]
        finally:
            # Idle workers stay, and each would keep the memory that Arrow holds for later tasks.
            pa.default_memory_pool().release_unused()

    def outcome(self, task: Any) -> Any:
        try:
            return self.function(task)
        except (SparkReplError, OSError) as error:
            return error


def _freeze_objects() -> None:
    """Freeze this worker's objects during its first tasks.

    pyspark runs a full gc.collect() after each task, 60 ms with numba's heap, which skips frozen
    objects.
    """
    global _warm
    _warm += 1
    if _warm <= 6:
        gc.freeze()
