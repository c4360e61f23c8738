"""Owner: the process that applies to a target, and whether it is known to be dead.

A process can be looked up only by processes of the same boot of the machine and the same PID
namespace. Names of hosts don't show that: pods of a StatefulSet and containers of one configuration
have equal names, on one machine or on several.

An owner keeps its work in folders that bear its epoch. A process that slept while another one took
over writes and removes there for a moment when it wakes, and disturbs no other owner.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from ...runtime.private_files import make_private_folder

_open_claims: set[str] = set()
"""claims that this process has not given back"""


@dataclass(frozen=True)
class Owner:
    """The process that applies. ``started``: its start in clock ticks, because a pid may be reused.
    ``claim``: the claim of its fence; if a process could not release the target, it may claim it
    again."""

    host: str
    pid: int
    started: int
    since: str
    released: bool = False
    channel: str = ""
    """"": not recorded"""
    claim: str = ""
    """"": not recorded"""
    lease_s: int = 0
    """seconds within which it renews its lease (``owner_lease``); 0: it has none"""
    boot_id: str = ""
    """identifies the boot of its machine; "": not recorded, by an earlier version or without
    /proc"""
    pid_namespace: int = 0
    """inode of its PID namespace; 0: not recorded"""
    moving_to: str = ""
    """URI to which it moves the target (``records/target_move``); "": it does not"""
    moved_to: str = ""
    """URI to which the target was moved: no process owns the target here any more"""

    @classmethod
    def me(cls, channel: str, claim: str = "", lease_s: int = 0) -> Owner:
        """Return this process as an owner."""
        pid = os.getpid()
        since = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(
            socket.gethostname(), pid, _started(pid), since,
            channel=channel, claim=claim, lease_s=lease_s,
            boot_id=_boot_id(), pid_namespace=_pid_namespace(),
        )  # fmt: skip

    def after_move(self) -> Owner:
        """Return the owner to record at the place from which a target was moved. Earlier versions
        treat it as a process on another host, so they also refuse the target."""
        place = self.moving_to
        return replace(
            self, host=f"(moved to {place})", pid=0, started=0, claim="", lease_s=0, moving_to="",
            moved_to=place,
        )  # fmt: skip

    @property
    def is_here(self) -> bool:
        """Return whether this process can check the owner's process: both are on this host, in one
        boot and one PID namespace. Fields that the owner's row does not record count as equal."""
        return (
            self.host == socket.gethostname()
            and self.boot_id in ("", _boot_id())
            and self.pid_namespace in (0, _pid_namespace())
        )

    @property
    def has_lease_elsewhere(self) -> bool:
        """Return whether this process can detect the owner's end only by its lease."""
        return self.lease_s > 0 and not self.is_here and not self.released

    @property
    def is_this_process(self) -> bool:
        return self.is_here and self.pid == os.getpid() and self.started == _started(self.pid)

    @property
    def is_dead(self) -> bool:
        """Return whether the owner has released the target, or is known to be dead. Only an owner
        that ``is_here`` can be checked. An owner within this process is also dead if it has ended
        but its release could not be written. The owner of a moved target is never dead."""
        if self.released:
            return True
        if self.moved_to:
            return False
        if self.is_this_process:
            return self.claim != "" and self.claim not in _open_claims
        return self.is_here and _started(self.pid) != self.started


@contextmanager
def open_claim(claim: str) -> Iterator[None]:
    """Register the claim as one of this process, unless the body raises."""
    _open_claims.add(claim)
    try:
        yield
    except BaseException:
        _open_claims.discard(claim)
        raise


@contextmanager
def give_back(claim: str) -> Iterator[None]:
    """Unregister the claim at the end, regardless of the control table's content."""
    try:
        yield
    finally:
        _open_claims.discard(claim)


def who(owner: tuple[int, Owner] | None) -> str:
    """Return the text about the owner ``(epoch, owner)`` for the end of a message; "" if there is
    none."""
    holder = owner[1] if owner else None
    return f": pid {holder.pid} on host {holder.host}, since {holder.since}" if holder else ""


def succeed(folder: str, *, inherit: bool) -> None:
    """Create an owner's ``folder``, whose name is its epoch, and remove what earlier owners have
    left in the same parent. ``inherit``: instead rename the last owner's folder, which no process
    uses any more."""
    parent, epoch = os.path.split(folder)
    names = os.listdir(parent) if os.path.isdir(parent) else []
    former = sorted(int(name) for name in names if name.isdigit() and int(name) < int(epoch))
    if inherit and former and epoch not in names:
        os.rename(os.path.join(parent, str(former[-1])), folder)
    make_private_folder(folder)
    for name in names:
        if not name.isdigit() or int(name) < int(epoch):
            shutil.rmtree(os.path.join(parent, name), ignore_errors=True)


def _boot_id() -> str:
    """Return what identifies the boot of this machine; "" without Linux's /proc."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _pid_namespace() -> int:
    """Return the inode of this process's PID namespace; 0 without Linux's /proc."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def _started(pid: int) -> int:
    """Return the process's start in clock ticks; -1: there is no such process; 0: it runs, and the
    system has no /proc."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except FileNotFoundError:
        if os.path.isdir("/proc/self"):
            return -1
        try:  # without /proc only the existence of the process can be checked
            os.kill(pid, 0)
        except ProcessLookupError:
            return -1
        return 0
    return -1 if fields[0] == "Z" else int(fields[19])
