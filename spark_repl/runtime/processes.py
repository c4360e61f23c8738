"""Processes of this machine that run one task each: for work of seconds, before a Spark session
would be there."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, TypeVar

from ..errors import SparkReplError

if TYPE_CHECKING:
    from typing import Self

T = TypeVar("T")
R = TypeVar("R")


class Processes:
    """Runs functions of importable modules in at most ``count`` processes, or in this one where
    that is 1. As a context manager it ends them."""

    def __init__(self, count: int) -> None:
        # Not forked: threads of this process may hold a lock that nobody would give back there.
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(count, mp_context=context) if count > 1 else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def start(self, function: Callable[[], object]) -> None:
        """Has a process load what ``function`` needs, while something else is waited for."""
        if self._pool is not None:
            self._pool.submit(function)

    def run(self, function: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
        """Results in the order of the tasks. Raises the error of the first that has one, and
        SparkReplError when a process was killed."""
        if self._pool is None or len(tasks) < 2:
            return [function(task) for task in tasks]
        try:
            return list(self._pool.map(function, tasks))
        except BrokenProcessPool as error:
            raise SparkReplError(
                "a process that compares rows was killed",
                hint="by the kernel, for its memory? Start it again: it goes on where it was",
            ) from error
