"""Crash points: places where an environment variable has the process killed, for tests and the
demo.

With ``SPARK_REPL_CRASH=between_tables:5`` the process sends SIGKILL to itself when it reaches
``between_tables`` for the fifth time. With ``between_tables:5:STOP`` it sends SIGSTOP. Without the
variable a point costs one dictionary look-up.
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
    # in the receiver: before fsync; before the end is published; after a file ended; after the
    # next file was created, before it is listed. In a purge: after a file is no longer listed,
    # before it is removed
    "relay_written",
    "relay_synced",
    "relay_ended",
    "relay_begun",
    "relay_purged",
    # in the archiver: after a chunk was written, before the record beside the log has it
    "relay_archived",
    # in a restoration of the relay log: after each of its steps
    "relay_restoring",
    # in a move of the target: before each file, and after each control table that is written
    "moving_file",
    "target_moved",
)
REMOVALS = ("before_removal", "removal", "set_aside")
"""points of a removal below the target: before the check of the owner, after it, and after a file
of Delta's log was renamed aside. Most runs reach none of them."""

_lock = threading.Lock()
_hits: dict[str, int] = {}
_listener: tuple[Callable[[str], object], Container[str]] = (lambda name: None), ()


@contextmanager
def listening(listener: Callable[[str], object], armed: Container[str] = ()) -> Iterator[None]:
    """Call ``listener`` within the block with the name of each point that this process reaches.
    The listener may raise. ``armed``: points for which ``armed`` returns True."""
    global _listener
    before, _listener = _listener, (listener, armed)
    try:
        yield
    finally:
        _listener = before


def armed(name: str) -> bool:
    """Return whether a test or the environment waits for the point. The code then takes the path on
    which the point is."""
    return name in _listener[1] or _is_asked_for(name)


def _is_asked_for(name: str) -> bool:
    return os.environ.get("SPARK_REPL_CRASH", "").partition(":")[0] == name


def reach(name: str) -> None:
    """Call the listener. Then send this process its signal, without any clean-up, if the
    environment requests it at this point."""
    _listener[0](name)
    if not _is_asked_for(name):
        return
    with _lock:
        _hits[name] = _hits.get(name, 0) + 1
        count, _, how = os.environ["SPARK_REPL_CRASH"].partition(":")[2].partition(":")
        if _hits[name] == int(count or 1):
            os.kill(os.getpid(), signal.Signals[f"SIG{how or 'KILL'}"])
