"""Commands of ours that ``run`` has beside it, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Protocol

from ..runtime.threads import OF_CHANNEL, channel_here


class CommandProcess(Protocol):
    """What ``subprocess.Popen`` has of it."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None:
        """Its exit code, negative for a signal's number; None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code. Raises subprocess.TimeoutExpired."""

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


Start = Callable[[Sequence[str], Sequence[str]], CommandProcess]
"""of a command of ``spark-repl``, and more options for it; raises OSError"""


def start(command: Sequence[str], options: Sequence[str]) -> CommandProcess:
    """Starts a command of ``spark-repl`` with more options; it ends by itself when this process has
    (``--supervised``), and says what it has to say on our standard error, as of this thread's
    channel. A terminal's Ctrl-C is ours alone to hear. Raises OSError."""
    return subprocess.Popen(
        [sys.executable, "-m", "spark_repl", *command, "--supervised", str(os.getpid()), *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        process_group=0,
        env={**os.environ, OF_CHANNEL: channel_here()},
    )


def end(process: CommandProcess | None, most_s: float) -> None:
    """Ends a process that may have ended: by SIGTERM, and where that takes longer by SIGKILL."""
    if process is not None and process.poll() is None:
        process.terminate()
        try:
            process.wait(most_s)
        except subprocess.TimeoutExpired:
            process.kill()
