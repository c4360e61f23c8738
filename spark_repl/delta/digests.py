"""Digests of rows: two 64-bit numbers for each, of its key and of all its values.

They are made of Arrow values, so they are equal where a reader sees equal values, whoever wrote
them. A change of one value always changes its row's digest; of two other rows in 1 of 2^64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..decode.key_hash import hash_binary
from .columns import bits, flat_parts

Digests = npt.NDArray[np.uint64]
"""uint64[2, rows]: digests of keys, digests of rows"""

_INTS = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
_TEXTS = (
    pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary,
)  # fmt: skip
_NULL = np.uint64(0x9E3779B97F4A7C15)


def digests(columns: Sequence[pa.Array], key: Sequence[int]) -> Digests:
    """The digests of rows given as columns. Without a ``key`` the row's is the key's, too."""
    row = _of(columns)
    return np.stack([_of([columns[i] for i in key]) if key else row, row])


def mix(number: Any) -> Any:
    """uint64[n] -> uint64[n], one to one, each bit depending on all others (splitmix64)."""
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return number ^ (number >> np.uint64(31))


def _of(columns: Sequence[pa.Array]) -> npt.NDArray[np.uint64]:
    made = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        for part in flat_parts(column):
            value = made
            for words in _words(part):
                value = mix((value + _NULL) ^ words)
            if part.null_count:
                # Twice: of one value in 2^64 the digest is that of NULL, and no one has it.
                value = np.where(np.asarray(part.is_valid()), value, mix(mix(made + _NULL)))
            made = value
    return made


def _words(part: pa.Array) -> list[npt.NDArray[np.uint64]]:
    """The values as numbers of 64 bits, of which a long decimal has two."""
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
