"""Lease: a reader's claim on a file of a receiver's log, so that a purge spares this file and all
later ones.

It is a shared lock (flock) on the file. The kernel releases it when the process ends, however it
ends, so a dead reader holds nothing. The receiver never asks for a lock, so readers do not slow
down its writes. Only a purge asks, and it does not wait (WL#5721, MySQL's warning 1867).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .log import RelayLog

_LOCKS = "/proc/locks"
# Errors of a file system without locks. There only the applier's position bounds a purge.
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


class Lease:
    """A lock on one file at a time, or on none. A copy of the object in another process has no
    lock."""

    def __init__(self) -> None:
        self._fd, self._path = -1, ""

    def __reduce__(self) -> tuple[Any, ...]:
        return Lease, ()

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def hold(self, log: RelayLog, number: int) -> None:
        """Move the lock to the file with that number, or to the log's first file. Only files of a
        receiver's log are purged. Raise FileNotFoundError if the file was purged meanwhile."""
        if log.log_id:
            self._move(log.file(max(number, log.files[0].number)).path)

    def _move(self, path: str) -> None:
        if path == self._path:
            return
        fd = os.open(path, os.O_RDONLY)
        try:
            _lock(fd, fcntl.LOCK_SH)  # a purge that holds the lock may be about to remove the file
            if not os.fstat(fd).st_nlink:
                raise FileNotFoundError(errno.ENOENT, "it was purged", path)
        except BaseException:
            os.close(fd)
            raise
        self.release()
        self._fd, self._path = fd, path

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._path = -1, ""

    def __del__(self) -> None:
        self.release()


@contextmanager
def unread(paths: list[str]) -> Iterator[list[str]]:
    """Yield the leading files, in order, that no reader uses. Readers cannot open them while the
    block runs. A file that was removed by hand counts as unused."""
    free = []
    with ExitStack() as descriptors:
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                fd = os.open(path, os.O_RDWR)
                descriptors.callback(os.close, fd)
                try:
                    _lock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    break
            free.append(path)
        yield free


def readers(path: str) -> tuple[int, ...]:
    """Return the processes of this machine that have locked the file, ascending."""
    try:
        stat = os.stat(path)
        with open(_LOCKS, encoding="ascii") as lines:
            locks = [line.split() for line in lines]
    except OSError:
        return ()
    where = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}:{stat.st_ino}"
    shared = [lock for lock in locks if lock[1:4] == ["FLOCK", "ADVISORY", "READ"]]
    return tuple(sorted({int(lock[4]) for lock in shared if lock[5] == where}))


def _lock(fd: int, how: int) -> None:
    try:
        fcntl.flock(fd, how)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
