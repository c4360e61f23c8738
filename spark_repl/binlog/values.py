"""Values: where one column's values lie, and the parts of Arrow arrays that all types share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .kernels import Bytes, Ints, Lengths, jit


@dataclass(frozen=True)
class Values:
    """One column of n rows: bytes ``buffer[offset[i]:offset[i] + length[i]]``; length -1 = NULL."""

    buffer: Bytes
    offset: Ints
    length: Lengths

    def __len__(self) -> int:
        return len(self.offset)

    @cached_property
    def null_count(self) -> int:
        return int(np.count_nonzero(self.length < 0))

    @cached_property
    def validity(self) -> pa.Buffer | None:
        """Arrow's bitmap; None when nothing is NULL."""
        return bitmap(self.length >= 0) if self.null_count else None

    def little_endian(self) -> Ints:
        """Unsigned integers of up to 8 bytes as int64[n]; 0 for NULL."""
        out = np.empty(len(self), np.int64)
        little_endian(self.buffer, self.offset, self.length, out)
        return out

    def array(self, kind: pa.DataType, data: npt.NDArray[Any]) -> pa.Array:
        """Arrow array of fixed-width ``data`` with these NULLs."""
        buffers = [self.validity, pa.py_buffer(np.ascontiguousarray(data))]
        return pa.Array.from_buffers(kind, len(self), buffers, self.null_count)


def bitmap(bits: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(bits, bitorder="little"))


@jit
def little_endian(buffer: Bytes, offset: Ints, length: Lengths, out: Ints) -> None:
    for r in range(offset.size):
        value = np.int64(0)
        at = offset[r]
        if length[r] == 4:
            value = (
                np.int64(buffer[at])
                | np.int64(buffer[at + 1]) << 8
                | np.int64(buffer[at + 2]) << 16
                | np.int64(buffer[at + 3]) << 24
            )
        else:
            for i in range(length[r]):
                value |= np.int64(buffer[at + i]) << (8 * i)
        out[r] = value
