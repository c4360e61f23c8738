"""Records of a file that is written to for long: none is written twice, and they are no memory."""

from __future__ import annotations

import re
import resource
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from spark_repl.relay.file_index import GrowingRecords, forget_pages
from spark_repl.relay.record import RECORD


def _resident_mib(folder: Path) -> float:
    """Return the MiB that this process maps of a folder's files, also of removed ones."""
    size_kib, is_below = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match("[0-9a-f]+-", line):
            is_below = f" {folder}/" in line
        elif is_below and line.startswith("Rss:"):
            size_kib += int(line.split()[1])
    return size_kib / 1024


def _some(first: int, count: int) -> np.ndarray:
    records = np.zeros(count, RECORD)
    records["position"] = np.arange(first, first + count)
    records["tag"] = b"tag"
    return records


@pytest.mark.parametrize("where", ["file", "memory"])
@pytest.mark.parametrize("form", ["array", "mapped", "part"])
def test_a_reader_of_fewer_records_keeps_them(tmp_path: Path, form: str, where: str) -> None:
    first = _some(0, 10)
    if form == "mapped":
        first.tofile(tmp_path / "stored")
        first = np.memmap(tmp_path / "stored", RECORD, "r")
    if form == "part":
        first = first[3:]
    growing = GrowingRecords(tmp_path if where == "file" else None)
    begun, held = first.copy(), list[np.ndarray]()
    grown = first
    for number in range(3000):
        grown = growing.append(grown, _some(10 + number, 1))
        held.append(grown)
    assert (first == begun).all()
    want = np.concatenate([begun, _some(10, 3000)])
    for one in held[::100]:
        assert (one == want[: len(one)]).all()
    branch = growing.append(held[1000], want[len(held[1000]) : len(held[1000]) + 2])
    assert (branch == want[: len(branch)]).all() and (grown == want).all()
    assert not list(tmp_path.glob("[!s]*")), (
        "the file has no name that somebody would have to remove"
    )


def test_a_record_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from spark_repl.relay import file_index

    written, write = list[int](), file_index.os.pwrite

    def count(fd: int, data: bytes, at: int) -> int:
        written.append(len(data))
        return write(fd, data, at)

    monkeypatch.setattr(file_index.os, "pwrite", count)
    growing, grown = GrowingRecords(tmp_path), _some(0, 1)
    for number in range(1, 5000):
        grown = growing.append(grown, _some(number, 1))
    assert sum(written) == 5000 * RECORD.itemsize


def test_appended_records_are_released_from_memory(tmp_path: Path) -> None:
    growing = GrowingRecords(tmp_path)
    tracemalloc.start()
    grown = _some(0, 1)
    for number in range(1, 1_000_001, 10_000):
        grown = growing.append(grown, _some(number, 10_000))
        assert grown["position"][-1] == number + 9999
        forget_pages(grown)
    assert (grown["position"] == np.arange(1_000_001)).all()
    assert _resident_mib(tmp_path) > 100
    forget_pages(grown)
    allocated = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert _resident_mib(tmp_path) < 1 and allocated < 24 << 20


def test_a_full_disk_is_an_error(tmp_path: Path) -> None:
    """Not a signal, which stores to a mapped page would end the process by."""
    growing, grown = GrowingRecords(tmp_path), _some(0, 10)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    grown = growing.append(grown, _some(10, 10))
    resource.setrlimit(resource.RLIMIT_FSIZE, (200 * RECORD.itemsize, hard))
    try:
        with pytest.raises(OSError):
            growing.append(grown, _some(20, 5000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    grown = growing.append(grown, _some(20, 5000))
    assert (grown["position"] == np.arange(5020)).all()
