"""Threads that know whose they are: that of the channel whose thread began them, where a process
has several, so that each line of its log says it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar

OF_CHANNEL = "SPARK_REPL_LOG_CHANNEL"
"""in the environment of a process that a channel has beside it: the channel"""

_HERE: ContextVar[str] = ContextVar("channel", default="")


def channel_here() -> str:
    """Whose this thread is; "" in a process of one channel, and of what is about no channel."""
    return _HERE.get()


@contextmanager
def under_channel(name: str) -> Iterator[None]:
    """This thread, and those that it begins meanwhile, are the channel's."""
    before = _HERE.set(name)
    try:
        yield
    finally:
        _HERE.reset(before)


def thread(target: Callable[[], object], name: str, *, daemon: bool = False) -> threading.Thread:
    """One that calls ``target``, as of the channel that this thread is of."""
    channel = channel_here()

    def run() -> None:
        with under_channel(channel):
            target()

    return threading.Thread(target=run, name=name, daemon=daemon)


class Pool(ThreadPoolExecutor):
    """One whose threads are of the channel that the thread is of which has made it."""

    def __init__(self, most: int, thread_name_prefix: str = "") -> None:
        super().__init__(most, thread_name_prefix, _HERE.set, (channel_here(),))
