"""A function called in a process of its own, which may change what this one has."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import TypeVar

R = TypeVar("R")


def in_child(function: Callable[[], R]) -> R:
    """The result of a function in a fork of this process."""
    fork = multiprocessing.get_context("fork")
    results, gives = fork.Pipe(duplex=False)
    process = fork.Process(target=lambda: gives.send(function()))
    process.start()
    gives.close()
    try:
        result: R = results.recv()
    finally:
        process.join()
    return result
