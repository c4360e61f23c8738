"""TRANSACTION_PAYLOAD events: a transaction's events compressed into one.

The events inside carry no CRC; the payload event's own CRC covers them.

Kernels find the payloads of compressed transactions and parse their headers.

The index and the decoder call them; bytes are decompressed part by part, so a large transaction
needs little memory. Raises DecodeError for a damaged payload. Design:
docs/design/reading-the-log.md.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import zstandard

from ...errors import DecodeError
from ..event_types import CRC_LENGTH, HEADER_LENGTH, EventType
from ..kernels.crc import event_crc_ok
from ..kernels.jit import Bytes, Int, Ints, jit, jit_allocating, number, u8, u16, u32
from .packed import Packed

if TYPE_CHECKING:
    from ..kernels.jit import Bytes, Ints
    from .windows import Reader

_END, _PAYLOAD_SIZE, _COMPRESSION, _UNCOMPRESSED_SIZE = range(4)
ZSTD, NONE = 0, 255
_HINT = "the log is damaged here; fetch it again, or check it with mysqlbinlog"
# All fields of a payload's header: three of at most 11 bytes, and the end mark.
_HEAD_BYTES = 64
_PIECE_BYTES = 1 << 20
# A decompressor may not be shared between threads.
_local = threading.local()


class Head(NamedTuple):
    """The header of a payload event's body, which precedes the compressed bytes."""

    compression: int
    size: int
    uncompressed: int
    length: int
    """bytes of the header itself"""


class View:
    """A reader of bytes in memory. It copies the bytes as they are read."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data, self._at = memoryview(data), 0

    def read(self, size: int, /) -> bytes:
        piece = bytes(self._data[self._at : self._at + size])
        self._at += len(piece)
        return piece


class Section:
    """The next ``left`` bytes of a reader, preceded by the bytes ``already`` read from it."""

    def __init__(self, source: Reader, left: int, already: bytes = b"") -> None:
        self._source, self._left, self._already = source, left, already

    def read(self, size: int = -1) -> bytes:
        size = self._left if size < 0 else min(size, self._left)
        piece = self._already[:size]
        if piece:
            self._already = self._already[size:]
        elif size:
            piece = self._source.read(size)
        self._left -= len(piece)
        return piece


class Payload:
    """The events inside a payload event, read piece by piece.

    ``body`` provides the ``length`` bytes of the event without its 19-byte header and CRC. Raises
    DecodeError for content that contradicts its header. Sizes are compared at the end.
    """

    def __init__(self, body: Reader, length: int) -> None:
        begin = body.read(min(length, _HEAD_BYTES))
        head = head_of(begin)
        if length - head.length != head.size:
            raise DecodeError(
                f"transaction payload of {length - head.length} bytes, its header says {head.size}",
                hint=_HINT,
            )
        self.uncompressed, self._returned = head.uncompressed, 0
        data: Any = Section(body, head.size, begin[head.length :])
        if head.compression == ZSTD:
            data = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
        elif head.compression != NONE:
            raise DecodeError(
                f"transaction payload has the unknown compression {head.compression}", hint=_HINT
            )
        self._data: Reader = data

    def read(self, size: int, /) -> bytes:
        try:
            piece = self._data.read(size)
        except zstandard.ZstdError as error:
            raise DecodeError(f"transaction payload: {error}", hint=_HINT) from error
        self._returned += len(piece)
        if self._returned > self.uncompressed or (size and not piece and not self.at_end):
            raise DecodeError(
                f"transaction payload holds {'at least ' * bool(piece)}{self._returned} bytes, its"
                f" header says {self.uncompressed}",
                hint=_HINT,
            )
        return piece

    @property
    def at_end(self) -> bool:
        return self._returned == self.uncompressed

    def check_end(self) -> None:
        """Raise DecodeError if the payload holds more bytes than its header declares."""
        self.read(1)


def decompress(body: bytes, head: Head | None = None) -> bytes:
    """Return the concatenated inner events of a payload event's body (no 19-byte header, no CRC).
    Raise DecodeError if the payload is damaged."""
    head = head or head_of(body)
    if head.compression == ZSTD and head.uncompressed <= _PIECE_BYTES:
        events = _at_once(body[head.length :], head)
        if events is not None:
            return events
    payload = Payload(View(body), len(body))
    # A damaged header may declare any size, so read in pieces instead of allocating that size.
    pieces = iter(lambda: payload.read(min(_PIECE_BYTES, payload.uncompressed + 1)), b"")
    parts = list(pieces)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def decompress_all(buffer: Bytes, places: Ints, sizes: Ints) -> bytes | None:
    """Decompress several payloads in one call, and return their concatenated events. Return None if
    a payload contradicts its header; ``decompress`` then raises the error with the reason.

    ``places`` int64[n, 2]: begin and end of the zstd bytes in uint8 ``buffer``, one frame each.
    ``sizes`` int64[n]: bytes of the events of each payload. The sum of ``sizes`` is allocated.
    """
    # The library treats a size of 0 as unknown. If the frame is empty as well, it frees memory
    # twice.
    if (sizes <= 0).any():
        return None
    segments = np.column_stack((places[:, 0], places[:, 1] - places[:, 0])).astype(np.uint64)
    try:
        buffers = _reader().multi_decompress_to_buffer(
            zstandard.BufferWithSegments(buffer.data, segments.tobytes()),
            decompressed_sizes=sizes.astype(np.uint64).tobytes(),
            threads=1,
        )
    except (zstandard.ZstdError, ValueError, MemoryError):
        return None
    # Its type stub does not declare that this is a collection of buffers.
    return b"".join(buffers)  # type: ignore[arg-type]


def _reader() -> zstandard.ZstdDecompressor:
    if not hasattr(_local, "reader"):
        _local.reader = zstandard.ZstdDecompressor()
    reader: zstandard.ZstdDecompressor = _local.reader
    return reader


def _at_once(data: bytes, head: Head) -> bytes | None:
    """Decompress a small payload in one call, which costs a quarter of a stream. Return None if
    there are several frames, or if the payload is damaged: then the stream raises the error."""
    try:
        whole = frame_end(np.frombuffer(data, np.uint8), 0, len(data)) == len(data) == head.size
        if not whole or zstandard.frame_content_size(data) > head.uncompressed:
            return None
        events = _reader().decompress(data, max_output_size=max(1, head.uncompressed))
    except zstandard.ZstdError:
        return None
    return events if len(events) == head.uncompressed else None


def head_of(body: bytes) -> Head:
    """Parse the header of a payload event's body; the first bytes of the body are enough. Raise
    DecodeError if it is damaged. This function parses every form of header,
    ``payload_bodies.payload_heads`` only the usual form."""
    body = body[:_HEAD_BYTES]
    packed = Packed(body, "TRANSACTION_PAYLOAD event")
    fields: dict[int, int] = {}
    while (tag := packed.number()) != _END:
        value = Packed(packed.read(packed.number()), "TRANSACTION_PAYLOAD field")
        if tag in (_PAYLOAD_SIZE, _COMPRESSION, _UNCOMPRESSED_SIZE):
            fields[tag] = value.number()
    size = fields.get(_PAYLOAD_SIZE, -1)
    if _COMPRESSION not in fields or size < 0:
        raise DecodeError(f"transaction payload with the fields {fields}", hint=_HINT)
    # MySQL writes no uncompressed size when nothing is compressed.
    uncompressed = fields.get(_UNCOMPRESSED_SIZE, size)
    return Head(fields[_COMPRESSION], size, uncompressed, len(body) - packed.left)


# ``payload_bodies`` returns these instead of an offset.
BAD_CRC, NO_PAYLOAD = -1, -2
_SIZE, _CODEC, _UNCOMPRESSED = 1, 2, 3
_ZSTD_MAGIC, _RLE_BLOCK, _ZSTD_CHECKSUM_BYTES = 0xFD2FB528, 1, 4


@jit_allocating
def payload_bodies(buffer: Bytes, starts: Ints, ends: Ints, checksum: bool) -> Ints:
    """Find the body (no header, no CRC) of each transaction's TRANSACTION_PAYLOAD event.
    Transaction i is uint8 ``buffer[starts[i]:ends[i]]``. Return int64[n, 2]: begin and end of the
    body, or one of the two codes above in both."""
    tail = CRC_LENGTH if checksum else 0
    bodies = np.full((starts.size, 2), NO_PAYLOAD, np.int64)
    for i in range(starts.size):
        at = starts[i]
        while at + HEADER_LENGTH + tail <= ends[i]:
            length = number(buffer, at + 9, 4)
            if length < HEADER_LENGTH + tail or at + length > ends[i]:
                break
            if checksum and not event_crc_ok(buffer, at, at + length):
                bodies[i, 0] = bodies[i, 1] = BAD_CRC
                break
            if buffer[at + 4] == EventType.TRANSACTION_PAYLOAD:
                bodies[i, 0], bodies[i, 1] = at + HEADER_LENGTH, at + length - tail
                break
            at += length
    return bodies


@jit
def _packed(buffer: Bytes, at: Int, end: Int) -> tuple[Int, Int]:
    """Return (value, bytes) of a length-encoded integer. The bytes are 0 if its size is not one of
    the usual ones."""
    first = np.int64(buffer[at]) if at < end else np.int64(255)
    if first < 251:
        return first, 1
    width = 2 if first == 252 else (3 if first == 253 else 8)
    if first == 251 or first == 255 or at + 1 + width > end:
        return np.int64(0), 0
    return number(buffer, at + 1, width), 1 + width


@jit_allocating
def payload_heads(buffer: Bytes, bodies: Ints) -> Ints:
    """Return int64[n, 4]: the fields of each body's Head. They are zeros if the header does not
    have the usual form."""
    heads = np.zeros((bodies.shape[0], 4), np.int64)
    for i in range(bodies.shape[0]):
        at, end = bodies[i, 0], bodies[i, 1]
        seen = 0
        while 0 <= at < end - 2 and 1 <= buffer[at] <= 3:
            value, width = _packed(buffer, at + 2, end)
            if width == 0 or buffer[at + 1] != width or value < 0:
                break
            seen |= 1 << buffer[at]
            heads[i, 0 if buffer[at] == _CODEC else (1 if buffer[at] == _SIZE else 2)] = value
            at += 2 + width
        if seen == 14 and at < end and buffer[at] == 0:
            heads[i, 3] = at + 1 - bodies[i, 0]
        else:
            heads[i] = 0
    return heads


def small_frames(
    buffer: Bytes, bodies: Ints, heads: Ints, most: int
) -> tuple[npt.NDArray[np.bool_], Ints]:
    """Select the bodies that ``payload.decompress_all`` accepts. Such a body is exactly one zstd
    frame after its header, and decompresses to 1 to ``most`` bytes. Return (bool[n]: whether the
    body is accepted, int64[n, 2]: begin and end of its frame)."""
    compression, size, uncompressed, length = heads.T
    fits = (length > 0) & (compression == ZSTD) & (uncompressed > 0) & (uncompressed <= most)
    fits &= bodies[:, 0] + length + size == bodies[:, 1]
    places = np.column_stack((bodies[:, 0] + length, bodies[:, 1]))
    whole_frames(buffer, places, fits)
    return fits, places


@jit
def frame_end(buffer: Bytes, at: Int, end: Int) -> Int:
    """Return the end of the zstd frame at ``at``, from its block headers alone (RFC 8878, 3.1.1).
    Return -1 if there is none, or if it ends after ``end``.

    The library decompresses only the first frame of its input, and does not report bytes after it.
    """
    if at + 5 > end or u32(buffer, at) != _ZSTD_MAGIC:
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
    at += _ZSTD_CHECKSUM_BYTES if head & 4 else 0
    return at if at <= end else -1


@jit
def whole_frames(buffer: Bytes, places: Ints, fits: npt.NDArray[np.bool_]) -> None:
    """Set ``fits`` to False where a place contains anything but exactly one complete zstd frame."""
    for i in range(fits.size):
        if fits[i]:
            fits[i] = frame_end(buffer, places[i, 0], places[i, 1]) == places[i, 1]


def head_at(fields: list[int], body: bytes) -> Head:
    """Return the Head that ``payload_heads`` found. If it found none, parse the body. Raise
    DecodeError if the body's header is damaged."""
    return Head(*fields) if fields[3] else head_of(body)
