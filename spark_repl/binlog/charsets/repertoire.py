"""The server's output in a character set: which letters the set has, and their bytes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from ...errors import DecodeError
from .one_byte import NONE, one_byte_table
from .wide_text import decode_wide

WHOLE = frozenset(("utf8mb4", "utf16", "utf16le", "utf32", "gb18030"))
"""sets that have all letters of Unicode"""
BASIC = frozenset(("utf8mb3", "ucs2"))
"""sets that have the letters of the basic plane"""
ONLY_READ = {"cp932": "\x80\uf8f0\uf8f1\uf8f2\uf8f3"}
"""letters that the server reads in these sets but never writes: it writes a ? instead"""
DAMAGED = {"tis620": "\ufffd", "big5": "\ufffd", "cp932": "晡"}
"""letters that the server writes in these sets as the bytes of another letter, or of none"""
TWO_BYTES = frozenset(("big5", "cp932", "eucjpms", "euckr", "gb2312", "gbk", "sjis", "ujis"))
"""sets whose letters have one, two or three bytes"""
_THREE_BYTES = frozenset(("eucjpms", "ujis"))


@lru_cache
def letters(charset: str) -> frozenset[str] | None:
    """Return the characters of a set that the server writes. Return None for WHOLE and BASIC, which
    have too many."""
    if charset == "ascii":
        return frozenset(map(chr, range(128)))
    table = one_byte_table(charset)
    if table is None and charset not in TWO_BYTES:
        return None
    decoded = frozenset(_wide_letters(charset) if table is None else table)
    return decoded - {NONE} - set(ONLY_READ.get(charset, "") + DAMAGED.get(charset, ""))


def _wide_letters(charset: str) -> Iterator[str]:
    """Yield the letters that sequences of one to three bytes encode."""
    high = [bytes((byte,)) for byte in range(0x80, 0x100)]
    follow = [bytes((byte,)) for byte in range(0x21, 0x100)]
    sequences = [bytes((byte,)) for byte in range(0x100)] + [a + b for a in high for b in follow]
    if charset in _THREE_BYTES:
        sequences += [b"\x8f" + a + b for a in high for b in high]
    for sequence in sequences:
        try:
            text = decode_wide(sequence, charset)
        except UnicodeDecodeError:
            continue
        if len(text) == 1:
            yield text


def with_question_marks(text: str, charset: str) -> str:
    """Return the text with a ? for each letter that the set lacks. Raise DecodeError if the set's
    letters are not listed here, or if the text has a letter that is DAMAGED in the set."""
    if charset in WHOLE:
        return text
    if charset in BASIC:
        return "".join(letter if letter <= "\uffff" else "?" for letter in text)
    repertoire = letters(charset)
    if repertoire is None or set(text) & set(DAMAGED.get(charset, "")):
        raise DecodeError(f"which letters of a string character set {charset} lacks is not known")
    return "".join(letter if letter in repertoire else "?" for letter in text)


def bytes_of(text: str, charset: str) -> bytes:
    """Encode the text in a one-byte set. Raise DecodeError for any other set, and for a set that
    contains a character twice."""
    table = one_byte_table(charset) or ""
    places = {letter: byte for byte, letter in enumerate(table)}
    if not table or len(places) < len(table.replace(NONE, "")):
        raise DecodeError(f"the bytes of a string in character set {charset} are not known")
    return bytes(places[letter] for letter in text)
