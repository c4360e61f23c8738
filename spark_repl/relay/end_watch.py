"""EndWatch: waits until the published end of a relay log moves.

The kernel reports changes (inotify), so a reader at the end of the log sleeps until there is
something to read, and an idle source costs nothing. On a network file system another machine may
write, which the kernel does not report. There the end is read every few milliseconds.
"""

from __future__ import annotations

import ctypes
import os
import select
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from .published_end import NAME

_MODIFY, _ATTRIB, _CREATE = 0x2, 0x4, 0x100
_NONBLOCK, _CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC
_EVENTS_BYTES = 4096
# Seconds of rest after a wake-up: publications within them are seen together.
_REST_S = 0.002
# Seconds between two reads of the record: on file systems where inotify reports each change (but of
# one file, and the record may be another file since), and on others.
_LOOK_S, _BLIND_LOOK_S = 1.0, 0.004
# f_type of ext, xfs, btrfs, tmpfs, overlay, zfs, f2fs: only this machine writes to them.
_LOCAL = (0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0x794C7630, 0x2FC12FC1, 0xF2F52010)
_STATFS_BYTES = 256


class EndWatch:
    """Watches the published end. ``wait`` returns when the end in ``folder`` was published since
    the last call. It returns at once while the file ``stopped_by`` exists."""

    def __init__(self, folder: str | Path, stopped_by: str | Path | None = None) -> None:
        self._path = Path(folder) / NAME
        self._stopped_by = Path(stopped_by) if stopped_by else None
        self._libc: ctypes.CDLL | None = None
        self._fd, self._is_watched = -1, False
        self._seen, self._last = b"", 0.0

    def __reduce__(self) -> tuple[Any, ...]:
        """Return a watch without state: a copy in another process starts again."""
        return EndWatch, (self._path.parent, self._stopped_by)

    def __enter__(self) -> EndWatch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def wait(self, seconds: float) -> bool:
        """Wait for a new end. Return False if none was published in the given time, or if
        ``stopped_by`` appeared."""
        until = time.monotonic() + seconds
        time.sleep(max(0.0, self._last + _REST_S - time.monotonic()))
        while True:
            self._watch()
            if self._moved():
                self._last = time.monotonic()
                return True
            left = until - time.monotonic()
            if left <= 0 or (self._stopped_by is not None and self._stopped_by.exists()):
                return False
            self._sleep(left)

    def _watch(self) -> None:
        """Watch the record's file. This is repeated, because a new log has another file, or none
        yet."""
        if self._libc is None:
            self._libc = ctypes.CDLL(None, use_errno=True)
            if _is_local(self._libc, str(self._path.parent)):
                self._fd = int(self._libc.inotify_init1(_NONBLOCK | _CLOEXEC))
        if self._fd >= 0:
            path = os.fsencode(self._path)
            self._is_watched = self._libc.inotify_add_watch(self._fd, path, _MODIFY | _ATTRIB) >= 0
            if self._stopped_by is not None:
                beside = os.fsencode(self._stopped_by.parent)
                self._libc.inotify_add_watch(self._fd, beside, _CREATE)

    def _moved(self) -> bool:
        try:
            record = self._path.read_bytes()
        except FileNotFoundError:
            return False
        moved = record != self._seen
        self._seen = record
        return moved

    def _sleep(self, most: float) -> None:
        if not self._is_watched:
            time.sleep(min(most, _BLIND_LOOK_S))
            return
        ready = select.poll()
        ready.register(self._fd, select.POLLIN)
        if ready.poll(min(most, _LOOK_S) * 1000):
            with suppress(BlockingIOError):
                os.read(self._fd, _EVENTS_BYTES)


def _is_local(libc: ctypes.CDLL, folder: str) -> bool:
    statfs = ctypes.create_string_buffer(_STATFS_BYTES)
    if libc.statfs(os.fsencode(folder), statfs) != 0:
        return False
    return ctypes.c_long.from_buffer(statfs).value in _LOCAL
