"""Recovery: repairs a relay log after any end of its writer.

The files are authoritative. Recovery cuts the tail at the last whole transaction, finishes a
rotation or purge that was begun, and rebuilds a missing list of files from the files' own heads.

The writer calls it before it appends, and the restoration of an archived log and the purge call its
parts. Raises LogError if another writer has the folder, and for damage before the published end,
which cutting would hide. Design: docs/design/relay-log.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..binlog.event_types import CRC_LENGTH, HEADER_LENGTH, EventFlag, EventType
from ..binlog.events.event import MAGIC_LENGTH, parse_header, parse_rotate
from ..binlog.events.grammar import read_uint
from ..binlog.events.scan import scan
from ..binlog.events.transaction import GNO, Stop
from ..binlog.kernels.crc import verify_events
from ..binlog.kernels.jit import jit_allocating
from ..errors import LogError
from ..gtid import GtidSet
from ..position import RelayPosition
from ..relay.archived_ranges import SUFFIX, read_record
from ..relay.file_list import NAME as LIST
from ..relay.file_list import (
    STEM,
    FileList,
    file_name,
    locked,
    read_list,
    sync_folder,
    write_list,
)
from ..relay.published_end import NAME as END
from ..relay.published_end import End, read_end
from ..relay.relay_file import RelayFile, read_head
from ..relay.source_places import unwrapped
from ..runtime.part_files import remove_dead_parts
from ..runtime.private_files import private_opener
from .own_events import log_id_of

RESTORING = "relay.restoring"
"""a file that exists while a log is being restored from its archive: its files are not whole"""
_LOCK = "relay.lock"
_CUT = (Stop.CUT, Stop.OPEN, Stop.NO_EVENT)


@dataclass(frozen=True, slots=True)
class Recovered:
    """The state of a log from which its writer continues."""

    files: FileList
    size: int
    """bytes of the last file that are whole transactions, or events between them"""
    received: GtidSet
    """all GTIDs up to that size: those before the log, and those in it"""
    source: bytes
    """the source's last FORMAT_DESCRIPTION event"""
    described: bool
    """whether that belongs to ``source_file``: not if the log ends with a ROTATE to it"""
    source_file: str
    source_position: int
    """after the last transaction"""
    checksum: bool
    lost: RelayPosition | None = None
    """set when bytes before this published end are gone: readers may have passed them, so the
    log can't continue under its id"""


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder's one writer. Raise LogError if another writer has it."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(folder, _LOCK, wait=False))
        except BlockingIOError:
            raise LogError(
                "another receiver writes this relay log", file=str(folder),
                hint="stop it, or give this one a relay.path of its own",
            ) from None  # fmt: skip
        yield


def recover(folder: Path, *, restoring: bool = False) -> Recovered | None:
    """Repair the folder; return None if it has no log yet. Remove a log that was not restored
    completely, unless the caller is ``restoring`` it.

    The caller holds the writer's lock. If an applier purges at the same time, one waits for the
    other. Raise LogError for damage before the published end, which truncating the file would hide.
    """
    with locked(folder):
        remove_dead_parts(folder)
        if not restoring and (folder / RESTORING).exists():
            remove_log(folder)
        end = known_end(folder)
        files = _list(folder, end)
        if files is None:
            return None
        if end and end.log_id != files.log_id:
            end = None
        files, recovered = _last_file(folder, files, end)
        if recovered is None:
            return None
        _remove_strays(folder, files)
    if end and end.position > RelayPosition(files.numbers[-1], recovered.size):
        recovered = replace(recovered, lost=end.position)
    archived = read_record(folder, files.numbers[-1]).end
    if recovered.lost is None and archived > recovered.size:  # only published bytes are archived
        recovered = replace(recovered, lost=RelayPosition(files.numbers[-1], archived))
    return recovered


def remove_log(folder: Path) -> None:
    """Remove all files of the log, with their list and their records, and then the mark of an
    unfinished restoration. The record of the log's end becomes empty, so readers wait as for a new
    log."""
    (folder / LIST).unlink(missing_ok=True)
    with open(folder / END, "wb", opener=private_opener):
        pass
    for number in numbers_in(folder):
        (folder / file_name(number)).unlink()
    for path in folder.glob(f"{STEM}.*{SUFFIX}"):
        path.unlink()
    sync_folder(folder)
    (folder / RESTORING).unlink(missing_ok=True)


def known_end(folder: Path) -> End | None:
    """Return the published end; None if there is none, or if the record is damaged: only the files
    count then."""
    try:
        return read_end(folder)
    except LogError:
        return None


def _list(folder: Path, end: End | None) -> FileList | None:
    try:
        listed = read_list(folder)
    except LogError:
        listed = None
        if end is None:
            raise
    numbers = numbers_in(folder)
    if listed is None and numbers:
        log_id = end.log_id if end else _log_id_at(folder, max(numbers))
        one_log = sorted(n for n in numbers if _log_id_at(folder, n) == log_id)
        # Only the files after the last gap belong to the log: a purge was removing the others.
        while one_log and one_log != list(range(one_log[0], one_log[-1] + 1)):
            one_log.pop(0)
        listed = FileList(log_id or "", tuple(one_log)) if one_log and log_id else None
        if listed:
            write_list(folder, listed)
    return listed


def numbers_in(folder: Path) -> list[int]:
    """Return the numbers of all files that have names of spark_repl's log, listed or not."""
    numbers = []
    for path in folder.glob(f"{STEM}.[0-9]*"):
        if path.suffix[1:].isdigit():
            numbers.append(int(path.suffix[1:]))
    return numbers


def _log_id_at(folder: Path, number: int) -> str | None:
    try:
        with (folder / file_name(number)).open("rb") as stream:
            return log_id_of(stream.read(512)[MAGIC_LENGTH:])
    except FileNotFoundError:
        return None


def _remove_strays(folder: Path, files: FileList) -> None:
    """Remove files that are not listed. An unfinished rotation, a finished purge, or an earlier log
    left them."""
    for number in numbers_in(folder):
        if number not in files.numbers:
            (folder / file_name(number)).unlink()


def _last_file(folder: Path, files: FileList, end: End | None) -> tuple[FileList, Recovered | None]:
    while files.numbers:
        number = files.numbers[-1]
        path = folder / file_name(number)
        if not path.exists():
            raise LogError(
                f"{path.name} is listed in the index but missing", file=str(path),
                hint="remove the whole relay folder: everything is fetched again",
            )  # fmt: skip
        published = end.position.offset if end and end.position.file_no == number else 0
        recovered = _tail(path, files, published)
        if recovered is not None:
            return files, recovered
        files = FileList(files.log_id, files.numbers[:-1])
        if files.numbers:
            write_list(folder, files)
    return files, None


def _tail(path: Path, files: FileList, published: int) -> Recovered | None:
    """Cut the file after its last whole transaction; return None if not even its head is whole."""
    try:
        head = read_head(RelayFile(files.numbers[-1], path.name, str(path)))
    except LogError:
        return None
    if head.source is head.own:
        return None
    buf = np.memmap(path, np.uint8, "r")
    size = _whole(path, buf, published)
    result = scan(buf[:size], head.length, head.source.checksum, relay=True)
    if result.stop not in (Stop.END, *_CUT):
        raise LogError(
            "the relay log is damaged here", file=str(path), position=result.bad,
            hint="remove the whole relay folder: everything is fetched again",
        )  # fmt: skip
    size = result.resume
    source, described, name, position, rotate = _last_source(buf, size)
    size = rotate or size
    del buf
    os.truncate(path, size)
    received = head.previous_gtids.union(
        GtidSet.from_arrays(
            result.uuids.view("V16").reshape(-1),
            result.numbers[:, GNO],
            result.tags.view("S32").reshape(-1),
        )
    )
    return Recovered(files, size, received, source, described, name, position, result.checksum)


def _whole(path: Path, buf: np.ndarray, published: int) -> int:
    """Return the number of bytes before the first wrong checksum. Raise LogError for damage of
    published bytes: readers have them."""
    bad = int(verify_events(buf, MAGIC_LENGTH, buf.size)) if has_checksums(buf) else -1
    if bad < 0:
        return int(buf.size)
    length = int.from_bytes(buf[bad + 9 : bad + 13].tobytes(), "little")
    cut = bad + max(length, HEADER_LENGTH) > buf.size
    if bad < published and not cut:
        raise LogError(
            "the checksum of an event is wrong", file=str(path), position=bad,
            hint="remove the whole relay folder: everything is fetched again",
        )  # fmt: skip
    return bad


def has_checksums(buf: np.ndarray) -> bool:
    """Return whether every FORMAT_DESCRIPTION of a file declares CRC32."""
    controls, _ = _controls(buf, buf.size)
    kinds, ends = buf[controls[:, 0] + 4], controls.sum(axis=1)
    return bool((buf[ends[kinds == EventType.FORMAT_DESCRIPTION] - 5] == 1).all())


def _last_source(buf: np.ndarray, size: int) -> tuple[bytes, bool, str, int, int]:
    """Return (FORMAT_DESCRIPTION, whether it is of the file, file, position) of the source at
    ``size``. Return also the offset of our own ROTATE at the end of the file (0: there is none)."""
    source, name, position, rotate, checksum = b"", "", MAGIC_LENGTH, 0, True
    described, near = False, 0
    controls, last = _controls(buf, size)
    for offset, length in controls.tolist():
        event = buf[offset : offset + length].tobytes()
        head = parse_header(event)
        own = bool(head.flags & EventFlag.RELAY_LOG)
        if head.type == EventType.FORMAT_DESCRIPTION:
            checksum = event[-5] == 1
            source, described = (source, described) if own else (event, True)
        elif own:
            rotate = offset if offset + length == size else 0
        else:
            place = parse_rotate(event[HEADER_LENGTH : length - CRC_LENGTH * checksum])
            name, position, described = place.name, place.position, False
            near = position + size - offset - length
    return source, described, name, unwrapped(last, near) if last else position, rotate


@jit_allocating
def _controls(buf: np.ndarray, size: int) -> tuple[np.ndarray, int]:
    """Return (offset, length) of each whole FORMAT_DESCRIPTION and ROTATE event before ``size``,
    and the end_log_pos of the last other event after them (0: none)."""
    controls = np.zeros((16, 2), np.int64)
    count = 0
    pos: Any = np.int64(4)
    last: Any = np.int64(0)
    while pos + HEADER_LENGTH <= size:
        length = read_uint(buf, pos + 9, 4)
        if length < HEADER_LENGTH or pos + length > size:
            break
        kind = buf[pos + 4]
        if kind == EventType.FORMAT_DESCRIPTION or kind == EventType.ROTATE:
            if count == controls.shape[0]:
                controls = np.concatenate((controls, np.zeros_like(controls)))
            controls[count, 0], controls[count, 1] = pos, length
            count, last = count + 1, np.int64(0)
        else:
            last = read_uint(buf, pos + 13, 4) or last
        pos += length
    return controls[:count], last
