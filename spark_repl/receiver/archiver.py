"""Archiver: copies what the receiver has published into the relay log's archive.

The archiver is a thread of the receiver's process. Receiving never waits for it: it reads the
published end and the list of files as any reader does. It holds one chunk in memory, and retries
until it succeeds.

1. It archives only published bytes, in the log's order. A file's chunks are contiguous from 0.
2. It writes a chunk's object if the name is free, and then records it beside the log file. If the
   name exists, an earlier attempt wrote the object: it compares the bytes and records them.
3. The archive has the files of the local log. After a purge has removed a file locally, this
   thread removes the file from the archive. ``relay purge`` of an archive removes only what the
   target does not need.
4. If the log was restored, it removes the generation that was restored, and incomplete copies of
   that one, after its own has all that was restored. It leaves other logs: another receiver may
   still write them, and they may have what this one lacks.
5. A new archiver drops the records of chunks that the archive does not list.
6. A chunk counts only if the generation's ``log`` still exists after it was written. Otherwise a
   successor has replaced the generation, and this log begins another one.
7. A failed removal delays no chunk. ``archived`` only grows while the generation is the same.
8. One request uploads a chunk, and a request has 120 s. So chunks are smaller on a slow line: their
   size follows the time that the last one took.
"""

from __future__ import annotations

import logging
import os
import random
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..crash_points import reach
from ..errors import LogError, SparkReplError
from ..position import RelayPosition
from ..relay.archive import ArchivedLog, LogNote, RelayArchive
from ..relay.archived_ranges import (
    SUFFIX,
    ArchivedChunk,
    ArchiveRecord,
    append_chunk,
    chunk_uri,
    read_record,
    record_path,
    write_record,
)
from ..relay.file_list import FileList, file_name, read_list
from ..relay.published_end import End, read_end
from ..runtime.stores import put_durably, store_of
from ..runtime.threads import thread
from .restored_log import restored_part

logger = logging.getLogger(__name__)

_FIRST_WAIT_S, _WAIT_MAX_S = 0.5, 60.0
_POLL_S = 0.1
"""seconds between checks of the published end; a check takes less than a millisecond"""
_FLUSH_S = 10.0
"""seconds that the receiver's end waits until the rest of its log is archived"""
_RECORD = re.compile(r"relay\.(\d{6,})" + re.escape(SUFFIX))
_FIRST_BYTES, _LEAST_BYTES = 8 << 20, 64 << 10
"""bounds of a chunk before the line's speed is known, and on the slowest line"""
_QUICK_S, _SLOW_S = 3.0, 10.0
"""seconds of a chunk's upload after which the next chunk may be twice as large, or half as large"""
_CHUNKS_MAX = 10_000
"""chunks of a file after which the receiver begins the next one: a purge drops only whole files"""


@dataclass(slots=True)
class _Archived:
    """The archived part of a log file: bytes, chunks, and whether the file is sealed."""

    end: int
    chunks: int
    is_sealed: bool


class Archiver:
    """Copies a relay log into its archive; a context manager for the receiver's run.

    ``chunk_bytes``: size of the largest object. ``after_s``: seconds after which a smaller object
    is written. ``target``: the target's URI or path. ``target_id``: the id of its control table; ""
    if it has none yet, or if no other target can have this archive.
    """

    def __init__(
        self,
        folder: Path,
        archive: RelayArchive,
        target: str,
        *,
        target_id: str = "",
        chunk_bytes: int,
        after_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder, self.archive = folder, archive
        self.target, self._target_id = target, target_id
        self._chunk_bytes, self._after_s, self._clock = chunk_bytes, after_s, clock
        self._put_bytes = min(chunk_bytes, _FIRST_BYTES)
        self.archived: End | None = None
        """the place up to which the archive has the log without a gap"""
        self.error, self._removal_error, self._failed_at = "", "", 0.0
        self._log_id, self._generation = "", 0
        self._records = dict[int, _Archived]()  # by file number
        self._earlier = list[int]()
        self._note = LogNote("", target)
        self._removed_to = 0
        self._removal_wait_s = self._removal_due = 0.0
        self._unarchived_since: float | None = None
        self._wanted: RelayPosition | None = None
        self._deadline: float | None = None
        self._stopping, self._wake = threading.Event(), threading.Event()
        self._thread = thread(self._run, "archiver", daemon=True)

    def __enter__(self) -> Archiver:
        self._thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        """End the thread after one more attempt to archive everything."""
        self._stopping.set()
        self._wake.set()
        self._thread.join(2 * _FLUSH_S)

    def hurry(self, position: RelayPosition) -> None:
        """Archive the published bytes before the position at once. Safe from any thread."""
        self._wanted = position
        self._wake.set()

    def has(self, log_id: str, position: RelayPosition) -> bool:
        """Return whether the archive has the log up to a position: in its own generation, or in the
        generation from which the log was restored, which is kept as long as it is needed. Safe from
        any thread."""
        ends = list[RelayPosition]()
        if (archived := self.archived) is not None and archived.log_id == log_id:
            ends.append(archived.position)
        note = self._note
        if note.log_id == log_id and note.restored_to and note.restored_from is not None:
            ends.append(RelayPosition(*note.restored_to))
        return any(position <= end for end in ends)

    def is_fragmented(self, number: int) -> bool:
        """Return whether a log file has so many chunks that a new log file has to begin. Safe from
        any thread."""
        record = self._records.get(number)
        return record is not None and record.chunks >= _CHUNKS_MAX

    @property
    def columns(self) -> dict[str, Any]:
        """Return the archive's columns of the receiver's report."""
        end = self.archived
        at = datetime.fromtimestamp(self._failed_at, UTC).isoformat() if self._failed_at else ""
        return {
            "ARCHIVE": self.archive.root,
            "ARCHIVED_LOG_FILE": end.position.file_no if end else 0,
            "ARCHIVED_LOG_POS": end.position.offset if end else 0,
            "ARCHIVE_ERROR_MESSAGE": self.error or self._removal_error,
            "ARCHIVE_ERROR_TIMESTAMP": at,
        }

    def _run(self) -> None:
        wait_s = _FIRST_WAIT_S
        while not self._stopping.is_set():
            self._wake.clear()
            if self._attempt():
                wait_s = _FIRST_WAIT_S
                self._wake.wait(_POLL_S)
            else:
                self._back_off(wait_s * random.uniform(0.5, 1.0))
                wait_s = min(wait_s * 2, _WAIT_MAX_S)
        self._deadline = self._clock() + _FLUSH_S
        self._attempt()

    def _back_off(self, wait_s: float) -> None:
        """Wait after a failure: less if an acknowledgement waits, but never only a moment."""
        if self._wake.wait(wait_s):
            self._stopping.wait(min(wait_s, _FIRST_WAIT_S))

    def _attempt(self) -> bool:
        """Run one turn. If it fails, record the error and return False."""
        try:
            self.turn()
        except (OSError, SparkReplError) as error:
            text = str(error)
            if text != self.error:
                logger.warning("the relay log is not archived: %s; tried again", text)
            self.error, self._failed_at = text, time.time()
            self._records.clear()  # a record may end with a part of a line
            return False
        except Exception as error:  # otherwise the thread would end unnoticed
            logger.exception("the relay log is not archived; tried again")
            self.error, self._failed_at = f"{type(error).__name__}: {error}", time.time()
            self._records.clear()
            return False
        if self.error:
            logger.warning("the relay log is archived again")
        self.error = ""
        return True

    def turn(self) -> None:
        """Archive the chunks that are due, and remove purged files. Raise OSError and
        SparkReplError if a chunk could not be archived."""
        end = read_end(self.folder)  # before the list: a new file counts next time
        files = read_list(self.folder)
        if end is None or files is None or files.log_id != end.log_id:
            return
        if end.log_id != self._log_id:
            self._begin(files)
        numbers = [number for number in files.numbers if number <= end.position.file_no]
        for number in numbers:
            if not self._archive_file(number, end) or self._is_late():
                break
        self._remove(files.numbers[0])

    def _begin(self, files: FileList) -> None:
        """Find the generation of the log, or claim one."""
        restored = restored_part(self.folder, files.log_id)
        self._note = LogNote(files.log_id, self.target, restored.end, restored.generation)
        self._generation = self.archive.begin(self._note)
        if self._target_id:
            self.archive.record_target(self._generation, self._target_id)
        self._records.clear()
        self.archived, self._removed_to = None, 0
        logs = self.archive.logs()
        own = next((log for log in logs if log.generation == self._generation), None)
        for number in own.numbers if own else ():
            if number < files.numbers[0]:  # its record was lost, and it was purged
                self.archive.remove_file(self._generation, number)
        self._drop_records(own)
        self._earlier = [log.generation for log in logs if self._is_replaced(log)]
        self._log_id = files.log_id

    def _drop_records(self, own: ArchivedLog | None) -> None:
        """Drop each record of chunks that the archive lacks, for example because its folder was
        emptied. ``own``: the log's generation as it is listed; None: it has no objects."""
        files = {file.number: file for file in own.files} if own else {}
        for path in self.folder.glob(f"*{SUFFIX}"):
            if (match := _RECORD.fullmatch(path.name)) is None:
                continue
            record, file = read_record(self.folder, int(match[1])), files.get(int(match[1]))
            chunks = file.chunks[: len(record.chunks)] if file else ()
            is_sealed = file is not None and file.is_sealed
            if record.chunks != chunks or (record.is_sealed and not is_sealed):
                path.unlink(missing_ok=True)

    def _is_replaced(self, log: ArchivedLog) -> bool:
        """Return whether this process's log replaces an earlier ``log`` of the archive: the one
        that was restored, an incomplete copy of it, or what an unfinished removal has left."""
        source = self._note.restored_from
        if log.generation >= self._generation:
            return False
        if not log.has_begun or log.generation == source:
            return True
        if source is None:
            return False
        try:
            note = self.archive.note(log.generation)
        except FileNotFoundError:
            return True
        except LogError:  # a damaged note
            return False
        is_copy = (note.target, note.restored_from) == (self.target, source)
        return is_copy and not note.covered_by(log)

    def _archive_file(self, number: int, published: End) -> bool:
        """Archive the chunks of one file that are due. Return whether the archive has all its
        published bytes, so that the next file may follow."""
        is_sealed = number < published.position.file_no
        record = self._records.get(number)
        if record is not None and record.is_sealed:
            self._advance(number, record.end)
            return True
        try:
            fd = os.open(self.folder / file_name(number), os.O_RDONLY)
        except FileNotFoundError:  # purged since it was listed
            return True
        try:
            size = os.fstat(fd).st_size if is_sealed else published.position.offset
            return self._archive_bytes(fd, number, size, is_sealed=is_sealed)
        finally:
            os.close(fd)

    def _archive_bytes(self, fd: int, number: int, size: int, *, is_sealed: bool) -> bool:
        archived = self._recorded(number)
        if archived.end > size:
            raise LogError(
                "the archive has more of this file than the relay log: its disk has lost bytes",
                file=file_name(number), position=size, hint="start the receiver again",
            )  # fmt: skip
        due_end = 0
        while archived.end < size:
            end = archived.end
            if end >= due_end:
                if not is_sealed and not self._is_due(number, end, size):
                    return False
                due_end = size if is_sealed else min(size, end + self._chunk_bytes)
            if self._is_late():
                return False
            chunk = self._put(fd, number, end, min(due_end, end + self._put_bytes), size)
            reach("relay_archived")
            if not self.archive.has(self._generation):
                self._log_id, self.archived = "", None  # the next turn begins another generation
                raise LogError(
                    "another receiver of this target has replaced this archive of the relay log",
                    file=self.archive.folder(self._generation),
                    hint="stop one of the two receivers: only one may follow for a channel",
                )
            append_chunk(self.folder, number, chunk)
            archived.end, archived.chunks = chunk.end, archived.chunks + 1
            self._advance(number, archived.end)
            if archived.end >= due_end:
                self._unarchived_since = None
        if is_sealed and not archived.is_sealed:
            self.archive.seal(self._generation, number, size)
            record = read_record(self.folder, number)
            write_record(
                self.folder, number, ArchiveRecord(record.objects, record.chunks, is_sealed=True)
            )
            archived.is_sealed = True
        self._advance(number, archived.end)
        return True

    def _advance(self, number: int, end: int) -> None:
        position = RelayPosition(number, end)
        if self.archived is None or self.archived.position < position:
            self.archived = End(self._log_id, position, 0)

    def _recorded(self, number: int) -> _Archived:
        """Return the archived part of a file. Write a record without a damaged line, or an empty
        one if the record is of another log or archive."""
        if number not in self._records:
            objects = self.archive.file_folder(self._generation, number)
            record = read_record(self.folder, number)
            if record.objects != objects:  # of another archive, or of an earlier log
                record = ArchiveRecord(objects)
            write_record(self.folder, number, record)  # without a line that a crash has cut
            self._records[number] = _Archived(record.end, len(record.chunks), record.is_sealed)
        return self._records[number]

    def _is_due(self, number: int, end: int, size: int) -> bool:
        """Return whether the open file's next chunk is large or old enough, or an acknowledgement
        or the receiver's end waits for it."""
        if self._unarchived_since is None:
            self._unarchived_since = self._clock()
        wanted = self._wanted is not None and RelayPosition(number, end) < self._wanted
        old = self._clock() - self._unarchived_since >= self._after_s
        return size - end >= self._chunk_bytes or old or wanted or self._deadline is not None

    def _is_late(self) -> bool:
        return self._deadline is not None and self._clock() > self._deadline

    def _put(self, fd: int, number: int, begin: int, end: int, size: int) -> ArchivedChunk:
        """Write a chunk, and return it. If an earlier attempt has written a chunk of another length
        at this place, return that chunk. Raise LogError if its bytes differ from the log's."""
        uri = chunk_uri(self.archive.file_folder(self._generation, number), begin)
        data = os.pread(fd, end - begin, begin)
        assert len(data) == end - begin
        try:
            self._upload(uri, data)
        except FileExistsError:
            existing = store_of(uri).read(uri)
            end = begin + len(existing)
            if end > size or os.pread(fd, len(existing), begin) != existing:
                raise LogError(
                    "the archive has other bytes than the relay log", file=uri,
                    hint="does another receiver write this log, in a copy of its folder? Give it a"
                    " relay.path of its own; then remove the folder of this relay log's copy",
                ) from None  # fmt: skip
        return ArchivedChunk(begin, end, uri)

    def _upload(self, uri: str, data: bytes) -> None:
        """Write an object, and set the size of the next one by the time that this one took or was
        tried for."""
        began = self._clock()
        try:
            put_durably(uri, data)
        finally:
            took_s = self._clock() - began
            if took_s > _SLOW_S:
                least = min(_LEAST_BYTES, self._chunk_bytes)
                self._put_bytes = max(len(data) // 2, least)
            elif took_s < _QUICK_S and len(data) == self._put_bytes:
                self._put_bytes = min(2 * self._put_bytes, self._chunk_bytes)

    def _remove(self, first: int) -> None:
        """Remove what nothing needs. After a failure record the error, and wait longer each time.
        ``first``: the number of the local log's first file."""
        if self._clock() < self._removal_due:
            return
        try:
            self._remove_purged(first)
            self._remove_earlier()
        except (OSError, SparkReplError) as error:
            text = f"removing what was purged: {error}"
            if text != self._removal_error:
                logger.warning("the relay log's archive: %s; tried again", text)
            self._removal_error, self._failed_at = text, time.time()
            wait_s = min(max(2 * self._removal_wait_s, _FIRST_WAIT_S), _WAIT_MAX_S)
            self._removal_wait_s, self._removal_due = wait_s, self._clock() + wait_s
        else:
            self._removal_error, self._removal_wait_s = "", 0.0

    def _remove_purged(self, first: int) -> None:
        """Remove the files that were purged locally from the archive. ``first``: the number of the
        local log's first file."""
        if first == self._removed_to:
            return
        for path in sorted(self.folder.glob(f"*{SUFFIX}")):
            match = _RECORD.fullmatch(path.name)
            if match is None or int(match[1]) >= first:
                continue
            number = int(match[1])
            own = self.archive.file_folder(self._generation, number)
            if read_record(self.folder, number).objects == own:
                self.archive.remove_file(self._generation, number)
            with suppress(FileNotFoundError):
                record_path(self.folder, number).unlink()
            self._records.pop(number, None)
        self._removed_to = first

    def _remove_earlier(self) -> None:
        """Remove the generations that this one replaces."""
        end, restored = self.archived, self._note.restored_to
        if not self._earlier or end is None:
            return
        if restored is not None and end.position < RelayPosition(*restored):
            return
        while self._earlier:
            self.archive.remove_log(self._earlier[-1])
            self._earlier.pop()
