"""Requests to object stores: counts them by kind, and repeats them after errors that a retry may
cure.

obstore itself repeats only parts of a large object, because it would repeat silently. A throttled
store answers 429 or 503. Its first pause is at least a second, and pauses double up to 20 s, since
obstore does not show a Retry-After. After other errors the first pause is a tenth of a second, and
the longest 2 s. Every pause is up to half longer at random, so that writers do not return at once.
"""

from __future__ import annotations

import errno
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

REPEAT_S = 60.0
"""seconds after which a request is not repeated"""
_REPEATS_MAX = 5
"""of a request to a store that is not throttled"""
_THROTTLED_FIRST_S, _THROTTLED_MAX_S = 1.0, 20.0
_FIRST_S, _MAX_S = 0.1, 2.0
_JITTER = 0.5
_REASONS = {errno.EBUSY: "throttled", errno.ETIMEDOUT: "timeout", errno.EIO: "failed"}
"""by the number of an error that a retry may cure"""
T = TypeVar("T")

_requests: Counter[str] = Counter()
_repeats: Counter[str] = Counter()
_listeners: list[Callable[[], None]] = []
_paused_s = 0.0
_lock = threading.Lock()


def request_counts() -> dict[str, int]:
    """Return the number of this process's requests by kind: list, head, get, put, delete. Repeated
    requests count again, except for parts of objects above 5 MB."""
    with _lock:
        return dict(_requests)


def repeat_counts() -> dict[str, int]:
    """Return the number of this process's repeated requests by reason: throttled, timeout,
    failed."""
    with _lock:
        return dict(_repeats)


def paused_s() -> float:
    """Return the seconds for which this process's threads paused before they repeated requests."""
    with _lock:
        return _paused_s


@contextmanager
def each_pause(listener: Callable[[], None]) -> Iterator[None]:
    """Return a context in which ``listener`` is called when a thread begins to pause before a
    repeated request."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def count_requests(kind: str, number: int = 1) -> None:
    """Add to the requests of a kind."""
    with _lock:
        _requests[kind] += number


def send(kind: str, request: Callable[[], T], *, number: int = 1, repeat_s: float = REPEAT_S) -> T:
    """Return the result of a request, which obstore sends as ``number`` requests.

    Repeat it after errors after which a retry may succeed: for ``repeat_s`` seconds, and at most
    five times if the store is not throttled. ``request`` raises errors as ``object_store_errors``
    translates them.
    """
    until, repeats = time.monotonic() + repeat_s, Counter[str]()
    while True:
        count_requests(kind, number)
        try:
            return request()
        except OSError as error:
            reason = _REASONS.get(error.errno or 0, "")
            pause_s = _pause_s(reason, repeats[reason])
            is_last = reason != "throttled" and repeats[reason] == _REPEATS_MAX
            if not reason or is_last or time.monotonic() + pause_s > until:
                raise
        repeats[reason] += 1
        _count_repeat(reason, pause_s)
        for listener in (*_listeners,):
            listener()
        time.sleep(pause_s)


def _pause_s(reason: str, repeats: int) -> float:
    throttled = reason == "throttled"
    first_s, max_s = (_THROTTLED_FIRST_S, _THROTTLED_MAX_S) if throttled else (_FIRST_S, _MAX_S)
    longest: float = min(first_s * 2.0**repeats, max_s)
    return longest * (1 + _JITTER * random.random())


def _count_repeat(reason: str, pause_s: float) -> None:
    global _paused_s
    with _lock:
        _repeats[reason] += 1
        _paused_s += pause_s
