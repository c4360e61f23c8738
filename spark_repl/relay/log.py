"""RelayLog: the files of a recorded binary log or relay log, in order. Only their heads are read
(``relay_file``).

``open_log`` opens a folder, a file or an index file. It takes no lock, and writes nothing: a
receiver may write and purge the log meanwhile. A log that a receiver writes ends at its published
end (the file relay.end), up to which all bytes are whole and durable. Any other log ends at its
last file's end, which may be in the middle of an event.

Invariants: the numbers of the files ascend without a gap. The published end and the list of files
are of one log: a log id ties them together. ``read_while_purged`` calls its function again with the
log as it is then if a file is purged while it is read. Raises LogError for a folder without logs, a
missing file, or a file that is no binary log. Design: docs/design/relay-log.md,
docs/design/replica-logs.md.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from ..binlog.event_types import HEADER_LENGTH, EventType
from ..binlog.events.event import (
    ENCRYPTED_MAGIC,
    MAGIC,
    MAGIC_LENGTH,
    FormatDescription,
    parse_gtid,
)
from ..errors import LogError
from ..gtid import GtidSet, format_uuid
from ..position import MAX_FILE_NO, RelayPosition
from .file_list import NAME as INDEX
from .file_list import log_id_line
from .published_end import End, is_followed, read_end
from .relay_file import FileHead, RelayFile, events, head_complete, read_head

_SUFFIX = re.compile(r"(.+)\.(\d+)")
_GTID_TYPES = (EventType.GTID, EventType.GTID_TAGGED)
_UUID_SEARCH_EVENTS_MAX = 10_000
_ATTEMPTS = 200

T = TypeVar("T")


@dataclass(frozen=True)
class RelayLog:
    path: str
    files: tuple[RelayFile, ...]
    end: RelayPosition | None = None
    """published by a receiver: nobody may read beyond; None: the files are as they are"""
    log_id: str = ""
    """set for a receiver's log alone"""
    _heads: dict[int, FileHead] = field(default_factory=dict, compare=False, repr=False)

    def file(self, number: int) -> RelayFile:
        at = number - self.files[0].number
        if not 0 <= at < len(self.files):
            first, last = self.files[0].name, self.files[-1].name
            raise LogError(f"file number {number} is not in {self.path} ({first} to {last})")
        return self.files[at]

    def holds(self, number: int) -> bool:
        return self.files[0].number <= number <= self.files[-1].number

    def size(self, number: int) -> int:
        """Return how many bytes of the file may be read: all, or up to the published end."""
        path = self.file(number).path
        if self.end is None or number != self.end.file_no:
            return os.stat(path).st_size
        with open(path, "rb") as stream:  # a network file system's stat may be older than the end
            return min(os.fstat(stream.fileno()).st_size, self.end.offset)

    def head(self, number: int) -> FileHead:
        """Return the file's head. Raise LogError if it is incomplete (see ``head_complete``) or
        damaged."""
        if number not in self._heads:
            self._heads[number] = read_head(self.file(number))
        return self._heads[number]

    def head_complete(self, number: int) -> bool:
        """Return False for a file that was only just begun, with no event after FORMAT_DESCRIPTION.

        Return True for bytes that are not a head at all; ``head`` then raises the error.
        """
        return number in self._heads or head_complete(self.file(number))

    def fingerprint(self, number: int) -> str:
        return self.head(number).fingerprint

    def previous_gtids(self) -> GtidSet:
        """Return the GTIDs that the source had executed before the log begins."""
        return self.head(self.files[0].number).previous_gtids

    def server(self, number: int) -> FormatDescription:
        """Return the FORMAT_DESCRIPTION of the server whose events the file holds."""
        return self.head(number).source

    @cached_property
    def source_uuid(self) -> str | None:
        """The UUID in the newest file's first GTID with the server's own server_id. A binary log
        contains its server's UUID nowhere else.

        None if no such GTID is near the file's beginning (all transactions are anonymous or
        replicated).
        """
        for file in reversed(self.files):
            if not self.head_complete(file.number):
                continue
            server_id = self.server(file.number).server_id
            for count, (header, _, event) in enumerate(events(file)):
                if header.type in _GTID_TYPES and header.server_id == server_id:
                    return format_uuid(parse_gtid(header.type, event[HEADER_LENGTH:]).uuid)
                if count > _UUID_SEARCH_EVENTS_MAX:
                    return None
        return None


def open_log(path: str) -> RelayLog:
    """Open a folder, one file, or an index file (``NAME.index``, as MySQL writes it).

    A folder's index file lists the files of the log. Without an index file, the log has all files
    that begin like binary logs, in the order of their numbers. A receiver's log ends at its
    published end; opening takes no lock. Raise LogError for a folder without logs, a file that is
    not a binary log, and a missing file in the sequence.
    """
    location = Path(path)
    for _ in range(_ATTEMPTS):
        # The end first, then the files: a file that is begun in between counts the next time.
        folder = location if location.is_dir() else location.parent
        end, is_file = read_end(folder), location.is_file() and location.suffix != ".index"
        with suppress(FileNotFoundError):  # purged between the look at the list and the file
            if is_file or (end is None and not is_followed(folder)):
                return _open(path, location)
            log = _published(location, end) if end is not None else None
            if log is not None:
                return log
        time.sleep(0.01)
    if end is None:
        raise LogError(
            "a receiver has begun a log here, and published nothing of it", file=path,
            hint="wait for it, or start it again; where no file is its own, remove relay.end",
        )  # fmt: skip
    _check_listed(path, location)
    raise LogError(
        "the published end and the list of files are of different logs", file=path,
        hint="start the receiver again: it puts that right",
    )  # fmt: skip


def _check_listed(path: str, location: Path) -> None:
    """Raise LogError if the list of a receiver's log, or a file that it names, is missing."""
    index = location / INDEX if location.is_dir() else location
    if not index.exists() and index.name == INDEX:
        raise LogError(
            "a receiver has written here, and the list of its files is gone", file=str(index),
            hint="start the receiver again: it makes the list from the files, or begins a new log",
        )  # fmt: skip
    if not index.exists():
        _open(path, location)  # which says that
    _from_index(index)


def _published(location: Path, end: End) -> RelayLog | None:
    """Return the log up to its published end; None while the receiver begins a new log or after
    listed files were purged."""
    index = location if location.is_file() else location / INDEX
    try:
        lines = _lines(index)
        if not lines or log_id_line(lines[0]) != end.log_id:
            return None
        files = [f for f in _from_index(index) if f.number <= end.position.file_no]
    except (FileNotFoundError, LogError):
        return None
    if not files or files[-1].number != end.position.file_no:
        return None
    _check_sequence(files)
    return RelayLog(str(location), tuple(files), end.position, end.log_id)


def _open(path: str, location: Path) -> RelayLog:
    if location.is_dir():
        files = _folder(location)
    elif location.is_file():
        files = _from_index(location) if location.suffix == ".index" else [_relay_file(location)]
    else:
        raise LogError(f"{path} does not exist", hint="give a folder of binary logs, or one file")
    files = _without_unborn(files)
    if not files:
        raise LogError(
            f"no binary logs in {path}",
            hint="record one: mysqlbinlog --read-from-remote-server --raw, or copy the server's",
        )
    for file in files:
        _check_magic(file)
    _check_sequence(files)
    return RelayLog(str(path), tuple(files))


def _folder(folder: Path) -> list[RelayFile]:
    indexes = sorted(p for p in folder.iterdir() if p.suffix == ".index" and p.is_file())
    if len(indexes) > 1:
        names = ", ".join(p.name for p in indexes)
        raise LogError(
            f"{folder} holds more than one log: {names}", hint="give the path of one index file"
        )
    if indexes:
        return _from_index(indexes[0])
    plain = [p for p in folder.iterdir() if p.is_file()]
    files = [_relay_file(p) for p in plain if _magic(p) is not None]
    stems = {split_name(f.name)[0] for f in files}
    # A file with a log's name that begins with other bytes is damaged: it is refused later.
    files += [_relay_file(p) for p in plain if _has_lost_magic(p, stems)]
    files.sort(key=lambda f: (f.number, f.name))
    if len(stems) > 1:
        raise LogError(
            f"{folder} holds files of more than one log: {', '.join(sorted(stems))}",
            hint="put each log into a folder of its own, or give an index file",
        )
    return files


def _from_index(index: Path) -> list[RelayFile]:
    """Return the listed files beside the index. Only their names count: the index may have been
    copied."""
    files, lines = [], _lines(index)
    for line in lines:
        if log_id_line(line) is not None:
            continue
        if name := line.strip().replace("\\", "/").rpartition("/")[2]:
            path = index.parent / name
            if not path.is_file():
                if _lines(index) != lines:
                    raise FileNotFoundError(f"{name} was purged meanwhile")
                raise LogError(
                    f"{name} is listed in {index.name} but missing", file=name,
                    hint=f"copy it into {index.parent}, or remove its line if it was purged",
                )  # fmt: skip
            files.append(_relay_file(path))
    return files


def _lines(index: Path) -> list[str]:
    return index.read_text("utf-8", "surrogateescape").splitlines()


def _without_unborn(files: list[RelayFile]) -> list[RelayFile]:
    """Return the files without a last file that is shorter than a log's magic bytes."""
    if len(files) > 1 and Path(files[-1].path).stat().st_size < MAGIC_LENGTH:
        return files[:-1]
    return files


def _relay_file(path: Path) -> RelayFile:
    _, number = split_name(path.name)
    if not 1 <= number <= MAX_FILE_NO:
        raise LogError(f"file number {number} is out of range (1 to {MAX_FILE_NO})", file=path.name)
    return RelayFile(number, path.name, str(path))


def split_name(name: str) -> tuple[str, int]:
    """Return (stem, number) of a log file's name; the number is 1 if the name has none."""
    match = _SUFFIX.fullmatch(name)
    return (match[1], int(match[2])) if match else (name, 1)


def _magic(path: Path) -> bytes | None:
    with path.open("rb") as stream:
        magic = stream.read(MAGIC_LENGTH)
    return magic if magic in (MAGIC, ENCRYPTED_MAGIC) else None


def _has_lost_magic(path: Path, stems: set[str]) -> bool:
    numbered = _SUFFIX.fullmatch(path.name)
    if numbered is None or numbered[1] not in stems or _magic(path) is not None:
        return False
    return path.stat().st_size >= MAGIC_LENGTH


def _check_magic(file: RelayFile) -> None:
    magic = _magic(Path(file.path))
    if magic == ENCRYPTED_MAGIC:
        raise LogError(
            "the file is encrypted (binlog_encryption=ON)", file=file.name,
            hint="record the log from the server (mysqlbinlog --read-from-remote-server --raw):"
            " it sends the events in plain text",
        )  # fmt: skip
    if magic is None:
        raise LogError(
            "not a binary log: the first bytes are not fe 'bin'",
            file=file.path,
            hint="give a folder of binary logs, or one file of a binary or relay log",
        )


def _check_sequence(files: list[RelayFile]) -> None:
    for before, after in pairwise(files):
        if after.number != before.number + 1:
            missing = f"{split_name(before.name)[0]}.{before.number + 1:06d}"
            raise LogError(
                f"{missing} is missing: {after.name} follows {before.name}", file=missing,
                hint="transactions would be lost; copy the missing file here",
            )  # fmt: skip


def read_while_purged(path: str, see: Callable[[RelayLog], T]) -> tuple[RelayLog, T]:
    """Return (the log, the result of ``see`` for it), also while files of the log are purged.

    No lock covers both the list of files and the files, so a file may be purged after it was
    listed. In that case ``see`` is called again with a new list. Each list begins later, so this
    ends. Raise LogError for a file that is missing although it is still listed, and as
    ``open_log``.
    """
    log = open_log(path)
    while True:
        try:
            return log, see(log)
        except FileNotFoundError as error:
            before, log = log, open_log(path)
            same = log.log_id == before.log_id
            if same and log.files[0].number <= before.files[0].number:
                raise LogError(
                    "the file went away while it was read", file=str(error.filename or path),
                    hint="put it back; `relay purge` takes files away that nobody needs",
                ) from error  # fmt: skip
