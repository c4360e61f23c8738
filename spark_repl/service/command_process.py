"""Commands of ``spark-repl`` as processes: how ``run`` starts and ends them, signals, and errors.

A receiver that ends with an error writes it into a file for its supervisor (``write_refusal``). The
receiver's report can't hold it: it may be another receiver's, or in a folder that can't be written.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from .. import errors
from ..errors import SparkReplError
from ..runtime.threads import OF_CHANNEL, channel_here


class CommandProcess(Protocol):
    """The part of ``subprocess.Popen`` that a supervisor of a command uses."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None:
        """Return the exit code, or minus the signal's number; None while the process runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end, and return the exit code. Raise subprocess.TimeoutExpired."""

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


_PR_SET_PDEATHSIG = 1
Start = Callable[[Sequence[str], Sequence[str]], CommandProcess]
"""starts a command of ``spark-repl`` with more options; raises OSError"""


def start(command: Sequence[str], options: Sequence[str]) -> CommandProcess:
    """Start a command of ``spark-repl`` with further options. Raise OSError.

    The command ends by itself after this process ends (``--supervised``). It writes to this
    process's standard error, with this thread's channel. It has its own process group, so that a
    terminal's Ctrl-C reaches only this process.
    """
    return subprocess.Popen(
        [sys.executable, "-m", "spark_repl", *command, "--supervised", str(os.getpid()), *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        process_group=0,
        env={**os.environ, OF_CHANNEL: channel_here()},
    )


def ends_with_parent(number: int) -> Callable[[], None]:
    """Return the ``preexec_fn`` of a child process that gets the signal ``number`` when the thread
    that starts the child ends, even by SIGKILL. Start the child before this process has other
    threads."""
    parent, libc = os.getpid(), ctypes.CDLL(None, use_errno=True)

    def prepare() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:  # the parent has already ended
            os._exit(1)

    return prepare


def end(process: CommandProcess | None, most_s: float) -> None:
    """End a process, which may already have ended: with SIGTERM, and with SIGKILL after ``most_s``
    seconds."""
    if process is not None and process.poll() is None:
        process.terminate()
        try:
            process.wait(most_s)
        except subprocess.TimeoutExpired:
            process.kill()


_PLACE = ("file", "position", "gtid", "table", "hint", "number")


def write_refusal(path: str, error: SparkReplError) -> None:
    """Write an error to the file. Raise OSError if that fails."""
    fields = {name: getattr(error, name) for name in _PLACE}
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"kind": type(error).__name__, "message": error.message, **fields}, file)


def read_refusal(path: str) -> SparkReplError | None:
    """Return the error in the file; None if there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            fields: dict[str, Any] = json.load(file)
    except (OSError, ValueError):
        return None
    kind = getattr(errors, str(fields.pop("kind")), SparkReplError)
    message = str(fields.pop("message"))
    try:
        error: SparkReplError = kind(message, **fields)
    except TypeError:  # its class takes other arguments
        error = SparkReplError(message, **fields)
    return error


def at_signals(end: Callable[[], None], reload: Callable[[], None] | None = None) -> None:
    """Call ``end`` at SIGTERM and Ctrl-C, and ``reload`` at SIGHUP.

    Python calls both in the main thread, between two of its instructions, so they may only set
    flags. Without ``reload``, SIGHUP ends the process, as usual.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: end())
    if reload is not None:
        signal.signal(signal.SIGHUP, lambda *_: reload())
