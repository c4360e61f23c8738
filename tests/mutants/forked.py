"""A piece of work in a fork of this process: begins warm, and leaves nothing behind here."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable
from enum import Enum
from typing import TypeVar

_T = TypeVar("_T")


class Ended(Enum):
    """How a fork ended that gave no result."""

    LATE = "no end"
    CRASHED = "crashed"


def forked(work: Callable[[], _T]) -> _T | Ended:
    """What ``work`` gives, in a fork with a process group of its own, of which nothing is left
    afterwards. It may set timers that end it: ``LATE``. Raises RuntimeError when ``work`` raises,
    with its traceback."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if not child:
        os.close(reading)
        _work(work, writing)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as pipe:
            result = pipe.read()
    finally:  # what a test started and left running goes too
        _kill(child)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if -status in (signal.SIGALRM, signal.SIGPROF):
        return Ended.LATE
    if not result:
        return Ended.CRASHED
    value, raised = pickle.loads(result)
    if raised:
        raise RuntimeError(f"the forked work raised: {raised}")
    return value


def _work(work: Callable[[], object], writing: int) -> None:
    try:
        os.setpgid(0, 0)
        try:
            result = pickle.dumps((work(), ""))
        except BaseException:
            result = pickle.dumps((None, traceback.format_exc()))
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(result)
    finally:
        sys.stdout.flush()
        os._exit(0)


def _kill(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return
