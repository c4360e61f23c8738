"""Threads that know their channel: a new thread inherits it from the thread that creates it.

In a process of several channels, each line of the log names its thread's channel.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

OF_CHANNEL = "SPARK_REPL_LOG_CHANNEL"
"""environment variable with the channel, for a process that a channel starts"""

_CHANNEL: ContextVar[str] = ContextVar("channel", default="")


def channel_here() -> str:
    """Return this thread's channel; "" in a process with one channel, and for work that belongs to
    no channel."""
    return _CHANNEL.get()


@contextmanager
def under_channel(name: str) -> Iterator[None]:
    """Assign this thread, and threads that it starts within the context, to the channel."""
    before = _CHANNEL.set(name)
    try:
        yield
    finally:
        _CHANNEL.reset(before)


def thread(target: Callable[[], object], name: str, *, daemon: bool = False) -> threading.Thread:
    """Return a thread that calls ``target`` and has this thread's channel."""
    channel = channel_here()

    def run() -> None:
        with under_channel(channel):
            target()

    return threading.Thread(target=run, name=name, daemon=daemon)


class Pool(ThreadPoolExecutor):
    """A pool whose threads have the channel of the thread that creates the pool."""

    def __init__(self, most: int, thread_name_prefix: str = "") -> None:
        super().__init__(most, thread_name_prefix, _CHANNEL.set, (channel_here(),))


def map_at_once(function: Callable[[T], R], items: Sequence[T], most: int) -> list[R]:
    """Return what ``function`` returns for each item, in order. Process ``most`` items in parallel;
    a single item needs no thread. Raise what ``function`` raises for the first item that fails."""
    if len(items) < 2:
        return [function(item) for item in items]
    with Pool(min(most, len(items))) as pool:
        return list(pool.map(function, items))
