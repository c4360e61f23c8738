"""What a process is asked by signals: SIGTERM and Ctrl-C, to end; SIGHUP, to read its file anew."""

from __future__ import annotations

import signal
from collections.abc import Callable


def at_signals(end: Callable[[], None], reload: Callable[[], None] | None = None) -> None:
    """Both are called in the main thread, between two of its instructions: they only set flags.
    Without ``reload`` SIGHUP ends the process, as ever."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: end())
    if reload is not None:
        signal.signal(signal.SIGHUP, lambda *_: reload())
