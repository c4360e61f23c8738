"""The receiver as a process of its own, and the position at which a new relay log begins.

The receivers of several channels are forked from one process that has imported their modules. A
receiver by itself imports 100 MB that are equal in each. Python's fork server
(``multiprocessing``), a process without threads, imports them once. A forked receiver takes 55 MB
while it follows, instead of 116. The fork server ends after this process and all receivers, and
starts again if it has ended.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from multiprocessing.resource_tracker import ensure_running
from typing import TYPE_CHECKING, Any

from ..control.records.channels import control_of
from ..control.records.copies import standing
from ..control.records.operator_decisions import skipped
from ..errors import SparkReplError
from ..gtid import GtidSet
from ..receiver.receiver import Receiver
from ..receiver.restored_log import Needed
from ..relay.source_places import SourcePlace
from ..runtime.threads import OF_CHANNEL, channel_here, thread
from ..source.connection import present_gtids
from .archived_relay import archive_of, archiver_of, restore_lost
from .command_process import at_signals

if TYPE_CHECKING:
    from ..config import Config

logger = logging.getLogger(__name__)


def executed_of(config: Config) -> GtidSet | None:
    """Return the target's GTID set, after which a new relay log begins; None if there is no target
    yet."""
    return standing(control_of(config)).executed


def place_of(config: Config) -> tuple[str, int] | None:
    """Return the source's file and position up to which the target has everything.

    A new relay log without auto_position begins there. Return None without a target, or if the
    target does not record it.
    """
    cut = standing(control_of(config)).needed
    place = SourcePlace.of(cut.source) if cut else None
    return (place.file, place.position) if place else None


def needed_of(config: Config) -> Needed:
    """Return which log a restored relay log must have for the target. Raise as ``executed_of``."""
    if config.source.auto_position:
        return Needed(executed_of(config) or GtidSet())
    return Needed(None, place_of(config))


def _skipped(config: Config) -> GtidSet:
    """Return the GTIDs of ``spark-repl skip``; none if the target can't be read now."""
    try:
        return skipped(control_of(config))
    except (SparkReplError, OSError) as error:
        logger.warning("what is to be left out is not known: %s", error)
        return GtidSet()


def receive(config: Config, *, parent: int = 0, from_end: bool = False) -> dict[str, Any]:
    """Run the receiver in this process until SIGTERM, or until the process ``parent`` has ended.

    A new log begins after the target's transactions; with ``from_end`` after the source's. Raise
    SourceError if the source refuses, LogError if the relay log can't be written.
    """
    begin = present_gtids(config.source)[0] if from_end else executed_of(config)
    by_gtid = config.source.auto_position
    place = None if by_gtid else place_of(config)
    archive = archive_of(config)
    receiver = Receiver(
        config,
        begin,
        place,
        keep_on=lambda: not parent or os.getppid() == parent,
        skipped=partial(_skipped, config),
        archiver=archiver_of(config, archive) if archive else None,
    )
    at_signals(receiver.stop)
    began = time.perf_counter()
    needed = Needed((begin or GtidSet()) if by_gtid else None, place)
    if not archive or from_end or restore_lost(config, archive, needed, receiver.wait):
        receiver.run()
    return {
        "transactions": receiver.writer.transactions,
        "seconds": round(time.perf_counter() - began, 3),
        "received_transaction_set": str(receiver.writer.received),
        "relay_position": f"{receiver.writer.number:06d}:{receiver.writer.whole}",
    }


_FORKING = multiprocessing.get_context("forkserver")
_PRELOADED = [f"{__package__}.receiver_parent"]
_PROGRAM = __name__.partition(".")[0]
_ASKING = threading.Lock()
"""guards processes: only the first question about an end gets its code, and a start asks for all"""
_INTERRUPT = {signal.SIGINT}
_LINE = 15
"""bytes that the system keeps of a process's name"""


def start(command: Sequence[str], options: Sequence[str]) -> ForkedCommand:
    """Start a command as ``command_process.start`` does, but by a fork."""
    process = _FORKING.Process(
        target=_run, args=([*command, *options], channel_here()), name=command[0], daemon=True
    )
    with _ASKING, _interrupts_blocked():
        _FORKING.set_forkserver_preload(_PRELOADED)
        process.start()
    return ForkedCommand(process)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block SIGINT in this thread, so that a process which starts meanwhile does not hear Ctrl-C.

    The fork server ignores SIGINT only after its imports. An interrupted one ends, and the error of
    the start would be the channel's.
    """
    ensure_running()  # the resource tracker, whose start would unblock SIGINT again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPT)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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
    while signal.sigtimedwait(_INTERRUPT, 0):  # of Ctrl-C before it had its process group
        pass
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPT)
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
