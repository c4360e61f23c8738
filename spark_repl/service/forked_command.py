"""Receivers of several channels, forked from one process that has imported their modules.

A receiver by itself imports 100 MB that are equal in each. Python's fork server
(``multiprocessing``), a process without threads, imports them once. A forked receiver takes 55 MB
while it follows, instead of 116. The fork server ends after this process and all receivers, and
starts again if it has ended.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess

from ..runtime.threads import OF_CHANNEL, channel_here, thread

_FORKING = multiprocessing.get_context("forkserver")
_PRELOADED = [f"{__package__}.receiver_parent"]
_PROGRAM = __name__.partition(".")[0]
_ASKING = threading.Lock()
"""guards processes: only the first question about an end gets its code, and a start asks for all"""
_LINE = 15
"""bytes that the system keeps of a process's name"""


def start(command: Sequence[str], options: Sequence[str]) -> ForkedCommand:
    """Start a command as ``command_process.start`` does, but by a fork."""
    process = _FORKING.Process(
        target=_run, args=([*command, *options], channel_here()), name=command[0], daemon=True
    )
    with _ASKING:
        _FORKING.set_forkserver_preload(_PRELOADED)
        process.start()
    return ForkedCommand(process)


class ForkedCommand:
    """A forked process. Safe from any thread."""

    def __init__(self, process: ForkServerProcess) -> None:
        self._process = process
        self.pid = process.pid or 0

    def poll(self) -> int | None:
        with _ASKING:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        wait([self._process.sentinel], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0)
        return code

    def terminate(self) -> None:
        with _ASKING:
            self._process.terminate()

    def kill(self) -> None:
        with _ASKING:
            self._process.kill()


def _run(command: list[str], channel: str) -> None:
    """Run the command in the forked process, with the streams, the process group and the
    environment of ``command_process.start``."""
    thread(_end_with_parent, "end with parent", daemon=True).start()
    os.setpgid(0, 0)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.environ[OF_CHANNEL] = channel
    _name(f"{command[0]} {channel}")
    sys.argv[1:] = [*command, "--supervised", str(os.getppid())]
    runpy.run_module(_PROGRAM, run_name="__main__")


def _end_with_parent() -> None:
    """Send SIGTERM to this process after the end of its parent.

    The fork server does not end: it lives as long as any process that it has forked.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def _name(name: str) -> None:
    """Set the name that ``ps -o comm`` and ``top`` show; the command line is the fork server's."""
    try:
        with open("/proc/self/comm", "w") as comm:
            comm.write(name.encode()[:_LINE].decode(errors="ignore"))
    except OSError:  # not every system has that
        pass
