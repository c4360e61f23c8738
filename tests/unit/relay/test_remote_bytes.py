"""Bytes of the log in a store's objects are read as the file is."""

from __future__ import annotations

import io
import itertools
import os
import random
from pathlib import Path

import pytest

from spark_repl.errors import SparkReplError
from spark_repl.relay import remote_bytes
from spark_repl.relay.remote_bytes import RemoteBytes, RemoteRange, SentBytes
from spark_repl.runtime.executor_disk import ExecutorDisk
from spark_repl.runtime.object_store import ObjectStore
from tests.support.child import in_child

BLOCK = 8 << 20
DICE = random.Random(1)
CONTENT = DICE.randbytes(2 * BLOCK + 1000)
URI = "memory://log/file"


def stored(*edges: int) -> RemoteBytes:
    """The content in an object for each range between two edges."""
    ranges = []
    for begin, end in itertools.pairwise(edges):
        ObjectStore().put(f"{URI}-{begin}", CONTENT[begin:end])
        ranges.append(RemoteRange(begin, end, f"{URI}-{begin}"))
    return RemoteBytes(tuple(ranges))


def test_ranges_are_read_as_one_file() -> None:
    with stored(0, 1, 100, BLOCK + 100, len(CONTENT)).open() as file:
        assert file.seek(0, os.SEEK_END) == len(CONTENT)
        assert file.read(1) == b""
        for _ in range(50):
            at, size = DICE.randrange(len(CONTENT)), DICE.choice((1, 99, 4096, BLOCK + 5))
            file.seek(at)
            buffer = bytearray(size)
            count = file.readinto(buffer)  # type: ignore[attr-defined]
            assert buffer[:count] == CONTENT[at : at + size]


def test_byte_of_no_range_ends_the_reading() -> None:
    ranges = stored(0, 100, 200, 300).ranges
    with RemoteBytes((ranges[0], ranges[2])).open() as file:
        assert file.read() == CONTENT[:100]
        file.seek(200)
        assert file.read() == CONTENT[200:300]


def test_a_range_within_a_piece_is_read() -> None:
    (part,) = stored(100, 300).ranges
    with RemoteBytes((part.within(150, 400, at=1000),)).open() as file:
        file.seek(1000)
        assert file.read() == CONTENT[150:300]
    with RemoteBytes((part.within(50, 200, at=1000),)).open() as file:
        file.seek(1050)
        assert file.read() == CONTENT[100:200]


def test_object_that_is_gone_is_named() -> None:
    gone = RemoteBytes((RemoteRange(0, 9, "memory://log/gone"),))
    with gone.open() as file, pytest.raises((OSError, SparkReplError), match="log/gone"):
        file.read(1)


def test_sent_bytes_are_those_of_the_task() -> None:
    with SentBytes(b"abc").open() as file:
        assert file.seek(0, io.SEEK_END) == 3
        file.seek(1)
        assert file.read() == b"bc"


def test_executor_keeps_a_block_for_other_tasks(tmp_path: Path) -> None:
    read = stored(0, len(CONTENT))

    def twice() -> list[bytes]:
        os.environ["SPARK_LOCAL_DIRS"] = str(tmp_path)
        results = []
        for _ in range(2):
            with ExecutorDisk(1 << 30).entered(), read.open() as file:
                file.seek(BLOCK - 10)
                results.append(file.read(20))
            ObjectStore().remove(f"{URI}-0") if len(results) < 2 else None
        return results

    assert in_child(twice) == [CONTENT[BLOCK - 10 : BLOCK + 10]] * 2
    assert len(list((tmp_path / "spark_repl" / "log").iterdir())) == 2
    assert remote_bytes._BLOCK_BYTES == BLOCK


def test_executor_reads_what_an_emptied_archive_has_now(tmp_path: Path) -> None:
    """Under one URI: another log's object, and a longer one of the same log."""
    uri = f"{URI}-reused"

    def contents() -> list[bytes]:
        os.environ["SPARK_LOCAL_DIRS"] = str(tmp_path)
        results = []
        for log_id, content in (("a", b"first"), ("b", b"other"), ("b", b"other and more")):
            ObjectStore().put(uri, content)
            part = RemoteRange(0, len(content), uri, log_id=log_id)
            with ExecutorDisk(1 << 30).entered(), RemoteBytes((part,)).open() as file:
                results.append(file.read())
        return results

    assert in_child(contents) == [b"first", b"other", b"other and more"]
