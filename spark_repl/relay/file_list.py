"""The list of a relay log's files, and its log id: ``relay.index``, replaced in one step.

The receiver (at a rotation) and a purge both change it, in different processes, so they take a lock
for the change. Readers take none: they read the old list or the new one.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .. import formats
from ..errors import LogError
from ..runtime.private_files import FILE_MODE, private_opener

NAME = "relay.index"
STEM = "relay"
_LOCK = "relay.index.lock"
_TITLE = "# spark_repl relay log "
_FORMAT = 1
# What follows the title in a list of a later format.
_NUMBER = re.compile(r"format (\d+)(?: by (\S+))?")


@dataclass(frozen=True, slots=True)
class FileList:
    log_id: str
    numbers: tuple[int, ...]
    """ascending, without a gap"""


def file_name(number: int) -> str:
    return f"{STEM}.{number:06d}"


def log_id_line(line: str) -> str | None:
    """Return the log id in an index file's first line; None if it has none. Raise FormatError."""
    if not line.startswith(_TITLE):
        return None
    text = line[len(_TITLE) :].strip()
    if number := _NUMBER.match(text):
        formats.check(int(number[1]), _FORMAT, "this relay log", NAME, number[2] or "")
        text = text[number.end() :].strip()
    return text


def read_list(folder: Path) -> FileList | None:
    """Return the list; None if there is none. Raise LogError for a list that no receiver wrote."""
    try:
        lines = (folder / NAME).read_text("utf-8").splitlines()
    except FileNotFoundError:
        return None
    log_id = log_id_line(lines[0]) if lines else None
    try:
        numbers = tuple(int(line.rpartition(".")[2]) for line in lines[1:] if line.strip())
    except ValueError:
        log_id = None
    if not log_id or not numbers:
        raise LogError(
            "this index file is not the receiver's", file=str(folder / NAME),
            hint="give the receiver a folder of its own (relay.path)",
        )  # fmt: skip
    return FileList(log_id, numbers)


def write_list(folder: Path, files: FileList) -> None:
    """Replace the list, durably. The caller holds the lock."""
    text = "\n".join([_TITLE + files.log_id, *map(file_name, files.numbers)]) + "\n"
    replace_file(folder / NAME, text.encode())


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file, durably: readers see the old content or the new one, also after a crash."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    with open(part, "wb", opener=private_opener) as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def locked(folder: Path, name: str = _LOCK, *, wait: bool = True) -> Iterator[None]:
    """Hold a lock file of the folder. Raise BlockingIOError if it is locked and not ``wait``.

    The kernel releases the lock when the process ends, however it ends.
    """
    fd = os.open(folder / name, os.O_RDWR | os.O_CREAT, FILE_MODE)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(fd)
