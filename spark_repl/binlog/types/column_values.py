"""Values: the places of one column's values, and the parts of Arrow arrays that all types share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..kernels.jit import Bytes, Int, Ints, Lengths, jit, number, short, u64


@dataclass(frozen=True)
class Values:
    """One column of n rows: bytes ``buffer[offset[i]:offset[i] + length[i]]``; length -1 = NULL.
    ``collation``: id for texts that a server sent, 0 for other values."""

    buffer: Bytes
    offset: Ints
    length: Lengths
    collation: int = 0

    def __len__(self) -> int:
        return len(self.offset)

    @cached_property
    def null_count(self) -> int:
        return int(np.count_nonzero(self.length < 0))

    @cached_property
    def validity(self) -> pa.Buffer | None:
        """Arrow's validity bitmap; None if nothing is NULL."""
        return bitmap(self.length >= 0) if self.null_count else None

    def little_endian(self, kind: Any = np.int64, bits: int = 64) -> npt.NDArray[Any]:
        """Return integers of up to 8 bytes as kind[n]; 0 for NULL. ``bits``: the width of signed
        integers of fewer than 64 bits, whose sign is extended."""
        out = np.empty(len(self), kind)
        little_endian(self.buffer, self.offset, self.length, 64 - bits, out)
        return out

    def array(self, kind: pa.DataType, data: npt.NDArray[Any]) -> pa.Array:
        """Return an Arrow array of fixed-width ``data`` with the NULLs of these values."""
        buffers = [self.validity, pa.py_buffer(np.ascontiguousarray(data))]
        return pa.Array.from_buffers(kind, len(self), buffers, self.null_count)


def bitmap(bits: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(bits, bitorder="little"))


@jit
def little_endian(buffer: Bytes, offset: Ints, length: Lengths, spare: Int, out: Any) -> None:
    for r in range(offset.size):
        size = np.int64(length[r])
        value: Int = np.int64(0)
        if size == 8:
            value = u64(buffer, offset[r])
        elif size > 4:
            value = number(buffer, offset[r], size)
        elif size > 0:
            value = short(buffer, offset[r], size)
        out[r] = value << spare >> spare
