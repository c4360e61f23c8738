"""Crash points: where a test or the demo can have the process killed, by its environment alone.

``SPARK_REPL_CRASH=between_tables:5`` sends SIGKILL to this process when ``between_tables`` is
reached for the fifth time, ``between_tables:5:STOP`` SIGSTOP. Without the variable a point costs
one dictionary look-up.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager

POINTS = (
    "before_stage",
    "staged",
    "planned",
    "before_commit",
    "between_tables",
    "after_commit",
    "before_cut",
    "after_cut",
    "before_checkpoint",
    "before_statement",
    "planned_statement",
    "after_statement",
    "compacted",
    "after_compaction",
    "replaced_removed",
    "xa_keeping",
    "xa_kept",
    "xa_forget",
    "quarantine_begun",
    "quarantine_keeping",
    "quarantine_kept",
    "quarantine_replayed",
    "quarantine_forget",
    "rows_repaired",
    # in the receiver: before fsync, before the end is published, a file ended, the next one there
    # and not listed; in a purge: not listed any more, and still there
    "relay_written",
    "relay_synced",
    "relay_ended",
    "relay_begun",
    "relay_purged",
    # in the archiver: the archive has a chunk, and the record beside the log does not
    "relay_archived",
    # in a restoration of the relay log: after each of its steps
    "relay_restoring",
)
REMOVALS = ("before_removal", "removal", "set_aside")
"""of a file below the target: before its owner is asked for, behind the answer, and where a file of
Delta's log was renamed aside. Most runs reach none of them."""

_lock = threading.Lock()
_hits: dict[str, int] = {}
_listener: tuple[Callable[[str], object], Container[str]] = (lambda name: None), ()


@contextmanager
def listening(listener: Callable[[str], object], armed: Container[str] = ()) -> Iterator[None]:
    """Tells ``listener``, within the block, the name of each point that this process reaches; it
    may raise there. ``armed``: points at which more is done so that they can be reached."""
    global _listener
    before, _listener = _listener, (listener, armed)
    try:
        yield
    finally:
        _listener = before


def armed(name: str) -> bool:
    """Whether somebody waits for the point: more is done then, so that it can be reached."""
    return name in _listener[1] or _is_asked_for(name)


def _is_asked_for(name: str) -> bool:
    return os.environ.get("SPARK_REPL_CRASH", "").partition(":")[0] == name


def reach(name: str) -> None:
    """Dies here, without any clean-up, or sleeps, when the environment asks for it."""
    _listener[0](name)
    if not _is_asked_for(name):
        return
    with _lock:
        _hits[name] = _hits.get(name, 0) + 1
        count, _, how = os.environ["SPARK_REPL_CRASH"].partition(":")[2].partition(":")
        if _hits[name] == int(count or 1):
            os.kill(os.getpid(), signal.Signals[f"SIG{how or 'KILL'}"])
