"""Restored log: a relay log from its archive, after the disk with the log's folder was lost.

The restored log has the archived files that the target still needs, with their old numbers and a
new log id. Bytes that were published after the archived end are lost, so positions of the old log
have no meaning. GTIDs, or the source's file and position, show what the target has. The receiver
then continues at the source after the restored log's end.

1. The newest archived log of the target that has something that the target needs is restored. A log
   that is not sound, or begins after the target's place, is left out with a warning, and the one
   before it is tried. If none is left, the receiver asks the source. The source refuses by name if
   it has purged what the target lacks.
2. A restored log ends before the first damaged event. Damage is never applied.
3. Until the log is whole, and it is decided that the target needs it, the folder has a mark
   (``recovery.RESTORING``). Files with their final names are whole and checked. A start that finds
   the mark keeps these files and restores the others.
4. The archived log stays until its successor has all of it (``archiver``).
"""

from __future__ import annotations

import bisect
import json
import logging
import os
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..binlog.event_types import CRC_LENGTH, HEADER_LENGTH, EventFlag, EventType
from ..binlog.events.event import MAGIC_LENGTH, parse_rotate
from ..binlog.kernels.crc import event_crc, verify_events
from ..crash_points import reach
from ..errors import LogError
from ..relay.archive_download import download, reading_archive
from ..relay.file_list import (
    FileList,
    file_name,
    locked,
    replace_file,
    sync_folder,
    write_list,
)
from ..relay.log import split_name
from ..relay.relay_file import FileHead, RelayFile, events, head_complete, read_head
from ..runtime.private_files import make_private_folder
from ..runtime.stores import store_of
from .own_events import log_id_of, with_log_id
from .recovery import RESTORING, has_checksums, recover, remove_log, writing

if TYPE_CHECKING:
    from ..gtid import GtidSet
    from ..relay.archive import ArchivedFile, ArchivedLog, LogNote, RelayArchive
    from .recovery import Recovered

logger = logging.getLogger(__name__)

_NOTE, _PART = "relay.restored", "relay.restored.part"
_HEAD_BYTES, _HEAD_GROWTH = 1 << 16, 16

Place = tuple[str, int]
"""a file and a position of the source"""


class RestoredPart(NamedTuple):
    """The part of a log that was restored from an archive."""

    end: tuple[int, int] | None = None
    """file number and size up to which the log was restored; None: it was begun at the source"""
    generation: int | None = None
    """the archived log that was restored as a whole"""


def restored_part(folder: Path, log_id: str) -> RestoredPart:
    """Return the part of the log in ``folder`` that was restored."""
    try:
        note = json.loads((folder / _NOTE).read_text("utf-8"))
        if note["log_id"] == log_id:
            return RestoredPart((note["file"], note["size"]), note.get("generation"))
    except (OSError, ValueError, LookupError, TypeError):
        pass
    return RestoredPart()


@dataclass(frozen=True)
class Needed:
    """Decides which part of a log the target needs. ``executed``: the target's transactions. If it
    is None, GTIDs do not count, and the target has the source's log up to ``place``."""

    executed: GtidSet | None
    place: Place | None = None

    def first_file(self, log: ArchivedLog) -> int | None:
        """Return the number of the last file that begins at or before the target's source position;
        None if there is none."""
        if (executed := self.executed) is not None:
            after = bisect.bisect_left(  # each file's set contains the one before
                log.files, True,
                key=lambda file: not _read_head(file)[0].previous_gtids.issubset(executed),
            )  # fmt: skip
            return log.files[after - 1].number if after else None
        if self.place is not None:
            for file in reversed(log.files):
                if _is_before(_read_head(file)[1], self.place):
                    return file.number
        return None

    def any_of(self, log: Recovered) -> bool:
        """Return whether the target lacks any transaction of the log."""
        if self.executed is not None:
            return not log.received.issubset(self.executed)
        end = (log.source_file, log.source_position)
        return self.place is not None and not _is_before(end, self.place)


def restore(
    folder: Path,
    archive: RelayArchive,
    target: str,
    needed: Needed,
    *,
    target_id: str = "",
    is_stopping: Callable[[], bool] = lambda: False,
) -> bool:
    """Restore the archived log that ``target`` still needs, if the folder has no usable log. Return
    whether the folder now has a restored log.

    Raise Stopped if ``is_stopping`` returns True meanwhile; the next call continues. Raise
    ArchiveUnreadableError and TargetError for the archive, LogError and OSError for the folder.
    """
    make_private_folder(folder)
    with writing(folder):
        if not (folder / RESTORING).exists():
            present = recover(folder)
            if present is not None and present.lost is None:
                return False
        with reading_archive(archive.root):
            logs = archive.logs_of(target, target_id)
        for log, note in reversed(logs):
            if not log.files or not note.covered_by(log):
                continue
            restoration = _Restoration(folder, archive, log, needed, is_stopping)
            if _succeeds(restoration, note):
                return True
        with locked(folder):
            if (folder / RESTORING).exists():
                remove_log(folder)
        return False


def _succeeds(restoration: _Restoration, note: LogNote) -> bool:
    """Run the restoration. Return False, with a warning, if the archived log is not sound."""
    try:
        return restoration.run()
    except (LogError, FileNotFoundError) as error:
        logger.warning(
            "the archived relay log %s is not restored: %s",
            restoration.archive.folder(restoration.log.generation), error,
        )  # fmt: skip
        return False


@dataclass
class _Restoration:
    """The restoration of one archived log into a folder, under the folder's writer lock."""

    folder: Path
    archive: RelayArchive
    log: ArchivedLog
    needed: Needed
    is_stopping: Callable[[], bool]
    log_id: str = ""

    def run(self) -> bool:
        """Return whether the folder has the restored log. Raise LogError and FileNotFoundError if
        the archived log is damaged or incomplete, otherwise as ``restore``."""
        first = self.needed.first_file(self.log)
        if first is None:
            logger.warning(
                "the archived relay log %s begins after the target's place: it is not restored",
                self._objects,
            )
            return False
        files = [file for file in self.log.files if file.number >= first]
        self.log_id = self._begin()
        numbers, is_whole = self._download(files)
        if not numbers:
            return False
        with locked(self.folder):
            write_list(self.folder, FileList(self.log_id, numbers))
        reach("relay_restoring")
        recovered = recover(self.folder, restoring=True)
        reach("relay_restoring")
        if recovered is None or not self.needed.any_of(recovered):
            logger.info("the target has everything of the archived relay log %s", self._objects)
            return False
        self._finish(recovered, is_whole=is_whole)
        return True

    @property
    def _objects(self) -> str:
        return self.archive.folder(self.log.generation)

    def _begin(self) -> str:
        """Return the id of the restored log: of an unfinished restoration of this archived log, or
        of a new one, whose mark it writes."""
        mark = self.folder / RESTORING
        try:
            unfinished = json.loads(mark.read_text("utf-8"))
            if unfinished["objects"] == self._objects:
                return str(unfinished["log_id"])
        except (FileNotFoundError, ValueError, LookupError, TypeError):
            pass
        log_id = uuid.uuid4().hex
        with locked(self.folder):
            remove_log(self.folder)
            text = json.dumps({"objects": self._objects, "log_id": log_id})
            replace_file(mark, text.encode())
        reach("relay_restoring")
        return log_id

    def _download(self, files: list[ArchivedFile]) -> tuple[tuple[int, ...], bool]:
        """Restore the files up to the first damage. Return their numbers, and whether all are
        whole."""
        numbers = list[int]()
        for file in files:
            path = self.folder / file_name(file.number)
            if not self._is_restored(path, file):
                size = self._restore_file(path, file)
                reach("relay_restoring")
                if size < file.end:
                    return (*numbers, file.number) if size else tuple(numbers), False
            numbers.append(file.number)
        return tuple(numbers), True

    def _is_restored(self, path: Path, file: ArchivedFile) -> bool:
        """Return whether an earlier start has restored the whole file."""
        try:
            with path.open("rb") as stream:
                event = stream.read(_HEAD_BYTES)[MAGIC_LENGTH:]
                return os.fstat(stream.fileno()).st_size == file.end and (
                    log_id_of(event) == self.log_id
                )
        except FileNotFoundError:
            return False

    def _restore_file(self, path: Path, file: ArchivedFile) -> int:
        """Write the file with the new log id, up to its first damaged event. Return its size; 0 if
        its head is damaged, and nothing is written."""
        part = self.folder / _PART
        download(file, part, self.is_stopping)
        size = _sound_bytes(part, is_sealed=file.is_sealed)
        if size < file.end:
            logger.warning(
                "the archived relay log is damaged: it is restored up to %s:%d",
                self.archive.file_folder(self.log.generation, file.number), size,
            )  # fmt: skip
        if size <= MAGIC_LENGTH:
            part.unlink()
            return 0
        os.truncate(part, size)
        _rename_log(part, self.log_id)
        part.replace(path)
        return size

    def _finish(self, recovered: Recovered, *, is_whole: bool) -> None:
        numbers = recovered.files.numbers
        note = {
            "log_id": self.log_id, "file": numbers[-1], "size": recovered.size,
            "generation": self.log.generation if is_whole else None,
        }  # fmt: skip
        replace_file(self.folder / _NOTE, json.dumps(note).encode())
        reach("relay_restoring")
        (self.folder / RESTORING).unlink()
        sync_folder(self.folder)
        reach("relay_restoring")
        logger.warning(
            "the relay log was lost: %s to %s are restored from the archive",
            file_name(numbers[0]), file_name(numbers[-1]),
        )  # fmt: skip


def is_needed(log: ArchivedLog, needed: Needed) -> bool:
    """Return whether the target lacks any transaction of an archived log, or may lack one because
    the log's end is damaged. Raise LogError and FileNotFoundError if the log is damaged or
    incomplete, OSError, and as ``reading_archive``."""
    file = log.files[-1]
    if needed.first_file(log) != file.number:
        return True
    with tempfile.TemporaryDirectory(prefix="spark_repl-") as folder:
        path = Path(folder) / file_name(file.number)
        download(file, path)
        if _sound_bytes(path, is_sealed=file.is_sealed) < file.end:
            return True
        recovered = recover(Path(folder))
    return recovered is None or needed.any_of(recovered)


def _sound_bytes(path: Path, *, is_sealed: bool) -> int:
    """Return the number of bytes before the first damaged event. In a file that is not sealed, an
    event that is cut at the end is not damaged. Without checksums all bytes count as sound."""
    buf = np.memmap(path, np.uint8, "r")
    size = int(buf.size)
    own = buf[MAGIC_LENGTH : MAGIC_LENGTH + _length_at(buf, MAGIC_LENGTH)].tobytes()
    if len(own) < HEADER_LENGTH + CRC_LENGTH or (
        event_crc(own) != int.from_bytes(own[-CRC_LENGTH:], "little")
    ):
        return MAGIC_LENGTH
    bad = int(verify_events(buf, MAGIC_LENGTH, size)) if has_checksums(buf) else -1
    is_cut = bad >= 0 and bad + max(_length_at(buf, bad), HEADER_LENGTH) > size
    return size if bad < 0 or (is_cut and not is_sealed) else bad


def _length_at(buf: np.ndarray, offset: int) -> int:
    """Return the length that the header of the event at an offset declares."""
    return int.from_bytes(buf[offset + 9 : offset + 13].tobytes(), "little")


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
                raise LogError("the archived file has no whole head", file=file.chunks[0].uri)
            size *= _HEAD_GROWTH


def _beginning(file: ArchivedFile, size: int) -> bytes:
    """Return the first bytes of an archived file."""
    data = bytearray()
    for chunk in file.chunks:
        length = min(chunk.end, size) - chunk.begin
        if length <= 0:
            break
        with reading_archive(chunk.uri):
            data += store_of(chunk.uri).read_range(chunk.uri, 0, length)
    return bytes(data)


def _begin_of(file: RelayFile) -> Place:
    for header, _, event in events(file):
        if header.type == EventType.ROTATE and header.flags & EventFlag.ARTIFICIAL:
            rotate = parse_rotate(event[HEADER_LENGTH:-CRC_LENGTH])
            return rotate.name, rotate.position
    return "", 0


def _rename_log(path: Path, log_id: str) -> None:
    """Replace the log id in the file's first event."""
    with path.open("r+b") as stream:
        beginning = stream.read(_HEAD_BYTES)
        stream.seek(0)
        stream.write(with_log_id(beginning, log_id))
        stream.flush()
        os.fsync(stream.fileno())
