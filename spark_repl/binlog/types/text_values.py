"""Strings and bytes: gathered from the buffer into Arrow's layout, in any character set."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import DecodeError
from ..charsets.charset import (
    REPLACEMENT,
    UTF8,
    charset_of,
    replaced_text,
    to_text,
    undecodable,
)
from ..charsets.one_byte import NONE, one_byte_table
from ..kernels.jit import Bools, Bytes, Ints, Lengths, copy, jit
from .column_values import Values

_PADDING_HINT = "repair the value on the source, or change the column to a binary type"
# Sets in which a byte below 128 is always ASCII, unless it follows a byte of 128 or more.
_ASCII_STAYS = frozenset(
    ("big5", "cp932", "eucjpms", "euckr", "gb18030", "gb2312", "gbk", "sjis", "ujis")
)


def decode(values: Values, collation: int, text_errors: str = "error") -> tuple[pa.Array, int]:
    """Return text in the collation's character set, StringArray[n], and the number of values in
    which characters were replaced. ``text_errors`` decides about bytes that are no character: with
    "error", raise DecodeError with the row; with "replace", use U+FFFD."""
    charset = charset_of(collation)
    if charset in UTF8:
        return _utf8(values, charset, text_errors)
    if (table := _utf8_table(charset)) is not None:
        return _one_byte(values, charset, table, text_errors)
    return _through_python(values, charset, text_errors)


def _utf8(values: Values, charset: str, text_errors: str) -> tuple[pa.Array, int]:
    array = gather(values, pa.string())
    try:
        array.validate(full=True)
        return array, 0
    except pa.ArrowInvalid:
        bad = np.zeros(len(values), np.bool_)
        find_invalid(values.buffer, values.offset, values.length, bad)
    rows = _replaceable(values, charset, bad, text_errors)
    empty = np.where(bad, 0, values.length).astype(np.int32)
    valid = gather(Values(values.buffer, values.offset, empty), pa.string())
    some = Values(values.buffer, values.offset[rows], values.length[rows])
    distinct = gather(some, pa.binary()).dictionary_encode()
    texts = [replaced_text(value, charset) for value in distinct.dictionary.to_pylist()]
    replacements = pa.array(texts, pa.string()).take(distinct.indices)
    return pc.replace_with_mask(valid, pa.array(bad), replacements), len(rows)


def _one_byte(
    values: Values, charset: str, table: _Letters, text_errors: str
) -> tuple[pa.Array, int]:
    if table.ascii_stays and (plain := _ascii(values)) is not None:
        return plain, 0
    count = 0
    if table.holes.any():
        bad = np.zeros(len(values), np.bool_)
        find_holes(values.buffer, values.offset, values.length, table.holes, bad)
        count = len(_replaceable(values, charset, bad, text_errors))
    offsets = np.empty(len(values) + 1, np.int64)
    recoded_offsets(values.buffer, values.offset, values.length, table.size, offsets)
    out = np.empty(int(offsets[-1]), np.uint8)
    recode(values.buffer, values.offset, values.length, table.size, table.letters, offsets, out)
    return _array(values, pa.string(), offsets, out), count


def _through_python(values: Values, charset: str, text_errors: str) -> tuple[pa.Array, int]:
    """Decode each distinct value once with Python's codec."""
    if charset in _ASCII_STAYS and (plain := _ascii(values)) is not None:
        return plain, 0
    distinct = gather(values, pa.binary()).dictionary_encode()
    texts, faulty = list[str](), list[int]()
    for number, value in enumerate(distinct.dictionary.to_pylist()):
        try:
            texts.append(to_text(value, charset))
        except DecodeError:
            texts.append(replaced_text(value, charset))
            faulty.append(number)
    count = 0
    if faulty:
        bad = np.isin(distinct.indices.fill_null(-1).to_numpy(), faulty)
        count = len(_replaceable(values, charset, bad, text_errors))
    return pa.array(texts, pa.string()).take(distinct.indices), count


def _ascii(values: Values) -> pa.Array | None:
    """Return the values unchanged if all their bytes are ASCII, else None. Most text is ASCII, and
    copying is five times as fast as decoding each letter."""
    plain = gather(values, pa.string())
    return plain if (np.frombuffer(plain.buffers()[2], np.uint8) < 128).all() else None


def _replaceable(values: Values, charset: str, bad: Bools, text_errors: str) -> Ints:
    """Return the rows that are ``bad``. Raise DecodeError for the first one, unless its characters
    are to be replaced."""
    rows = np.flatnonzero(bad)
    if len(rows) and text_errors == "error":
        row = int(rows[0])
        at = int(values.offset[row])
        raise undecodable(
            values.buffer[at : at + int(values.length[row])].tobytes(), charset
        ).of_row(row)
    return rows


def gather(values: Values, kind: pa.DataType) -> pa.Array:
    """Return the values' bytes unchanged: ``kind`` is pa.string() (unchecked) or pa.binary()."""
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.maximum(values.length, 0), out=offsets[1:])
    out = np.empty(int(offsets[-1]), np.uint8)
    copy_values(values.buffer, values.offset, offsets, out)
    return _array(values, kind, offsets, out)


def padded(values: Values, width: int) -> pa.Array:
    """Decode BINARY(width). The log drops trailing 0x00, but the server displays them, so append
    them again."""
    if len(values) and values.length.max() > width:
        raise DecodeError(f"{values.length.max()} bytes in BINARY({width})", hint=_PADDING_HINT)
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


class _Letters(NamedTuple):
    """UTF-8 of each byte of a one-byte set. ``size`` uint8[256]; ``letters`` uint8[256, 4];
    ``ascii_stays``: whether the bytes below 128 are ASCII; ``holes`` uint8[256]: 1 for a byte
    without a character."""

    size: Bytes
    letters: Bytes
    ascii_stays: bool
    holes: Bytes


@lru_cache
def _utf8_table(charset: str) -> _Letters | None:
    """Return the table of a one-byte set, U+FFFD for a hole; None for any other set."""
    table = one_byte_table(charset)
    if table is None:
        return None
    size, letters = np.zeros(256, np.uint8), np.zeros((256, 4), np.uint8)
    for byte, char in enumerate(table.replace(NONE, REPLACEMENT)):
        encoded = char.encode()
        size[byte] = len(encoded)
        letters[byte, : len(encoded)] = list(encoded)
    same = (size[:128] == 1) & (letters[:128, 0] == np.arange(128))
    holes = np.array([char == NONE for char in table], np.uint8)
    return _Letters(size, letters, bool(same.all()), holes)


@jit
def copy_values(buffer: Bytes, offset: Ints, offsets: Ints, out: Bytes) -> None:
    """Copy the bytes from buffer[offset[r]] on to out[offsets[r]:offsets[r + 1]]."""
    for r in range(offset.size):
        copy(buffer, offset[r], offsets[r + 1] - offsets[r], out, offsets[r])


@jit
def copy_padded(buffer: Bytes, offset: Ints, length: Lengths, offsets: Ints, out: Bytes) -> None:
    for r in range(offset.size):
        if length[r] > 0:
            copy(buffer, offset[r], length[r], out, offsets[r])


@jit
def find_holes(buffer: Bytes, offset: Ints, length: Lengths, holes: Bytes, bad: Bools) -> None:
    """Set bad[r] to whether value r has a byte for which ``holes`` has 1."""
    for r in range(offset.size):
        for i in range(length[r]):
            if holes[buffer[offset[r] + i]]:
                bad[r] = True


@jit
def find_invalid(buffer: Bytes, offset: Ints, length: Lengths, bad: Bools) -> None:
    """Set bad[r] to whether value r is not UTF-8."""
    for r in range(offset.size):
        at = np.int64(offset[r])
        end = at + np.int64(length[r])
        while at < end:
            first = np.int64(buffer[at])
            size = 1 + (first >= 0xC2) + (first >= 0xE0) + (first >= 0xF0)
            if 0x80 <= first < 0xC2 or first > 0xF4 or at + size > end:
                bad[r] = True
                break
            for i in range(1, size):
                if buffer[at + i] & 0xC0 != 0x80:
                    bad[r] = True
            if size > 2:
                two = first << 8 | np.int64(buffer[at + 1])
                # Overlong forms, surrogates, numbers above U+10FFFF.
                if two < 0xE0A0 or 0xED9F < two < 0xEE00 or 0xEFFF < two < 0xF090 or two > 0xF48F:
                    bad[r] = True
            at += size


@jit
def recoded_offsets(
    buffer: Bytes, offset: Ints, length: Lengths, size: Bytes, offsets: Ints
) -> None:
    """Write to ``offsets`` where each value begins after recoding."""
    total = np.int64(0)
    offsets[0] = 0
    for r in range(offset.size):
        for i in range(length[r]):
            total += np.int64(size[buffer[offset[r] + i]])
        offsets[r + 1] = total


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
