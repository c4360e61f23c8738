"""Digests of rows: two 64-bit numbers for each row, of its key and of all its values.

They are computed from Arrow values, so they are equal if a reader sees equal values, whichever
engine wrote them. A change of one value always changes its row's digest; two other rows have equal
digests with a probability of 1 in 2^64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...binlog.kernels.key_hash import hash_binary
from .delta_columns import bits, flat_parts

Digests = npt.NDArray[np.uint64]
"""uint64[2, rows]: digests of keys, digests of rows"""

_INTS = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
_TEXTS = (
    pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary,
)  # fmt: skip
_NULL = np.uint64(0x9E3779B97F4A7C15)


def digests(columns: Sequence[pa.Array], key: Sequence[int]) -> Digests:
    """Return the digests of rows given as columns. Without a ``key`` the row's digest is also its
    key's."""
    row = _of(columns)
    return np.stack([_of([columns[i] for i in key]) if key else row, row])


def mix(number: Any) -> Any:
    """Map uint64[n] to uint64[n], one to one, so that each bit depends on all others
    (splitmix64)."""
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return number ^ (number >> np.uint64(31))


def _of(columns: Sequence[pa.Array]) -> npt.NDArray[np.uint64]:
    digest = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        for part in flat_parts(column):
            value = digest
            for words in _words(part):
                value = mix((value + _NULL) ^ words)
            if part.null_count:
                # Mixed twice: only 1 of 2^64 values has that digest. Mixed once, 0 would.
                value = np.where(np.asarray(part.is_valid()), value, mix(mix(digest + _NULL)))
            digest = value
    return digest


def _words(part: pa.Array) -> list[npt.NDArray[np.uint64]]:
    """Return the values as 64-bit numbers; a long decimal has two."""
    if any(test(part.type) for test in _TEXTS):
        return [hash_binary(part).view(np.uint64)]
    part = part.cast(pa.uint8()) if pa.types.is_boolean(part.type) else bits(part)
    width = part.type.bit_width
    per = max(width // 64, 1)
    data = part.buffers()[1]
    if data is None:
        return [np.zeros(len(part), np.uint64)] * per
    end = part.offset + len(part)
    numbers = np.frombuffer(data, _INTS[width // per])[part.offset * per : end * per]
    wide = numbers.astype(np.int64).view(np.uint64).reshape(-1, per)
    return [np.ascontiguousarray(wide[:, word]) for word in range(per)]
