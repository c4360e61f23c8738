"""Owner: the process that applies to a target, and whether it is known to be dead.

What it has in work lies in folders named by its epoch: one that slept while another took over
writes and removes there for a moment when it wakes, and disturbs nobody.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from ...runtime.private_files import make_folder

_held: set[str] = set()
"""claims of this process that it has not given back"""


@dataclass(frozen=True)
class Owner:
    """Who applies. ``started``: the process's start in clock ticks, since a pid may be reused.
    ``claim``: that of its fence; a process may claim again what it could not give back."""

    host: str
    pid: int
    started: int
    since: str
    released: bool = False
    channel: str = ""
    """"": not recorded"""
    claim: str = ""
    """"": not recorded"""

    @classmethod
    def me(cls, channel: str, claim: str = "") -> Owner:
        pid = os.getpid()
        since = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(socket.gethostname(), pid, _started(pid), since, channel=channel, claim=claim)

    @property
    def is_here(self) -> bool:
        """Whether it runs, or ran, on this host."""
        return self.host == socket.gethostname()

    @property
    def is_this_process(self) -> bool:
        return self.is_here and self.pid == os.getpid() and self.started == _started(self.pid)

    @property
    def is_dead(self) -> bool:
        """Whether it has released the target, or is known to be dead: only processes of this host
        can be looked at. One of this process is, too, when it has ended and storage did not take
        that it was released."""
        if self.released:
            return True
        if self.is_this_process:
            return self.claim != "" and self.claim not in _held
        return self.is_here and _started(self.pid) != self.started


@contextmanager
def held_if_done(claim: str) -> Iterator[None]:
    """This process has an owner of that claim, and from then on if nothing is raised."""
    _held.add(claim)
    try:
        yield
    except BaseException:
        _held.discard(claim)
        raise


@contextmanager
def let_go(claim: str) -> Iterator[None]:
    """This process has it no more afterwards, whatever the control table says."""
    try:
        yield
    finally:
        _held.discard(claim)


def who(owner: tuple[int, Owner] | None) -> str:
    """An owner, behind its epoch, as a message's end has it; '' where there is none."""
    holder = owner[1] if owner else None
    return f": pid {holder.pid} on host {holder.host}, since {holder.since}" if holder else ""


def succeed(folder: str, *, inherit: bool) -> None:
    """Makes an owner's ``folder``, which is named by its epoch, and removes what earlier owners
    have left beside it. ``inherit``: the last owner's folder, which nobody uses any more, becomes
    this one's."""
    parent, epoch = os.path.split(folder)
    names = os.listdir(parent) if os.path.isdir(parent) else []
    former = sorted(int(name) for name in names if name.isdigit() and int(name) < int(epoch))
    if inherit and former and epoch not in names:
        os.rename(os.path.join(parent, str(former[-1])), folder)
    make_folder(folder)
    for name in names:
        if not name.isdigit() or int(name) < int(epoch):
            shutil.rmtree(os.path.join(parent, name), ignore_errors=True)


def _started(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except FileNotFoundError:
        if os.path.isdir("/proc/self"):
            return -1
        try:  # no /proc on this system: all that can be known is whether there is such a process
            os.kill(pid, 0)
        except ProcessLookupError:
            return -1
        return 0
    return -1 if fields[0] == "Z" else int(fields[19])
