"""RelayWriter: writes our own relay log. It appends events, rotates, and publishes what is on disk.

A folder has one writer, which holds a lock file. The writer publishes only ends of whole
transactions, and only after their bytes are on disk. Readers of other processes may then read up to
there (``relay.published_end``). A transaction never spans two files.

The receiver calls it for each packet with events. Raises LogError if another writer has the folder,
if the log is damaged, or if the folder has a log that no receiver wrote. Design:
docs/design/relay-log.md.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..binlog.events.event import parse_format_description
from ..crash_points import reach
from ..errors import LogError
from ..gtid import GtidSet
from ..position import MAX_FILE_NO, RelayPosition
from ..relay.file_list import FileList, file_name, locked, read_list, sync_folder, write_list
from ..relay.file_transactions import begin, extend
from ..relay.log import RelayLog
from ..relay.published_end import End, EndWriter
from ..relay.relay_file import RelayFile
from ..relay.source_places import unwrapped
from ..runtime.private_files import FILE_MODE, make_private_folder
from ..runtime.threads import Pool
from .own_events import file_head, normal, own_rotate, source_head
from .recovery import Recovered, known_end, numbers_in, recover, writing

if TYPE_CHECKING:
    from .packet import EventRun


# With a bounded disk only whole files can be purged, so several must fit.
_FILES_IN_SPACE = 4


@dataclass(frozen=True, slots=True)
class Limits:
    """Maximum sizes of a file and of the log, in bytes. ``space_limit_bytes`` 0: no limit."""

    segment_size_bytes: int = 1 << 30
    space_limit_bytes: int = 0

    @property
    def file_bytes(self) -> int:
        if not self.space_limit_bytes:
            return self.segment_size_bytes
        return min(self.segment_size_bytes, self.space_limit_bytes // _FILES_IN_SPACE)


class RelayWriter:
    """The writer of the relay log: a context manager that holds the folder's lock.

    ``log_id`` is "" until the first file begins, for which the source's FORMAT_DESCRIPTION is
    needed. ``on_published`` is called with each end that is published, in any thread.
    """

    def __init__(
        self,
        folder: Path,
        server_id: int,
        limits: Limits | None = None,
        on_published: Callable[[End], None] = lambda _: None,
    ) -> None:
        self.folder, self.server_id, self.limits = folder, server_id, limits or Limits()
        self.log_id = ""
        self.number = self.size = self.whole = 0
        self.transactions = self.published_transactions = 0
        self.source_file, self.source_position = "", 4
        self.lost: RelayPosition | None = None
        self.ends_file = False
        """whether the next whole transaction ends the file, whatever its size"""
        self._received = GtidSet()
        self._news: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        # The last FORMAT_DESCRIPTION and file of the source in the log.
        self._source, self._logged_file, self._checksum = b"", "", True
        self._described = ""  # the source's file that the FORMAT_DESCRIPTION is of
        self._fd = -1
        self._end: EndWriter | None = None  # while the folder is locked
        self._filled: bool | None = None  # whether the file has a whole transaction; not known
        self._disk = Pool(1, thread_name_prefix="disk")
        self._syncing: Future[None] | None = None
        self._stack, self._on_published = ExitStack(), on_published

    def __enter__(self) -> RelayWriter:
        """Recover the log. Raise LogError (another writer, damage, not our folder)."""
        make_private_folder(self.folder)
        self._stack.enter_context(writing(self.folder))
        recovered = recover(self.folder)
        if recovered is not None:
            self._resume(recovered)
        return self

    def __exit__(self, *args: object) -> None:
        self._disk.shutdown()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self._stack.close()

    def _resume(self, recovered: Recovered) -> None:
        self.log_id, self.number = recovered.files.log_id, recovered.files.numbers[-1]
        self.size = self.whole = recovered.size
        self.source_file, self.source_position = recovered.source_file, recovered.source_position
        self.lost, self._received = recovered.lost, recovered.received
        self._source, self._logged_file = recovered.source, recovered.source_file
        self._described = recovered.source_file if recovered.described else ""
        self._checksum = recovered.checksum
        self._fd = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        self._open_end()
        if self.lost is None:
            self.sync()

    def _open_end(self) -> None:
        """Mark the folder as a receiver's log for all readers."""
        if self._end is None:
            self._end = EndWriter(self.folder)
            self._stack.callback(self._end.close)

    @property
    def _path(self) -> Path:
        return self.folder / file_name(self.number)

    @property
    def received(self) -> GtidSet:
        """Return everything up to the last whole transaction, including the GTIDs before the
        log."""
        if self._news:
            uuids, gnos, tags = (np.concatenate(part) for part in zip(*self._news, strict=True))
            self._news.clear()
            new = GtidSet.from_arrays(uuids.view("V16").reshape(-1), gnos, tags)
            self._received = self._received.union(new)
        return self._received

    def renew(self, start: GtidSet) -> None:
        """Give up the current log: the next events begin a new one, after ``start``."""
        if self._fd >= 0:
            self._finish_sync()
            os.close(self._fd)
        self.log_id, self._fd, self.lost = "", -1, None
        self._received, self._source, self._described = start, b"", ""
        self._news.clear()
        self.source_file, self.source_position = "", 4

    def begin_source(self, name: str, position: int) -> None:
        """Record which of the source's files follows; its FORMAT_DESCRIPTION comes next."""
        self.source_file, self.source_position = name, position

    def describe(self, event: bytes) -> None:
        """Record the source's FORMAT_DESCRIPTION. An open transaction was dropped before."""
        event = normal(event)
        if self._fd < 0:
            self._begin_log(event)
        elif (event, self.source_file) != (self._source, self._logged_file):
            # Each connection sends it again: log it only if it, or its file, is another one.
            head = source_head(
                event, self.source_file, self.source_position, checksum=self._checksum
            )
            self._write(head)
            self.whole = self.size
        self._source = event
        self._logged_file = self._described = self.source_file
        self._checksum = parse_format_description(event).checksum

    @property
    def source_place(self) -> str:
        """Return where the source's log continues, as FILE:POSITION, or "" for its beginning."""
        return f"{self.source_file}:{self.source_position}" if self.source_file else ""

    def is_another_file(self, event: bytes) -> bool:
        """Return whether a FORMAT_DESCRIPTION of the source belongs to a different file than the
        one of the same name that was received before."""
        same = bool(self._described) and self._described == self.source_file
        return same and normal(event) != self._source

    def append(self, batch: EventRun) -> None:
        """Write events unchanged. End a file, if necessary, only after a complete transaction."""
        data, ends, begin = batch.data, batch.ends, 0
        while len(ends):
            room = self.limits.file_bytes - self.size
            last = min(int(np.searchsorted(ends - begin, room)), len(ends) - 1)
            if self.ends_file:
                last = 0
            full = self.ends_file or int(ends[last]) - begin >= room
            stop = int(ends[last])
            self._write(data[begin:stop])
            # Events have only the low 32 bits of their end in the source's file.
            near = self.source_position + self.size - self.whole
            self.whole = self.size
            count, self._filled = last + 1, True
            self.transactions += count
            first = len(batch.ends) - len(ends)
            part = slice(first, first + count)
            self._news.append((batch.uuids[part], batch.gnos[part], batch.tags[part]))
            ends, begin = ends[count:], stop
            self.source_position = unwrapped(int(batch.positions[first + last]), near)
            if full:
                self.rotate()
        if begin < len(data):
            self._write(data[begin:])

    def append_rotate(self, event: bytes, name: str, position: int) -> None:
        """Write the source's own ROTATE: the end of its file."""
        self._write(event)
        self.whole = self.size
        self.source_file = self._logged_file = name
        self.source_position = position

    def drop_open(self) -> None:
        """Remove a transaction whose end did not arrive; it will be fetched again."""
        if self._fd >= 0:
            os.ftruncate(self._fd, self.whole)
            self.size = self.whole

    def sync(self) -> None:
        """Write all complete transactions to disk, then publish their end."""
        if self._fd < 0:
            return
        self._finish_sync()
        self._sync_and_publish(self._fd, self._whole_end)

    def sync_beside(self) -> None:
        """Start ``sync`` in a thread, unless one is running. Writing continues meanwhile, so that
        the network does not wait for the disk."""
        if self._fd < 0 or (self._syncing and not self._syncing.done()):
            return
        self._finish_sync()
        self._syncing = self._disk.submit(self._sync_and_publish, self._fd, self._whole_end)

    def _sync_and_publish(self, fd: int, end: End) -> None:
        reach("relay_written")
        os.fdatasync(fd)
        reach("relay_synced")
        self._publish(end)

    def _finish_sync(self) -> None:
        """Wait for the thread: before the file is closed, and before an end is published here."""
        if self._syncing is not None:
            syncing, self._syncing = self._syncing, None
            syncing.result()

    def rotate(self) -> None:
        """End the file and begin the next. Call it only after a complete transaction."""
        assert self.size == self.whole
        self.ends_file = False
        if self.number == MAX_FILE_NO:
            raise LogError(f"file number {self.number} is the last", file=str(self._path))
        following = self.number + 1
        self._write(
            own_rotate(file_name(following), self.server_id, self.size, checksum=self._checksum)
        )
        self._finish_sync()
        os.fsync(self._fd)
        os.close(self._fd)
        self._fd = -1
        reach("relay_ended")
        head = file_head(
            self.log_id, self.server_id, self.received, self._source, self.source_file,
            self.source_position,
        )  # fmt: skip
        self._begin_file(following, head)
        reach("relay_begun")
        self._logged_file = self.source_file
        with locked(self.folder):  # a purge replaces the list as well
            listed = read_list(self.folder)
            assert listed is not None
            write_list(self.folder, FileList(self.log_id, (*listed.numbers, following)))
        self._publish(self._whole_end)

    def total_bytes(self) -> int:
        """Return the bytes of all files of the log; a purge of another process may remove some."""
        listed = read_list(self.folder)
        numbers = listed.numbers if listed else ()
        size = 0
        for number in numbers:
            try:
                size += (self.folder / file_name(number)).stat().st_size
            except FileNotFoundError:
                continue
        return size

    def is_full(self) -> bool:
        """Return whether the space limit is reached and purging older files could help.

        An applier that has caught up is at the end of the last complete transaction, so that
        transaction's file stays. Therefore a transaction that is larger than the limit is still
        received, and so are those after it.
        """
        limit = self.limits.space_limit_bytes
        if not limit or self._fd < 0:
            return False
        total, stays = self.total_bytes(), self.size
        if not self._holds_any():
            with suppress(FileNotFoundError):
                stays += (self.folder / file_name(self.number - 1)).stat().st_size
        return total >= limit and total > stays

    def _holds_any(self) -> bool:
        """Return whether the current file has a whole transaction; after a start this is read from
        the file."""
        if self._filled is None:
            file = RelayFile(self.number, self._path.name, str(self._path))
            log = RelayLog(str(self.folder), (file,))
            self._filled = len(extend(begin(log, file), log).records) > 0
        return self._filled

    def _begin_log(self, source: bytes) -> None:
        """Begin a new log: its first file's number is above all that were ever used here."""
        before = read_list(self.folder)
        numbers = [*(before.numbers if before else ()), *numbers_in(self.folder)]
        end = known_end(self.folder)
        if end is not None:
            numbers.append(end.position.file_no)
        self.log_id = uuid.uuid4().hex
        self._open_end()
        number = max(numbers, default=0) + 1
        head = file_head(
            self.log_id, self.server_id, self.received, source, self.source_file,
            self.source_position,
        )  # fmt: skip
        self._begin_file(number, head)
        with locked(self.folder):
            write_list(self.folder, FileList(self.log_id, (number,)))
            self._publish(self._whole_end)
            for old in numbers_in(self.folder):
                if old != number:
                    (self.folder / file_name(old)).unlink()

    def _begin_file(self, number: int, head: bytes) -> None:
        self.number = number
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC
        self._fd = os.open(self._path, flags, FILE_MODE)
        self.size = 0
        self._write(head)
        self.whole, self._filled = self.size, False
        os.fsync(self._fd)
        sync_folder(self.folder)

    @property
    def _whole_end(self) -> End:
        return End(self.log_id, RelayPosition(self.number, self.whole), self.transactions)

    def _publish(self, end: End) -> None:
        assert self._end is not None
        self._end.publish(end)
        self._on_published(end)
        self.published_transactions = end.transactions

    def _write(self, data: bytes | memoryview) -> None:
        left = memoryview(data)
        while len(left):
            try:
                count = os.write(self._fd, left)
            except OSError as error:
                raise LogError(
                    f"can't write the relay log: {error.strerror}", file=str(self._path),
                    position=self.size, hint="make room there, then start it again",
                ) from error  # fmt: skip
            self.size += count
            left = left[count:]
