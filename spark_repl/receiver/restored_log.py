"""Restored log: a relay log from its archive, after the disk with the log's folder was lost.

The restored log has the archived files that the target still needs, with their old numbers and a
new log id. Bytes that were published after the archived end are lost, so positions of the old log
have no meaning. GTIDs, or the source's file and position, show what the target has. The receiver
then continues at the source after the restored log's end.

Until the log is whole, the folder has a mark (``recovery.RESTORING``). A start that finds the mark
removes the files and restores them again.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from ..binlog.event_types import CRC_LENGTH, HEADER_LENGTH, EventFlag, EventType
from ..binlog.events.event import parse_rotate
from ..crash_points import reach
from ..errors import LogError
from ..relay.file_head import FileHead, RelayFile, events, head_complete, read_head
from ..relay.file_list import (
    FileList,
    file_name,
    locked,
    replace_file,
    sync_folder,
    write_list,
)
from ..relay.log import split_name
from ..runtime.private_files import make_private_folder, private_opener
from ..runtime.stores import store_of
from .own_events import with_log_id
from .recovery import RESTORING, recover, remove_log, writing

if TYPE_CHECKING:
    from ..gtid import GtidSet
    from ..relay.archive import ArchivedFile, ArchivedLog, RelayArchive

logger = logging.getLogger(__name__)

_NOTE = "relay.restored"
_HEAD_BYTES, _HEAD_GROWTH = 1 << 16, 16

Place = tuple[str, int]
"""a file and a position of the source"""


def restored_to(folder: Path, log_id: str) -> tuple[int, int] | None:
    """Return the file number and size up to which the log was restored; None if it was not."""
    try:
        note = json.loads((folder / _NOTE).read_text("utf-8"))
        return (note["file"], note["size"]) if note["log_id"] == log_id else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _write_note(folder: Path, log_id: str, number: int, size: int) -> None:
    text = json.dumps({"log_id": log_id, "file": number, "size": size})
    replace_file(folder / _NOTE, text.encode())


def restore(
    folder: Path,
    archive: RelayArchive,
    target: str,
    executed: GtidSet | None,
    place: Place | None = None,
) -> bool:
    """Restore the archived log that ``target`` still needs, if the folder has no usable log. Return
    whether the folder has a restored log now.

    ``executed``: the target's transactions. If it is None, GTIDs do not count, and the target has
    the source's log up to ``place``. Raise OSError and TargetError for the archive, LogError for
    the folder.
    """
    make_private_folder(folder)
    with writing(folder):
        present = recover(folder)
        if present is not None and present.lost is None:
            return False
        log = _newest(archive, target)
        if log is None:
            return False
        first = _first_needed(log, executed, place)
        if first is None:
            logger.warning("the relay log's archive does not continue the target: it is not used")
            return False
        log_id = uuid.uuid4().hex
        _download(folder, log, first, log_id)
        recovered = recover(folder)
        reach("relay_restoring")
        if recovered is None:
            raise LogError("the archived relay log has no whole file", file=archive.root)
        _write_note(folder, log_id, recovered.files.numbers[-1], recovered.size)
        end = (recovered.source_file, recovered.source_position)
        needed = (
            not recovered.received.issubset(executed)
            if executed is not None
            else place is not None and not _is_before(end, place)
        )
        if not needed:
            logger.info("the target has everything that is archived")
            with locked(folder):
                remove_log(folder)
            return False
        files = recovered.files.numbers
        logger.warning(
            "the relay log was lost: %s to %s are restored from the archive",
            file_name(files[0]), file_name(files[-1]),
        )  # fmt: skip
        return True


def _newest(archive: RelayArchive, target: str) -> ArchivedLog | None:
    """Return the target's newest log that has all that was restored into it."""
    for log in reversed(archive.logs()):
        if not log.has_begun or not log.files:
            continue
        try:
            note = archive.note(log.generation)
        except FileNotFoundError:  # removed since it was listed
            continue
        if note.target == target and note.covered_by(log):
            return log
    return None


def _first_needed(log: ArchivedLog, executed: GtidSet | None, place: Place | None) -> int | None:
    """Return the number of the last file that begins at or before the target's place; None if there
    is none."""
    for file in reversed(log.files):
        head, begin = _read_head(file)
        if executed is not None:
            if head.previous_gtids.issubset(executed):
                return file.number
        elif place is not None and _is_before(begin, place):
            return file.number
    return None


def _is_before(begin: Place, place: Place) -> bool:
    """Return whether ``begin`` is at or before ``place``, in the same log of the source."""
    (stem, number), (other_stem, other_number) = split_name(begin[0]), split_name(place[0])
    return stem == other_stem and (number, begin[1]) <= (other_number, place[1])


def _read_head(file: ArchivedFile) -> tuple[FileHead, Place]:
    """Return an archived file's head, and the source's place at which the file begins."""
    size = _HEAD_BYTES
    with tempfile.TemporaryDirectory(prefix="spark_repl-") as folder:
        path = Path(folder) / file_name(file.number)
        local = RelayFile(file.number, path.name, str(path))
        while True:
            path.write_bytes(_beginning(file, size))
            if head_complete(local):
                head = read_head(local)
                if head.source is not head.own:
                    return head, _begin_of(local)
            if size >= file.end:
                raise LogError(
                    "the archived file has no whole head", file=file.chunks[0].uri,
                    hint="remove this generation of the archive",
                )  # fmt: skip
            size *= _HEAD_GROWTH


def _beginning(file: ArchivedFile, size: int) -> bytes:
    """Return the first bytes of an archived file."""
    data = bytearray()
    for chunk in file.chunks:
        length = min(chunk.end, size) - chunk.begin
        if length <= 0:
            break
        data += store_of(chunk.uri).read_range(chunk.uri, 0, length)
    return bytes(data)


def _begin_of(file: RelayFile) -> Place:
    for header, _, event in events(file):
        if header.type == EventType.ROTATE and header.flags & EventFlag.ARTIFICIAL:
            rotate = parse_rotate(event[HEADER_LENGTH:-CRC_LENGTH])
            return rotate.name, rotate.position
    return "", 0


def _download(folder: Path, log: ArchivedLog, first: int, log_id: str) -> None:
    """Write the archived files from the number ``first`` on, and their list, as a log with
    another id."""
    files = [file for file in log.files if file.number >= first]
    with locked(folder):
        remove_log(folder)
        (folder / RESTORING).touch()
        sync_folder(folder)
    reach("relay_restoring")
    for file in files:
        _download_file(folder / file_name(file.number), file, log_id)
        reach("relay_restoring")
    _write_note(folder, log_id, files[-1].number, files[-1].end)
    with locked(folder):
        write_list(folder, FileList(log_id, tuple(file.number for file in files)))
        reach("relay_restoring")
        (folder / RESTORING).unlink()
        sync_folder(folder)
    reach("relay_restoring")


def _download_file(path: Path, file: ArchivedFile, log_id: str) -> None:
    with open(path, "wb", opener=private_opener) as stream:
        for chunk in file.chunks:
            data = store_of(chunk.uri).read(chunk.uri)
            if len(data) != chunk.end - chunk.begin:
                raise LogError("the object has another size than its listing", file=chunk.uri)
            stream.write(data)
            reach("relay_restoring")
        stream.flush()
        os.fsync(stream.fileno())
    _rename_log(path, log_id)


def _rename_log(path: Path, log_id: str) -> None:
    """Replace the log id in the file's first event."""
    with path.open("r+b") as stream:
        beginning = stream.read(_HEAD_BYTES)
        stream.seek(0)
        stream.write(with_log_id(beginning, log_id))
        stream.flush()
        os.fsync(stream.fileno())
