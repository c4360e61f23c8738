"""TransactionIndex: one record per complete transaction of a relay log, in log order.

``build_index`` scans the files once and stores an index for each, so that a later start scans only
what is new. The applier, the stream's source and the commands of ``relay`` call it. A stored index
is a cache: it is used only if the file's fingerprint and the transaction that was open before the
file are still the same, and it may be removed at any time.

Invariants: ``position`` and ``end`` ascend from record to record, so lookups bisect them. A file
other than the last one ends with a ROTATE or STOP event, or the next file's GTIDs show that nothing
is missing. The last file's tail is no error, because a server may be writing it: ``Tail`` describes
it. Raises LogError with file and position for other damage. With ``up_to_damage`` the index ends
before the damage instead, and ``damage`` has the error. Design: docs/design/relay-log.md,
docs/design/reading-the-log.md.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..binlog.events.transaction import Stop
from ..errors import LogError
from ..gtid import GtidSet
from ..position import OFFSET_BITS, START, RelayPosition
from ..runtime.private_files import make_private_folder
from .file_index import SUFFIX, forget_others, forget_pages, load, store
from .file_transactions import begin, extend, number_of
from .record import RECORD
from .repeated_transactions import without_repeated
from .split_transactions import Open, left_open, lost_part, size_of

if TYPE_CHECKING:
    from .file_index import FileIndex
    from .log import RelayLog
    from .relay_file import RelayFile

_TAIL_REASONS = {
    Stop.OPEN: "transaction cut at the end of the file",
    Stop.CUT: "event cut at the end of the file",
    Stop.NO_EVENT: "bytes that are no event",
}
# An index that lags behind its growing file costs a scan of the rest (4 GB/s) at each start.
_STORE_GROWTH_BYTES = 16 << 20
_COPIED_RECORDS = 1 << 19
"""records of small files that ``slices`` puts together: 64 MiB"""


@dataclass(frozen=True, slots=True)
class Tail:
    """Bytes at the end of the last file that are not (yet) a complete transaction."""

    file: str
    number: int
    offset: int
    """of the first event of the transaction, or of what is cut outside of one"""
    reason: str
    size: int
    """bytes of the file"""

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}: {self.reason} ({self.size - self.offset} bytes)"


@dataclass(frozen=True)
class TransactionIndex:
    base: int
    files: tuple[FileIndex, ...]
    end: int
    """packed position behind the last complete transaction (and what follows it outside of any)"""
    tail: Tail | None
    damage: LogError | None = None
    """why the index ends before the log does; what is in front of it can be applied"""

    @property
    def lost_to(self) -> int:
        """Packed end of the incomplete transaction with which the log begins, if its beginning is
        missing; otherwise 0."""
        ends = [RelayPosition(self.base + f.number, f.lost_to).packed for f in self.files
                if f.lost_to]  # fmt: skip
        return max(ends, default=0)

    @property
    def last_end(self) -> int:
        """Packed end of the last complete transaction; the log's start if there is none."""
        last = self.before(self.end)
        return int(last["end"][0]) if len(last) else START.packed

    @cached_property
    def records(self) -> np.ndarray:
        """All records, RECORD[n]. Use ``slice`` for a long log."""
        return self._numbered([index.records for index in self.files])

    def __len__(self) -> int:
        return sum(len(index.records) for index in self.files)

    def slice(self, start: int, end: int, most: int | None = None) -> np.ndarray:
        """Return the records of transactions that begin at or after ``start`` and end up to
        ``end``; at most the first ``most``. They can't be changed: most are in a mapped file."""
        return self._numbered(list(self._parts(start, end, most)))

    def slices(self, start: int, end: int, most: int | None = None) -> Iterator[np.ndarray]:
        """Yield the records of ``slice`` in one or more arrays, in the log's order. Records of
        large files are not copied."""
        together = list[np.ndarray]()
        for part in self._parts(start, end, most):
            if together and sum(map(len, together)) + len(part) > _COPIED_RECORDS:
                yield self._numbered(together)
                together = []
            together.append(part)
        yield self._numbered(together)

    def _parts(self, start: int, end: int, most: int | None) -> Iterator[np.ndarray]:
        """Yield the records of each file that has some between ``start`` and ``end``."""
        shift = self.base << OFFSET_BITS
        first, last = start - shift, end - shift
        left = sys.maxsize if most is None else most
        for index in self.files:
            lowest = index.number << OFFSET_BITS
            if left and last > lowest and first < lowest + (1 << OFFSET_BITS):
                # Not NumPy's search, which copies the column.
                a = bisect_left(index.records["position"], first)
                b = bisect_right(index.records["end"], last)
                if len(part := index.records[a:b][:left]):
                    left -= len(part)
                    yield part

    def end_of_bytes(self, start: int, end: int, most: int) -> int:
        """Return the packed end of the transaction with which ``slice(start, end)`` reaches
        ``most`` bytes of the log. Return ``end`` if it has fewer bytes."""
        for part in self._parts(start, end, None):
            sizes = np.cumsum(part["length"])
            if sizes[-1] >= most:
                place = int(np.searchsorted(sizes, most))
                return int(part["end"][place]) + (self.base << OFFSET_BITS)
            most -= int(sizes[-1])
        return end

    def forget_pages(self) -> None:
        """Release the memory of the mapped records. They are read again when they are needed."""
        for index in self.files:
            forget_pages(index.records)

    def file(self, number: int) -> FileIndex | None:
        """Return the index of one file, by the number in its name."""
        return next((index for index in self.files if index.number == number), None)

    def before(self, end: int) -> np.ndarray:
        """Return the last transaction that ends up to ``end``: RECORD[1], or RECORD[0] if there is
        none."""
        last = end - (self.base << OFFSET_BITS)
        for index in reversed(self.files):
            if count := bisect_right(index.records["end"], last):
                return self._numbered([index.records[count - 1 : count]])
        return np.zeros(0, RECORD)

    def count_behind(self, position: int) -> tuple[int, np.ndarray]:
        """Return how many transactions end after a packed position, and the first one: RECORD[1],
        or RECORD[0] if there is none. Copies only that record."""
        at, count, first = position - (self.base << OFFSET_BITS), 0, np.zeros(0, RECORD)
        for index in reversed(self.files):
            passed = bisect_right(index.records["end"], at)
            if passed < len(index.records):
                count += len(index.records) - passed
                first = index.records[passed : passed + 1]
            if passed:
                break
        return count, self._numbered([first])

    def at(self, start: int) -> np.ndarray:
        """Return the transaction that begins at ``start``: RECORD[1], or RECORD[0] if there is
        none."""
        first = start - (self.base << OFFSET_BITS)
        index = self.file(first >> OFFSET_BITS)
        if index is None:
            return np.zeros(0, RECORD)
        at = bisect_left(index.records["position"], first)
        record = index.records[at : at + 1]
        return self._numbered([record[record["position"] == first]])

    def gtids(self, start: int = 0, end: int | None = None) -> GtidSet:
        """Return the GTIDs of ``slice(start, end)``; anonymous transactions have none."""
        gtids = GtidSet()
        for part in self._parts(start, self.end if end is None else end, None):
            gtids = gtids.union(GtidSet.from_arrays(part["uuid"], part["gno"], part["tag"]))
        return gtids

    def _numbered(self, parts: list[np.ndarray]) -> np.ndarray:
        if len(parts) == 1 and not self.base:
            out = parts[0].view(np.ndarray)  # no copy: a long log has gigabytes of records
        else:
            # NumPy copies structures field by field, and bytes at once.
            whole = [np.ascontiguousarray(part).view(np.uint8) for part in parts]
            out = np.concatenate(whole or [np.zeros(0, np.uint8)]).view(RECORD)
            out["position"] += self.base << OFFSET_BITS
            out["end"] += self.base << OFFSET_BITS
        out.flags.writeable = False
        return out


def build_index(
    log: RelayLog,
    index_dir: str,
    base: int = 0,
    *,
    complete: bool = True,
    previous: TransactionIndex | None = None,
    up_to_damage: bool = False,
) -> TransactionIndex:
    """Index all files of the log. Indexes in ``index_dir`` that are still valid are reused.

    ``complete``: the log is no longer being written. Otherwise the last file's stored index is
    replaced only after the file has grown by much. ``previous``: an earlier index of the same log,
    so that the stored indexes need not be read again. Raise LogError (file, position) for damage
    anywhere except in the last file's tail. With ``up_to_damage`` the index ends before the damage;
    the caller raises its ``damage`` after it has applied everything before.
    """
    make_private_folder(index_dir)
    # A purge removes files from the front: indexes are left over only if the first file changed.
    if previous is None or not previous.files or previous.files[0].number != log.files[0].number:
        forget_others(Path(index_dir), {file.name for file in log.files})
    before = {index.number: index for index in previous.files} if previous else {}

    def index_of(file: RelayFile, last: bool, left: Open | None) -> FileIndex:
        whole = complete or not last
        return _file_index(log, file, Path(index_dir), before, left, complete=whole)

    files: list[FileIndex] = []
    damage = None
    try:
        files.extend(file_indexes(log, index_of))
    except LogError as error:
        if not up_to_damage:
            raise
        damage = error
    for index in files:  # pages of mapped records count as memory of this process
        forget_pages(index.records)
    return _assemble(log, base, tuple(files), damage)


def file_indexes(
    log: RelayLog, index_of: Callable[[RelayFile, bool, Open | None], FileIndex] | None = None
) -> Iterator[FileIndex]:
    """Yield the index of each file, in order.

    ``index_of`` (file, whether it is the last one, the transaction that is open before it) creates
    an index; by default it scans the file. Raise LogError after the last usable index, if anything
    except the last file's tail is missing or damaged. A log that a receiver publishes has no tail.
    """
    before: list[FileIndex] = []
    left: Open | None = None
    for i, file in enumerate(log.files):
        last = i == len(log.files) - 1
        growing = last and log.end is None
        if growing and not log.head_complete(file.number):
            return
        if not before and log.end is None:
            left = lost_part(log, file)
        index = index_of(file, last, left) if index_of else extend(begin(log, file, left), log)
        if before:
            _require_continuity(log, before[-1], file)
        if log.end is None:
            index = without_repeated(log, before, index)
        if not growing:
            index = with_open(log, file, index)
        yield index
        if index.damage:
            raise index.damage
        if not growing and index.open is None:
            _require_whole(log, file, index)
        left = index.open
        before.append(index)


def index_of_file(log: RelayLog, file: RelayFile) -> FileIndex:
    """Return the index of one file, and of those earlier files into which one of its transactions
    extends."""
    at = log.files.index(file)
    first = at
    while first and lost_part(log, log.files[first]) is not None:
        first -= 1
    left = lost_part(log, log.files[first])
    for before in log.files[first:at]:
        left = with_open(log, before, extend(begin(log, before, left), log)).open
    return extend(begin(log, file, left), log)


def with_open(log: RelayLog, file: RelayFile, index: FileIndex) -> FileIndex:
    """Return the index with the transaction that a replica's file leaves open: a later file
    continues it, or begins it again."""
    own = log.end is None and log.head(file.number).own.is_relay_log
    if not own or index.damage or index.open is not None or index.stop == Stop.END:
        return index
    left = left_open(log, file, index.scanned, checksum=index.checksum)
    return replace(index, open=left or Open((), index.checksum))


def _file_index(
    log: RelayLog,
    file: RelayFile,
    folder: Path,
    before: dict[int, FileIndex],
    left: Open | None,
    *,
    complete: bool,
) -> FileIndex:
    size = log.size(file.number)
    fingerprint = log.fingerprint(file.number)
    path = folder / f"{file.name}{SUFFIX}"
    index = before.get(file.number)
    fits = index is not None and (index.fingerprint, index.before) == (fingerprint, left)
    if index is None or not fits or index.scanned > size:
        index = load(path, file.number, fingerprint, size, left)
    stored = index.scanned if index else 0
    index = extend(index or begin(log, file, left), log, folder)
    grown = index.scanned - stored
    marked = bool(index.earlier)  # only for as long as the files before are there
    if (
        not marked
        and grown
        and (complete or grown > _STORE_GROWTH_BYTES or before.get(file.number) is None)
    ):
        records = store(path, index)
        if complete or index.growing is None:
            index = replace(index, records=records, growing=None)
    return index


def _require_whole(log: RelayLog, file: RelayFile, index: FileIndex) -> None:
    """Raise LogError for a file that ends inside a transaction or event. Only the last file of a
    log that no receiver publishes may end so."""
    published = log.end.offset if log.end and log.end.file_no == file.number else 0
    if index.stop == Stop.END and index.scanned >= published:
        return
    if published:
        reason = _TAIL_REASONS.get(index.stop, "the file has become shorter")
        raise LogError(
            f"{reason}, and the receiver has published it up to {published}",
            file=file.name,
            position=index.scanned,
            hint="start the receiver again: it looks at what is there, and fetches the rest",
        )
    raise LogError(
        f"{_TAIL_REASONS[index.stop]}, and it is not the log's last file",
        file=file.name,
        position=index.scanned if index.stop == Stop.OPEN else index.bad,
        hint="fetch the file again: a whole one ends with a ROTATE or STOP event",
    )


def _require_continuity(log: RelayLog, before: FileIndex, file: RelayFile) -> None:
    """Raise LogError for a file that was cut exactly between two transactions, which only the next
    file's head shows."""
    head = log.head(file.number)
    if before.closed:
        return
    cut = log.file(before.number).name
    message = "the file ends without a ROTATE or STOP event"
    if head.own.created == 0 and not head.own.is_relay_log:
        # Only the first file after a server start has a creation time: a rotation began this one.
        raise LogError(
            f"{message}, though the next one was begun by a rotation: it is cut", file=cut,
            position=before.scanned, hint="fetch the file again",
        )  # fmt: skip
    records = before.records
    executed = log.head(before.number).previous_gtids.union(
        GtidSet.from_arrays(records["uuid"], records["gno"], records["tag"])
    )
    if missing := head.previous_gtids.subtract(executed):
        raise LogError(
            f"{message}, and {file.name} says that {missing} came before", file=cut,
            position=before.scanned, hint="fetch the file again",
        )  # fmt: skip


def tail_of(log: RelayLog, last: FileIndex | None) -> Tail | None:
    """Return the tail of the log after ``last``, the index of its last file that has a head."""
    file = log.files[-1]
    if last is None or last.number != file.number:
        size = log.size(file.number)
        return Tail(file.name, file.number, min(4, size), "the file's head is cut", size)
    if last.open is not None and last.open.pieces and last.before is not None:
        first, size = last.open.pieces[0], size_of(last.open.pieces)
        begun = log.file(number_of(log, last.open))
        return Tail(begun.name, begun.number, first.begin, _TAIL_REASONS[Stop.OPEN],
                    first.begin + size)  # fmt: skip
    if last.stop == Stop.END:
        return None
    return Tail(file.name, file.number, last.scanned, _TAIL_REASONS[last.stop], last.size)


def _assemble(
    log: RelayLog, base: int, files: tuple[FileIndex, ...], damage: LogError | None
) -> TransactionIndex:
    tail = None
    last = files[-1] if files else None
    if damage:
        number, scanned = (last.number, last.scanned) if last else (log.files[0].number, 0)
    else:
        tail = tail_of(log, last)
        number = tail.number if tail else log.files[-1].number
        scanned = tail.offset if tail else last.scanned if last else 0
    end = RelayPosition(base + number, scanned).packed
    return TransactionIndex(base, files, end, tail, damage)
