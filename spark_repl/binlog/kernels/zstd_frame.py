"""The end of a zstd frame, from its block headers alone (RFC 8878, 3.1.1): a kernel.

The library decompresses only the first frame of its input, and does not report bytes after it.
"""

from __future__ import annotations

from .jit import Bytes, Int, jit, u8, u16, u32

_MAGIC = 0xFD2FB528
_RLE_BLOCK = 1
_CHECKSUM_BYTES = 4


@jit
def frame_end(buffer: Bytes, at: Int, end: Int) -> Int:
    """Return the end of the frame at ``at``. Return -1 if there is none, or if it ends after
    ``end``."""
    if at + 5 > end or u32(buffer, at) != _MAGIC:
        return -1
    head = u8(buffer, at + 4)
    content, single, dictionary = head >> 6, head >> 5 & 1, head & 3
    at += 6 - single
    at += 4 if dictionary == 3 else dictionary
    at += 1 << content if content else single
    last: Int = 0
    while not last:
        if at + 3 > end:
            return -1
        block = u16(buffer, at) | u8(buffer, at + 2) << 16
        last = block & 1
        at += 3 + (1 if block >> 1 & 3 == _RLE_BLOCK else block >> 3)
    at += _CHECKSUM_BYTES if head & 4 else 0
    return at if at <= end else -1
