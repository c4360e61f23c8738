"""CRC32 in every way that it is computed is zlib's."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from typing import Any

import numpy as np
import pytest

from spark_repl.binlog.kernels import crc

_WAYS = [crc._by_tables, *([crc._by_folding] if crc.AVAILABLE else [])]


@pytest.mark.parametrize("way", _WAYS)
def test_a_crc_is_zlibs_at_every_length_and_place(way: Any) -> None:
    dice = np.random.default_rng(1)
    data = dice.integers(0, 256, 1200, dtype=np.uint8)
    for length in (*range(300), 511, 512, 513, 1100):
        start = int(dice.integers(0, 64))
        before = int(dice.integers(0, 1 << 32))
        found = way(np.uint32(before ^ 0xFFFFFFFF), data, start, start + length)
        want = zlib.crc32(data[start : start + length].tobytes(), before)
        assert int(found) ^ 0xFFFFFFFF == want, (length, start)


def test_a_crc_continued_in_pieces_is_that_of_the_whole() -> None:
    data = np.frombuffer(bytes(range(256)) * 4, np.uint8)
    found: Any = 0
    for start, end in ((0, 3), (3, 100), (100, 100), (100, 1024)):
        found = crc.crc32_update(found, data, start, end)
    assert found == crc.crc32(data, 0, 1024) == zlib.crc32(data.tobytes())


# Bytes right before and right after pages that can't be read.
_EDGES = """
import ctypes, mmap, zlib
import numpy as np
from spark_repl.binlog.kernels import crc
page = mmap.PAGESIZE
area = mmap.mmap(-1, 3 * page)
data = np.frombuffer(area, np.uint8)
data[:] = np.random.default_rng(1).integers(0, 256, 3 * page, dtype=np.uint8)
libc = ctypes.CDLL(None, use_errno=True)
for number in (0, 2):
    place = ctypes.c_void_p(data.ctypes.data + number * page)
    assert not libc.mprotect(place, ctypes.c_size_t(page), 0)
for length in range(400):
    for start in (page, 2 * page - length):
        found = crc.crc32(data, start, start + length)
        assert found == zlib.crc32(data[start : start + length].tobytes()), (start, length)
print(crc.AVAILABLE)
"""


def edges(**environment: str) -> bool:
    """Compute CRCs at the edges of readable memory; return whether by folding."""
    command = [sys.executable, "-c", _EDGES]
    ended = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return ended.stdout.strip() == "True"


def test_nothing_outside_the_bytes_is_read() -> None:
    assert edges() == crc.AVAILABLE


def test_a_processor_that_numba_is_told_to_compile_for_has_no_instruction() -> None:
    """Found: LLVM ended the process."""
    assert not edges(NUMBA_CPU_NAME="generic")


@pytest.mark.skipif(not crc.AVAILABLE, reason="the processor lacks the instructions")
def test_bytes_that_lie_apart_are_refused() -> None:
    with pytest.raises(Exception, match="is not contiguous"):
        crc.crc32(np.zeros(200, np.uint8)[::2], 0, 100)
