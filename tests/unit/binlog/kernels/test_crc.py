"""CRC32 in every way that it is computed is zlib's."""

from __future__ import annotations

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
