"""The record of archived chunks: what a crash or a later version leaves of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_repl.errors import FormatError
from spark_repl.relay.archived_ranges import (
    ArchivedChunk,
    ArchiveRecord,
    append_chunk,
    archived_chunks,
    chunk_uri,
    read_record,
    record_path,
    write_record,
)

_OBJECTS = "s3://lake/_repl/relay/default/00000001/relay.000007"


def _chunk(begin: int, end: int) -> ArchivedChunk:
    return ArchivedChunk(begin, end, chunk_uri(_OBJECTS, begin))


def test_chunks_are_read_as_they_were_recorded(tmp_path: Path) -> None:
    assert archived_chunks(tmp_path, 7) == ()
    write_record(tmp_path, 7, ArchiveRecord(_OBJECTS, (_chunk(0, 120),)))
    append_chunk(tmp_path, 7, _chunk(120, 4096))
    assert archived_chunks(tmp_path, 7) == (_chunk(0, 120), _chunk(120, 4096))
    assert archived_chunks(tmp_path, 8) == ()


def test_only_a_whole_last_line_seals_a_file(tmp_path: Path) -> None:
    record = ArchiveRecord(_OBJECTS, (_chunk(0, 120),), is_sealed=True)
    write_record(tmp_path, 7, record)
    assert read_record(tmp_path, 7) == record
    path = record_path(tmp_path, 7)
    path.write_bytes(path.read_bytes()[:-1])
    assert not read_record(tmp_path, 7).is_sealed


def test_a_cut_line_ends_the_record(tmp_path: Path) -> None:
    chunks = (_chunk(0, 120), _chunk(120, 4096))
    write_record(tmp_path, 7, ArchiveRecord(_OBJECTS, chunks))
    path = record_path(tmp_path, 7)
    whole = path.read_bytes()
    second = whole.rindex(b"120 4096")
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        first = (_chunk(0, 120),) if size >= second else ()
        assert archived_chunks(tmp_path, 7) == first
    path.write_bytes(whole[:second] + bytes(20))
    assert archived_chunks(tmp_path, 7) == (_chunk(0, 120),)


@pytest.mark.parametrize("line", ["0 120 .\n", "121 200 .\n", "120 120 .\n", "120 100 .\n", "\n"])
def test_a_line_that_does_not_continue_ends_the_record(tmp_path: Path, line: str) -> None:
    write_record(tmp_path, 7, ArchiveRecord(_OBJECTS, (_chunk(0, 120),)))
    with record_path(tmp_path, 7).open("a") as stream:
        stream.write(f"{line}120 4096 .\n")
    assert archived_chunks(tmp_path, 7) == (_chunk(0, 120),)


def test_a_record_of_a_later_version_is_refused(tmp_path: Path) -> None:
    record_path(tmp_path, 7).write_text("# spark_repl archived bytes of format 2 by 9.0\n")
    with pytest.raises(FormatError, match="format 2"):
        archived_chunks(tmp_path, 7)
