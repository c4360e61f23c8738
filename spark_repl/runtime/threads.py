"""Threads that know their channel: a new thread inherits it from the thread that creates it.

In a process of several channels, each line of the log names its thread's channel.

Before release 3.14, Python ends a daemon thread that still runs when the process ends. If pyarrow
reads a Parquet file from an object store in that thread, the process hangs, or ends with status 134
and "terminate called without an active exception". So the process stops such threads first.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
R = TypeVar("R")

OF_CHANNEL = "SPARK_REPL_LOG_CHANNEL"
"""environment variable with the channel, for a process that a channel starts"""

_CHANNEL: ContextVar[str] = ContextVar("channel", default="")
_EXIT_S = 5.0
"""seconds for which the end of the process waits for the threads that it stops"""
_STOPS = WeakKeyDictionary[threading.Thread, threading.Event]()
"""the events that stop daemon threads"""


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


def thread(
    target: Callable[[], object], name: str, *, daemon: bool = False,
    stop: threading.Event | None = None,
) -> threading.Thread:  # fmt: skip
    """Return a thread that calls ``target`` and has this thread's channel. ``stop``: the event that
    stops a daemon thread. The end of the process sets it, and waits for the thread."""
    channel = channel_here()

    def run() -> None:
        with under_channel(channel):
            target()

    created = threading.Thread(target=run, name=name, daemon=daemon)
    if stop is not None:
        _STOPS[created] = stop
    return created


@atexit.register
def _stop_threads() -> None:
    running = {daemon: stop for daemon, stop in _STOPS.items() if daemon.is_alive()}
    for stop in running.values():
        stop.set()
    until = time.monotonic() + _EXIT_S
    for daemon in running:
        daemon.join(max(0.0, until - time.monotonic()))


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
