"""LocalStore: files on a mounted file system, by the system's own calls.

Nothing is synced here; ``delta/log/durable`` does that, before something is removed.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from stat import S_ISDIR
from typing import BinaryIO

from .store import StoredFile, Tag

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EOPNOTSUPP})
_NO_LOCKS = frozenset({errno.EINVAL, errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EOPNOTSUPP})


_LOCK_S, _LOCK_LOOK_S = 10.0, 0.02
"""seconds for which a writer waits for a lock, and between two attempts; no writer holds one for
longer than it takes to read and rename a small file"""


class LocalStore:
    """A ``Store`` whose paths are absolute."""

    def read(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def read_range(self, path: str, start: int, length: int) -> bytes:
        with open(path, "rb") as file:
            file.seek(start)
            return file.read(length)

    def open_input(self, path: str) -> BinaryIO:
        return open(path, "rb")

    def open_output(self, path: str) -> BinaryIO:
        return open(path, "wb")

    def put(self, path: str, content: bytes) -> None:
        folder, name = os.path.split(path)
        with _beside(path, content) as written:
            # Hadoop's checksum of the replaced file: Spark would read the new one several times.
            with suppress(FileNotFoundError):
                os.remove(os.path.join(folder, f".{name}.crc"))
            os.replace(written, path)

    def put_if_absent(self, path: str, content: bytes) -> None:
        """Create the name by a hard link, which fails if the name exists. If an answer was lost, as
        on a mount that repeats requests, the inode shows whether this call created the link."""
        with _beside(path, content) as written:
            try:
                give_free_name(written, path)
            except FileExistsError:
                if not os.path.samefile(written, path):
                    raise

    def read_tagged(self, path: str) -> tuple[bytes, Tag]:
        content = self.read(path)
        return content, _tag(content)

    def put_if_match(self, path: str, content: bytes, tag: Tag | None) -> Tag | None:
        """Replace the file under a lock (flock). If another writer has replaced the file meanwhile,
        the new file has to be locked. The tag is a digest of the content. Raise TimeoutError if
        another process, possibly a suspended one, holds the lock for ``_LOCK_S`` seconds."""
        if tag is None:
            try:
                self.put_if_absent(path, content)
            except FileExistsError:
                return None
            return _tag(content)
        try:
            with _beside(path, content) as written, _locked(path) as file:
                if _tag(file.read()) != tag:
                    return None
                os.replace(written, path)
        except FileNotFoundError:
            return None
        return _tag(content)

    def stat(self, path: str) -> StoredFile:
        status = os.stat(path)
        if S_ISDIR(status.st_mode):
            raise FileNotFoundError(errno.ENOENT, "this is a folder", path)
        return StoredFile(status.st_size, status.st_mtime)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def names(self, folder: str) -> list[str]:
        return os.listdir(folder) if os.path.isdir(folder) else []

    def names_after(self, folder: str, name: str) -> list[str]:
        if not os.path.isdir(folder):
            return []
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.name > name and _is_file(entry))

    def walk(self, folder: str) -> Iterator[tuple[str, StoredFile]]:
        for at, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(at, name)
                with suppress(FileNotFoundError):  # removed since it was listed
                    yield os.path.relpath(path, folder), self.stat(path)

    def remove(self, path: str) -> None:
        os.remove(path)

    def remove_folder(self, folder: str) -> None:
        shutil.rmtree(folder)


def give_free_name(source: str, path: str) -> None:
    """Give a file the name ``path``, beside its own if the disk has hard links, else instead of it.
    Raise FileExistsError if the name exists, and OSError (ENOTSUP) if the disk can't do it without
    replacing another file."""
    try:
        os.link(source, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _rename_if_absent(source, path)


def _rename_if_absent(source: str, path: str) -> None:
    """Give a file a free name, on a disk without hard links. Raise FileExistsError if the name
    exists, and OSError (ENOTSUP) if the disk has no such call either: two writers could both
    succeed."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    names = os.fsencode(source), os.fsencode(path)
    if rename is not None and not rename(
        _AT_WORKING_FOLDER, names[0], _AT_WORKING_FOLDER, names[1], _NO_REPLACE
    ):
        return
    code = errno.ENOSYS if rename is None else ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL):
        problem = "this disk has neither hard links nor a rename that keeps an existing file"
        raise OSError(errno.ENOTSUP, problem, path)
    raise OSError(code, os.strerror(code), path)


_AT_WORKING_FOLDER, _NO_REPLACE = -100, 1  # AT_FDCWD and RENAME_NOREPLACE of Linux


def _tag(content: bytes) -> Tag:
    return Tag(hashlib.sha256(content).hexdigest())


@contextmanager
def _locked(path: str) -> Iterator[BinaryIO]:
    """Return a context with the open file at ``path``, locked if the disk has locks. Raises
    FileNotFoundError, and TimeoutError if others have it for ``_LOCK_S`` seconds."""
    until = time.monotonic() + _LOCK_S
    while True:
        with _opened(path) as file:
            # Else it was replaced or removed before it was locked.
            if _is_locked(file) and _is_at(file, path):
                yield file
                return
        if time.monotonic() > until:
            text = f"other processes hold the lock of this file for {_LOCK_S:.0f} s"
            raise TimeoutError(errno.ETIMEDOUT, text, path)
        time.sleep(_LOCK_LOOK_S)


def _opened(path: str) -> BinaryIO:
    """Open a file to lock it. NFS locks only files that are open for writing. A file of another
    user's can be open for reading only, and other disks lock it also."""
    try:
        return open(path, "rb+")
    except PermissionError:
        return open(path, "rb")


def _is_locked(file: BinaryIO) -> bool:
    """Lock the file if no other process has the lock. Return True also if the disk has no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True


def _is_at(file: BinaryIO, path: str) -> bool:
    """Return whether the path is still of the open file."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    return False


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return not entry.is_dir()
    except FileNotFoundError:
        return False


@contextmanager
def _beside(path: str, content: bytes) -> Iterator[str]:
    """Return a context with a file of the content in the folder of ``path``. The file is removed
    after it."""
    folder, name = os.path.split(path)
    written = os.path.join(folder, f".{name}.{uuid.uuid4()}.tmp")
    try:
        with open(written, "xb") as file:
            file.write(content)
        yield written
    finally:
        with suppress(OSError):  # what stays does not make a commit fail that is there
            os.remove(written)
