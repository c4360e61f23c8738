"""Remote bytes of the relay log, for a worker that can't open the log's file: ranges of objects in
a store, or bytes that travel with the task.

A worker reads ranges in blocks. An executor keeps the blocks on its own disk for later tasks.
"""

from __future__ import annotations

import hashlib
import io
import os
import uuid
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, cast

from ..runtime.executor_disk import has_own_disk, mark_used, own_path
from ..runtime.object_store import ObjectStore
from ..runtime.private_files import make_private_folder, private_opener

_BLOCK_BYTES = 8 << 20
_FOLDER = "/log"


@dataclass(frozen=True, slots=True)
class RemoteRange:
    """The bytes ``begin`` to ``end`` (exclusive) of a file; they begin at ``offset`` in the object
    ``uri``. ``log_id``: the id of the relay log, or of the control table, to which they belong."""

    begin: int
    end: int
    uri: str
    offset: int = 0
    log_id: str = ""

    def within(self, begin: int, end: int, *, at: int) -> RemoteRange:
        """Return the part of this range within the bytes ``begin`` to ``end``, as a range of a file
        in which ``begin`` has the offset ``at``."""
        first, last = max(begin, self.begin), min(end, self.end)
        start, offset = at + first - begin, self.offset + first - self.begin
        return RemoteRange(start, start + last - first, self.uri, offset, self.log_id)


@dataclass(frozen=True)
class RemoteBytes:
    """Bytes of a file that are in a store: ascending ``ranges``, possibly with gaps between
    them."""

    ranges: tuple[RemoteRange, ...]

    def open(self) -> BinaryIO:
        """Open the ranges as the file. Reading stops early at a byte that is in no range."""
        return cast(BinaryIO, io.BufferedReader(_Ranges(self.ranges)))


@dataclass(frozen=True)
class SentBytes:
    """The bytes themselves."""

    data: bytes = field(repr=False)

    def open(self) -> BinaryIO:
        """Open the bytes from the first one on."""
        return io.BytesIO(self.data)


class _Ranges(io.RawIOBase):
    """Ranges of objects as one file; the last block that was read is in memory."""

    def __init__(self, ranges: Sequence[RemoteRange]) -> None:
        self._ranges, self._at = ranges, 0
        self._begins = [part.begin for part in ranges]
        self._block: tuple[str, int, memoryview] = ("", -1, memoryview(b""))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        end = self._ranges[-1].end if self._ranges else 0
        self._at = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: end}[whence] + offset
        return self._at

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        number = bisect_right(self._begins, self._at) - 1
        if number < 0 or self._at >= self._ranges[number].end:
            return 0
        part = self._ranges[number]
        at = part.offset + self._at - part.begin
        block = self._read(part, at // _BLOCK_BYTES)
        start = at % _BLOCK_BYTES
        count = max(0, min(len(buffer), part.end - self._at, len(block) - start))
        memoryview(buffer)[:count] = block[start : start + count]
        self._at += count
        return count

    def _read(self, part: RemoteRange, number: int) -> memoryview:
        end = part.offset + part.end - part.begin - number * _BLOCK_BYTES
        least = min(end, _BLOCK_BYTES)
        if self._block[:2] != (part.uri, number) or len(self._block[2]) < least:
            content = read_block(part.uri, number, log_id=part.log_id, least=least)
            self._block = part.uri, number, memoryview(content)
        return self._block[2]


def read_block(uri: str, number: int, *, log_id: str, least: int) -> bytes:
    """Return a block of an object, from this executor's own disk if it has the block. ``log_id``,
    ``least``: the id of ``RemoteRange``, and the minimum size of the block. If an archive or a
    target was emptied by hand, the URI may name another log's object, or a longer one of the same
    log."""
    if not has_own_disk():
        return _fetched(uri, number)
    name = hashlib.sha256(f"{log_id} {uri}".encode()).hexdigest()[:32]
    path = own_path(f"{_FOLDER}/{name}-{number}")
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        content = b""
    if len(content) >= least:
        mark_used(path)
        return content
    content = _fetched(uri, number)
    _keep(path, content)
    return content


def _fetched(uri: str, number: int) -> bytes:
    return ObjectStore().read_range(uri, number * _BLOCK_BYTES, _BLOCK_BYTES)


def _keep(path: str, content: bytes) -> None:
    make_private_folder(os.path.dirname(path))
    part = f"{path}.{uuid.uuid4().hex}.part"
    with open(part, "wb", opener=private_opener) as file:
        file.write(content)
    os.replace(part, path)
