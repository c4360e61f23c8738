"""A 64-bit hash (FNV-1a) of the values of a binary Arrow column, in one pass over its buffers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .jit import jit_allocating

NULL_HASH = -7046029254386353131


def hash_binary(column: pa.Array) -> npt.NDArray[np.int64]:
    """Return int64[n] hashes of a binary or string array (large or not); NULL has its own hash."""
    array = column.cast(pa.large_binary())
    _, offsets, data = array.buffers()
    at = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    raw = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    valid = np.asarray(array.is_valid())
    with np.errstate(over="ignore"):  # numpy's own integers, where nothing is compiled
        return np.asarray(_hash_bytes(raw, at, valid, np.int64(NULL_HASH)))


@jit_allocating
def _hash_bytes(raw: Any, at: Any, valid: Any, null: Any) -> Any:
    out = np.empty(at.size - 1, np.int64)
    for i in range(out.size):
        if not valid[i]:
            out[i] = null
            continue
        h = np.uint64(14695981039346656037)
        for j in range(at[i], at[i + 1]):
            h = (h ^ np.uint64(raw[j])) * np.uint64(1099511628211)
        out[i] = np.int64(h)
    return out
