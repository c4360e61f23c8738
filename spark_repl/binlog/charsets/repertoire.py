"""What the server writes in a character set: which letters it has there, and their bytes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from ...errors import DecodeError
from .one_byte import NONE, one_byte_table
from .wide_text import decode_wide

WHOLE = frozenset(("utf8mb4", "utf16", "utf16le", "utf32", "gb18030"))
"""the sets of all letters"""
BASIC = frozenset(("utf8mb3", "ucs2"))
"""those of the basic plane"""
ONLY_READ = {"cp932": "\x80\uf8f0\uf8f1\uf8f2\uf8f3"}
"""what it reads in these sets and never writes: it becomes a ?"""
DAMAGED = {"tis620": "\ufffd", "big5": "\ufffd", "cp932": "晡"}
"""what it writes in these sets as bytes that are another letter, or none"""
TWO_BYTES = frozenset(("big5", "cp932", "eucjpms", "euckr", "gb2312", "gbk", "sjis", "ujis"))
"""sets of letters of one and two bytes, or three"""
_THREE_BYTES = frozenset(("eucjpms", "ujis"))


@lru_cache
def letters(charset: str) -> frozenset[str] | None:
    """The letters of a set that the server writes; None for WHOLE and BASIC, which have too
    many."""
    if charset == "ascii":
        return frozenset(map(chr, range(128)))
    table = one_byte_table(charset)
    if table is None and charset not in TWO_BYTES:
        return None
    decoded = frozenset(_wide_letters(charset) if table is None else table)
    return decoded - {NONE} - set(ONLY_READ.get(charset, "") + DAMAGED.get(charset, ""))


def _wide_letters(charset: str) -> Iterator[str]:
    """What the sequences of one to three bytes are."""
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
    """The text with a ? for each letter that the set lacks. Raises DecodeError where the set is not
    known so well."""
    if charset in WHOLE:
        return text
    if charset in BASIC:
        return "".join(letter if letter <= "\uffff" else "?" for letter in text)
    repertoire = letters(charset)
    if repertoire is None or set(text) & set(DAMAGED.get(charset, "")):
        raise DecodeError(f"which letters of a string character set {charset} lacks is not known")
    return "".join(letter if letter in repertoire else "?" for letter in text)


def bytes_of(text: str, charset: str) -> bytes:
    """The text in a one-byte set. Raises DecodeError for another one, and for one that has a letter
    twice."""
    table = one_byte_table(charset) or ""
    places = {letter: byte for byte, letter in enumerate(table)}
    if not table or len(places) < len(table.replace(NONE, "")):
        raise DecodeError(f"the bytes of a string in character set {charset} are not known")
    return bytes(places[letter] for letter in text)
