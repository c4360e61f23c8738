"""Owner's lease: a small object beside the control table that shows other hosts whether the owner
of a target still runs.

The owner's process replaces the object, by compare-and-swap, every quarter of the lease's time. A
rival, a process on another host that wants to own the target, reads the object repeatedly. It may
claim the target after it has seen the object unchanged for the lease's time, by its own monotonic
clock. The object contains no time of day, so clocks may differ. The lease decides only when a rival
may try to claim: the fence refuses a former owner's commits, whatever the lease shows.

The owner's row records the lease's time in seconds. So a missing object, or one of an earlier
owner, also has to change within that time.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ... import formats
from ...delta.store import storage
from ...errors import FencedError, SparkReplError, Stopped, TargetError
from ...runtime.threads import thread
from .fence import check_free
from .owner import who

if TYPE_CHECKING:
    from ...runtime.store import Tag
    from .control_rows import ControlRows
    from .owner import Owner

    Taken = Callable[[tuple[int, Owner] | None], object]

logger = logging.getLogger(__name__)

LEASE_S = 30
"""seconds for which a lease is valid, unless the configuration has another number"""
_RENEWALS = 4
"""number of renewals in the time for which a lease is valid"""
_FORMAT, _TRIES = 1, 5
_LOOK_MOST_S = 5.0
"""between two checks by a waiting rival"""


def lease_path(control: str) -> str:
    """Return the path of the lease of the control table's owner."""
    return os.path.join(os.path.dirname(control), "lease.json")


class OwnerLease(NamedTuple):
    """A lease as it was read. ``tag``: None if the object does not exist."""

    epoch: int = 0
    claim: str = ""
    tag: Tag | None = None

    @classmethod
    def read(cls, path: str) -> OwnerLease:
        """Return the lease. If the object is missing or not a lease, return one without an owner.
        Raise OSError, TargetError."""
        try:
            content, tag = storage.read_tagged(path)
        except FileNotFoundError:
            return cls()
        try:
            fields = json.loads(content)
            return cls(int(fields["epoch"]), str(fields["claim"]), tag)
        except (ValueError, LookupError, TypeError):
            return cls(tag=tag)


class Renewals:
    """Renewals of this process's lease. ``owner``: this process, as its row with ``epoch`` in the
    control table ``rows`` records it."""

    def __init__(self, rows: ControlRows, epoch: int, owner: Owner) -> None:
        self._path, self._rows = lease_path(rows.path), rows
        self._epoch, self._owner = epoch, owner
        self._tag: Tag | None = None

    def renew(self) -> bool:
        """Replace the object. Return False if another process has taken the target over. Raise
        OSError if it is unknown whether the object was replaced, and TargetError."""
        content = self._content()
        if self._tag is not None and self._put(content, self._tag):
            return True
        for _ in range(_TRIES):  # another process may replace it at the same moment
            lease = OwnerLease.read(self._path)
            later = lease.epoch >= self._epoch and lease.claim != self._owner.claim
            if later and not self._is_owner():
                return False
            if self._put(content, lease.tag):
                return True
        return True

    def _put(self, content: bytes, tag: Tag | None) -> bool:
        """Return whether the object is replaced. After an error the last tag stays: if the object
        was replaced, the next renewal finds this claim in it."""
        put = storage.put_if_match(self._path, content, tag)
        self._tag = put or self._tag
        return put is not None

    def _content(self) -> bytes:
        """Return the content of a lease. No two contents are equal."""
        owner = self._owner
        fields = {
            "epoch": self._epoch, "claim": owner.claim, "lease_s": owner.lease_s,
            "host": owner.host, "pid": owner.pid, "id": uuid.uuid4().hex,
        }  # fmt: skip
        return formats.stamp(json.dumps(fields), _FORMAT).encode()

    def _is_owner(self) -> bool:
        owner = self._rows.owner()
        return owner is None or (owner[0], owner[1].claim) == (self._epoch, self._owner.claim)

    def run(self, ending: threading.Event, taken: Taken) -> None:
        """Renew until ``ending`` is set, or until another process has taken the target over. Then
        call ``taken`` with that process's epoch and owner."""
        failing, every_s = "", self._owner.lease_s / _RENEWALS
        while not ending.wait(every_s):
            error = ""
            try:
                if not self.renew():
                    owner = self._rows.owner()
                    logger.warning("another applier has taken this target over%s", who(owner))
                    taken(owner)
                    return
            except (OSError, SparkReplError) as raised:
                error = str(raised)
            except Exception:  # otherwise the thread would end unnoticed
                logger.exception("the lease is not renewed")
            if error and not failing:
                text = "the lease is not renewed (%s): another host may take over after %d s"
                logger.warning(text, error, self._owner.lease_s)
            elif failing and not error:
                logger.info("the lease is renewed again")
            failing = error


def start_renewals(
    rows: ControlRows, epoch: int, owner: Owner, taken: Taken
) -> Callable[[], object]:
    """Renew this process's lease in a thread. Return the function that ends the renewals.

    The first renewal comes a quarter of the lease's time after the call, so a claim that is
    released before costs no request. The thread calls ``taken``.
    """
    ending, renewals = threading.Event(), Renewals(rows, epoch, owner)
    thread(lambda: renewals.run(ending, taken), "lease", daemon=True, stop=ending).start()
    return ending.set


class LeaseWatch:
    """This process's observations of the lease of one owner on another host.

    ``renewed``: whether the object had changed at the last check. ``unchanged_s``: the seconds for
    which it was seen unchanged. A pause between two checks counts as at most the time between two
    renewals, since this process may have been suspended together with the owner.
    """

    def __init__(
        self, path: str, lease_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._path, self._lease_s, self._clock = path, lease_s, clock
        self._seen: OwnerLease | None = None
        self._seen_at, self.unchanged_s, self.renewed = 0.0, 0.0, False

    @property
    def has_expired(self) -> bool:
        return self.unchanged_s >= self._lease_s

    @property
    def left_s(self) -> float:
        """Return the seconds for which the object must stay unchanged until the lease expires."""
        return max(0.0, self._lease_s - self.unchanged_s)

    def look(self) -> None:
        """Read the object once. Raise OSError, TargetError: the time since the last check then
        does not count."""
        began = self._clock()
        lease = OwnerLease.read(self._path)
        self.renewed = self._seen is not None and lease != self._seen
        if lease == self._seen:
            self.unchanged_s += min(began - self._seen_at, self._lease_s / _RENEWALS)
        else:
            self._seen, self.unchanged_s = lease, 0.0
        self._seen_at = self._clock()

    @property
    def is_due(self) -> bool:
        """Return whether it is time for the next check."""
        return self._seen is None or self._clock() - self._seen_at >= look_every_s(self._lease_s)


def look_every_s(lease_s: float) -> float:
    """Return the seconds between two checks by a process that waits for the lease."""
    return min(lease_s / _RENEWALS / 2, _LOOK_MOST_S)


_watches: dict[tuple[str, str], LeaseWatch] = {}
"""by control table and claim"""


def watch_of(control: str, owner: Owner) -> LeaseWatch:
    """Return this process's watch of an owner's lease."""
    key = (control, owner.claim)
    if key not in _watches:
        _watches[key] = LeaseWatch(lease_path(control), owner.lease_s)
    return _watches[key]


def has_ended(control: str, owner: Owner) -> bool:
    """Return whether the owner is known to be dead, or its lease on another host has expired. It
    may be called often, because it reads the lease only when the next check is due."""
    if not owner.has_lease_elsewhere:
        return owner.is_dead
    watch = watch_of(control, owner)
    if watch.is_due:
        with suppress(OSError, TargetError):  # no time counts
            watch.look()
    return watch.has_expired


def check_unclaimed(control: str, owner: Owner | None) -> None:
    """Raise FencedError, with the owner's name, if the owner runs or may run. If it is on another
    host, read its lease once. Raise OSError, TargetError."""
    if owner is None or not owner.has_lease_elsewhere:
        check_free(control, owner)
        return
    watch = watch_of(control, owner)
    watch.look()
    if watch.has_expired:
        return
    if watch.renewed:
        hint = "stop it first: it renews its lease"
    else:
        hint = f"if it is gone, the target is free in {watch.left_s:.0f} s; or use --take-over"
    check_free(control, owner, hint)


def wait_until_unclaimed(
    control: ControlRows,
    stopping: threading.Event | None = None,
    say: Callable[[str], None] = logger.warning,
    wait: Callable[[threading.Event, float], bool] = threading.Event.wait,
) -> None:
    """Wait until an owner on another host releases the target, or until its lease expires. Call
    ``say`` with the state every few seconds.

    Raise FencedError, with the owner's name, as soon as it renews its lease. Raise it at once if
    the owner has no lease, or runs on this host. Raise Stopped when ``stopping`` is set, OSError,
    TargetError.
    """
    stopping, looked = stopping or threading.Event(), set[str]()
    while True:
        row = control.owner()
        owner = row and row[1]
        if owner is None or not owner.has_lease_elsewhere:
            check_free(control.path, owner)
            return
        try:
            check_unclaimed(control.path, owner)
            return
        except FencedError:
            watch = watch_of(control.path, owner)
            if watch.renewed and owner.claim in looked:  # since this wait began
                raise
            looked.add(owner.claim)
        say(
            f"another applier owns this target: pid {owner.pid} on host {owner.host}; if it does"
            f" not renew its lease for another {watch.left_s:.0f} s, it is gone"
        )
        if wait(stopping, look_every_s(owner.lease_s)):
            raise Stopped
