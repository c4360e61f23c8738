"""Strings and bytes: gathered from the buffer into Arrow's layout, in any character set."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ...errors import DecodeError
from ..charsets.charset import UTF8, charset_of, to_text
from ..charsets.one_byte import NONE, one_byte_table
from ..kernels.jit import Bytes, Ints, Lengths, copy, jit

if TYPE_CHECKING:
    from .values import Values

_HINT = "repair the value on the source, or change the column to a binary type"


def decode(values: Values, collation: int) -> pa.Array:
    """StringArray of text in the collation's character set; DecodeError for bytes outside it."""
    charset = charset_of(collation)
    if charset in UTF8:
        return _checked(gather(values, pa.string()), charset)
    table = _utf8_table(charset)
    if table is None:
        return _through_python(values, charset)
    size, letters, ascii_stays = table
    if ascii_stays:
        plain = gather(values, pa.string())
        # Most text is; copying is five times as quick as going letter by letter.
        if (np.frombuffer(plain.buffers()[2], np.uint8) < 128).all():
            return plain
    offsets = np.empty(len(values) + 1, np.int64)
    if recoded_offsets(values.buffer, values.offset, values.length, size, offsets) >= 0:
        raise DecodeError(f"bytes without a character in {charset}", hint=_HINT)
    out = np.empty(int(offsets[-1]), np.uint8)
    recode(values.buffer, values.offset, values.length, size, letters, offsets, out)
    return _array(values, pa.string(), offsets, out)


def gather(values: Values, kind: pa.DataType) -> pa.Array:
    """The values' bytes as they are: ``kind`` is pa.string() (unchecked) or pa.binary()."""
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.maximum(values.length, 0), out=offsets[1:])
    out = np.empty(int(offsets[-1]), np.uint8)
    copy_values(values.buffer, values.offset, offsets, out)
    return _array(values, kind, offsets, out)


def padded(values: Values, width: int) -> pa.Array:
    """BINARY(width): the log drops trailing 0x00, the server shows them."""
    if len(values) and values.length.max() > width:
        raise DecodeError(f"{values.length.max()} bytes in BINARY({width})", hint=_HINT)
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.where(values.length < 0, 0, width), out=offsets[1:])
    out = np.zeros(int(offsets[-1]), np.uint8)
    copy_padded(values.buffer, values.offset, values.length, offsets, out)
    return _array(values, pa.binary(), offsets, out)


def _array(values: Values, kind: pa.DataType, offsets: Ints, data: Bytes) -> pa.Array:
    if offsets[-1] > np.iinfo(np.int32).max:
        raise DecodeError(
            f"{offsets[-1]} bytes of one column do not fit into one Arrow array",
            hint="make the groups smaller (group_max_bytes), or decode fewer entries at once",
        )
    buffers = [values.validity, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(values), buffers, values.null_count)


def _checked(array: pa.Array, charset: str) -> pa.Array:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise DecodeError(f"bytes that are not {charset} text: {error}", hint=_HINT) from error
    return array


@lru_cache
def _utf8_table(charset: str) -> tuple[Bytes, Bytes, bool] | None:
    """UTF-8 of each byte of a one-byte set: (size uint8[256], 0 = none; letters uint8[256, 4];
    whether the bytes below 128 are ASCII)."""
    table = one_byte_table(charset)
    if table is None:
        return None
    size, letters = np.zeros(256, np.uint8), np.zeros((256, 4), np.uint8)
    for byte, char in enumerate(table):
        if char != NONE:
            encoded = char.encode()
            size[byte] = len(encoded)
            letters[byte, : len(encoded)] = list(encoded)
    same = (size[:128] == 1) & (letters[:128, 0] == np.arange(128))
    return size, letters, bool(same.all())


def _through_python(values: Values, charset: str) -> pa.Array:
    """Each distinct value once through Python's codec."""
    distinct = gather(values, pa.binary()).dictionary_encode()
    texts = [to_text(value, charset) for value in distinct.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(distinct.indices)


@jit
def copy_values(buffer: Bytes, offset: Ints, offsets: Ints, out: Bytes) -> None:
    """out[offsets[r]:offsets[r + 1]] = the bytes from buffer[offset[r]] on."""
    for r in range(offset.size):
        copy(buffer, offset[r], offsets[r + 1] - offsets[r], out, offsets[r])


@jit
def copy_padded(buffer: Bytes, offset: Ints, length: Lengths, offsets: Ints, out: Bytes) -> None:
    for r in range(offset.size):
        if length[r] > 0:
            copy(buffer, offset[r], length[r], out, offsets[r])


@jit
def recoded_offsets(
    buffer: Bytes, offset: Ints, length: Lengths, size: Bytes, offsets: Ints
) -> int:
    """Where each value begins after recoding; the first row with a byte without letter, or -1."""
    total = np.int64(0)
    offsets[0] = 0
    for r in range(offset.size):
        for i in range(length[r]):
            letter = np.int64(size[buffer[offset[r] + i]])
            if letter == 0:
                return r
            total += letter
        offsets[r + 1] = total
    return -1


@jit
def recode(
    buffer: Bytes,
    offset: Ints,
    length: Lengths,
    size: Bytes,
    letters: Bytes,
    offsets: Ints,
    out: Bytes,
) -> None:
    for r in range(offset.size):
        to = offsets[r]
        for i in range(length[r]):
            byte = buffer[offset[r] + i]
            for j in range(size[byte]):
                out[to + j] = letters[byte, j]
            to += np.int64(size[byte])
