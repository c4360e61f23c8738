"""Archived ranges: the record of which bytes of a relay log are in its archive.

There is one record beside each log file. Its first line names the folder of the file's objects. The
archiver (``receiver.archiver``) appends a line for each object after the store has it. A line that
a crash has cut ends the record: the archiver finds the object again, and writes the line again.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from .. import formats
from ..runtime.private_files import private_opener
from .file_list import file_name

SUFFIX = ".archived"
_TITLE = "# spark_repl archived bytes of "
_FORMAT = 1
_LATER = re.compile(rb"format (\d+)")
_CHUNK = re.compile(rb"(\d+) (\d+) \.\n")
_SEALED = b"sealed .\n"


@dataclass(frozen=True, slots=True)
class ArchivedChunk:
    """An object of the archive: the bytes ``begin`` to ``end`` (exclusive) of one log file."""

    begin: int
    end: int
    uri: str


def record_path(folder: Path, file_no: int) -> Path:
    """Return the path of a log file's record."""
    return folder / f"{file_name(file_no)}{SUFFIX}"


def chunk_uri(objects: str, begin: int) -> str:
    """Return the URI of the object that begins at an offset. ``objects``: the URI of the log file's
    folder in the archive. Two objects of a log file never begin at the same offset."""
    return f"{objects}/{begin:012d}"


def archived_chunks(folder: Path, file_no: int) -> tuple[ArchivedChunk, ...]:
    """Return the archived chunks of a log file: ascending, contiguous from 0. Return () if nothing
    is archived. Raise FormatError for a record of a later version."""
    return read_record(folder, file_no).chunks


@dataclass(frozen=True, slots=True)
class ArchiveRecord:
    """The record of one log file. ``objects``: the URI of the file's folder in the archive; "" if
    nothing is recorded. ``is_sealed``: the archive has the whole file, and has recorded this."""

    objects: str = ""
    chunks: tuple[ArchivedChunk, ...] = ()
    is_sealed: bool = False

    @property
    def end(self) -> int:
        """Return the number of the log file's archived bytes."""
        return self.chunks[-1].end if self.chunks else 0


def read_record(folder: Path, file_no: int) -> ArchiveRecord:
    """Return the record of a log file. Raise FormatError for a record of a later version."""
    path = record_path(folder, file_no)
    try:
        title, _, lines = path.read_bytes().partition(b"\n")
    except FileNotFoundError:
        return ArchiveRecord()
    text = title.removeprefix(_TITLE.encode())
    if text == title:
        return ArchiveRecord()
    if later := _LATER.match(text):
        formats.check(int(later[1]), _FORMAT, "the record of the relay log's archive", path)
    objects = os.fsdecode(text)
    chunks = list[ArchivedChunk]()
    at = end = 0
    while (line := _CHUNK.match(lines, at)) and int(line[1]) == end < int(line[2]):
        chunks.append(ArchivedChunk(end, int(line[2]), chunk_uri(objects, end)))
        at, end = line.end(), int(line[2])
    return ArchiveRecord(objects, tuple(chunks), lines[at:] == _SEALED)


def write_record(folder: Path, file_no: int, record: ArchiveRecord) -> None:
    """Replace a log file's record atomically."""
    path = record_path(folder, file_no)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    with open(part, "wb", opener=private_opener) as stream:
        stream.write(os.fsencode(f"{_TITLE}{record.objects}\n"))
        stream.write(b"".join(map(_line, record.chunks)))
        stream.write(_SEALED * record.is_sealed)
    part.replace(path)


def append_chunk(folder: Path, file_no: int, chunk: ArchivedChunk) -> None:
    """Add a chunk to a log file's record, whose last line is complete (``write_record``)."""
    with open(record_path(folder, file_no), "ab") as stream:
        stream.write(_line(chunk))


def _line(chunk: ArchivedChunk) -> bytes:
    return b"%d %d .\n" % (chunk.begin, chunk.end)
