"""Kernels that print one value of binary JSON (MySQL source, json_binary.h).

Each kernel appends to ``out`` after its first ``to`` bytes, and uses at most ``most`` bytes of it.
It returns the new number of used bytes, or a negated code of ``damage``.
"""

from __future__ import annotations

import numpy as np

from ..kernels.jit import Bytes, Int, copy, jit, number, put_digits, put_integer, varlen
from .json_document import CUT, ENTRIES, LITERAL, OPAQUE, TEMPORAL, TYPE

_DIGIT_BYTES = np.array([0, 1, 1, 2, 2, 3, 3, 4, 4, 4], np.int64)
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_BASE64 = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8
)
# The letter after the backslash; 117 (u): written as \u00XX; 0: written unchanged.
_ESCAPE = np.zeros(256, np.uint8)
_ESCAPE[:32] = ord("u")
for _char, _letter in zip(b'"\\\b\f\n\r\t', b'"\\bfnrt', strict=True):
    _ESCAPE[_char] = _letter
_LITERALS = np.array([list(b"null "), list(b"true "), list(b"false")], np.uint8)
_LITERAL_SIZE = np.array([4, 4, 5], np.int64)
_TYPE = np.frombuffer(b'"base64:type', np.uint8)
# Upper bound in bytes of a value of fixed size. The limit of a document's text includes it.
_SHORT = 32
_DECIMAL, _DATE, _DATETIME, _TIMESTAMP, _TIME = 246, 10, 12, 7, 11
# A literal has up to nine groups of nine digits. A column's bounds (65 digits, 30 after the point)
# are narrower.
_DECIMAL_DIGITS = 81


@jit
def put_string(buffer: Bytes, at: Int, length: Int, out: Bytes, to: Int, most: Int) -> Int:
    """Print a string in quotes with the server's escapes (MySQL source, sql-common/json_dom.cc,
    ``double_quote``)."""
    if to + 6 * length + 2 > most:
        return -ENTRIES
    out[to] = 34
    to += 1
    for i in range(at, at + length):
        byte = buffer[i]
        letter = _ESCAPE[byte]
        if letter == 0:
            out[to] = byte
            to += 1
            continue
        out[to] = 92
        out[to + 1] = letter
        to += 2
        if letter == 117:
            out[to] = 48
            out[to + 1] = 48
            out[to + 2] = _HEX[byte >> 4]
            out[to + 3] = _HEX[byte & 15]
            to += 4
    out[to] = 34
    return to + 1


@jit
def put_scalar(
    buffer: Bytes, kind: Int, at: Int, limit: Int, out: Bytes, to: Int, most: Int
) -> Int:
    """Print any value except an object, array or double. Read only in [at, limit)."""
    if to + _SHORT > most:
        return -ENTRIES
    if kind == 4:
        if at >= limit:
            return -CUT
        literal = np.int64(buffer[at])
        if literal > 2:
            return -LITERAL
        for i in range(_LITERAL_SIZE[literal]):
            out[to + i] = _LITERALS[literal, i]
        to += _LITERAL_SIZE[literal]
        return to
    if 5 <= kind <= 10:
        width = 2 << ((kind - 5) >> 1)
        if at + width > limit:
            return -CUT
        value = number(buffer, at, width)
        signed = kind & 1 == 1
        if signed and width < 8 and value >> (8 * width - 1):
            value -= np.int64(1) << (8 * width)
        return put_integer(value, signed, out, to)
    if kind == 12:
        length, at = varlen(buffer, at, limit)
        if length < 0 or at + length > limit:
            return -CUT
        return put_string(buffer, at, length, out, to, most)
    if kind != 15:
        return -TYPE
    if at >= limit:
        return -CUT
    code = np.int64(buffer[at])
    length, at = varlen(buffer, at + 1, limit)
    if length < 0 or at + length > limit:
        return -CUT
    if code == _DECIMAL:
        return put_decimal(buffer, at, length, out, to, most)
    if code in (_DATE, _DATETIME, _TIMESTAMP, _TIME) and length == 8:
        return put_temporal(code, number(buffer, at, 8), out, to)
    return put_opaque(buffer, code, at, length, out, to, most)


@jit
def put_decimal(buffer: Bytes, at: Int, length: Int, out: Bytes, to: Int, most: Int) -> Int:
    """Print a decimal: precision, scale, then groups of nine digits, big-endian (MySQL source,
    strings/decimal.cc)."""
    if length < 2:
        return -CUT
    scale = np.int64(buffer[at + 1])
    whole = np.int64(buffer[at]) - scale
    if whole < 0 or not 0 < whole + scale <= _DECIMAL_DIGITS:
        return -OPAQUE
    full, over, part, last = whole // 9, whole % 9, scale // 9, scale % 9
    if 2 + 4 * (full + part) + _DIGIT_BYTES[over] + _DIGIT_BYTES[last] != length:
        return -CUT
    if to + whole + scale + 3 > most:
        return -ENTRIES
    at += 2
    flip = 0 if buffer[at] & 0x80 else 255
    if flip:
        out[to] = 45
        to += 1
    start = to
    sign: Int = np.int64(0x80)
    groups = full + part + 2
    for g in range(groups):
        size = over if g == 0 else (last if g == groups - 1 else 9)
        value: Int = np.int64(0)
        for _ in range(_DIGIT_BYTES[size]):
            value = value << 8 | (np.int64(buffer[at]) ^ flip ^ sign)
            sign = 0
            at += 1
        if value >= 10**size:
            return -OPAQUE
        # Skip leading zeros, as the server does. If no digit precedes the point, print one zero.
        for i in range(size):
            digit = value // 10 ** (size - 1 - i) % 10
            if to > start or digit:
                out[to] = 48 + digit
                to += 1
        if g == full:
            if to == start:
                out[to] = 48
                to += 1
            if scale:
                out[to] = 46
                to += 1
    return to


@jit
def put_temporal(code: Int, packed: Int, out: Bytes, to: Int) -> Int:
    """Print DATE, DATETIME, TIMESTAMP and TIME as quoted strings with six digits of fraction."""
    out[to] = 34
    to += 1
    negative = packed < 0
    if negative:
        if code != _TIME or packed == np.int64(-1) << 63:
            return -TEMPORAL
        packed = -packed
        out[to] = 45
        to += 1
    micros = packed & 0xFFFFFF
    clock = packed >> 24 & 0x1FFFF
    hour = packed >> 36 & 0x3FF if code == _TIME else clock >> 12
    day = packed >> 41
    year, month = (day >> 5) // 13, (day >> 5) % 13
    if micros > 999_999 or clock >> 6 & 63 > 59 or clock & 63 > 59:
        return -TEMPORAL
    if code == _TIME:
        if packed >> 46:
            return -TEMPORAL
    else:
        if year > 9999 or hour > 23:
            return -TEMPORAL
        to = put_digits(year, 4, out, to)
        out[to] = 45
        to = put_digits(month, 2, out, to + 1)
        out[to] = 45
        to = put_digits(day & 31, 2, out, to + 1)
        out[to] = 32
        to += code != _DATE
    if code != _DATE:
        to = put_digits(hour, 2, out, to)
        out[to] = 58
        to = put_digits(clock >> 6 & 63, 2, out, to + 1)
        out[to] = 58
        to = put_digits(clock & 63, 2, out, to + 1)
        out[to] = 46
        to = put_digits(micros, 6, out, to + 1)
    out[to] = 34
    return to + 1


@jit
def put_opaque(
    buffer: Bytes, code: Int, at: Int, length: Int, out: Bytes, to: Int, most: Int
) -> Int:
    r"""Print ``"base64:type<N>:..."``. The server's base64 has "\n" after each 76 letters."""
    if to + 18 + (length + 2) // 3 * 4 + 2 * (length // 57) > most:
        return -ENTRIES
    copy(_TYPE, 0, _TYPE.size, out, to)
    to = put_digits(code, 1, out, to + _TYPE.size)
    out[to] = 58
    to += 1
    for i in range(0, length, 3):
        if i and i % 57 == 0:
            out[to] = 92
            out[to + 1] = 110
            to += 2
        left = min(3, length - i)
        bits = np.int64(0)
        for k in range(3):
            bits = bits << 8 | (np.int64(buffer[at + i + k]) if k < left else 0)
        for k in range(4):
            out[to + k] = _BASE64[bits >> (18 - 6 * k) & 63] if k <= left else 61
        to += 4
    out[to] = 34
    return to + 1
