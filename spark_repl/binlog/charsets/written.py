"""What the server writes in a character set: which letters it has there, and their bytes."""

from __future__ import annotations

from functools import lru_cache

from ...errors import DecodeError
from .one_byte import NONE, one_byte_table

WHOLE = frozenset(("utf8mb4", "utf16", "utf16le", "utf32", "gb18030"))
"""the sets of all letters"""
BASIC = frozenset(("utf8mb3", "ucs2"))
"""those of the basic plane"""
# What the server reads in these sets and never writes: it becomes a ?.
_ONLY_READ = {"greek": "ͺ€₯", "cp1256": "ٹڈڑکںھہے"}


@lru_cache
def letters(charset: str) -> frozenset[str] | None:
    """The letters of a one-byte set that the server writes; None where the set isn't such."""
    if charset == "ascii":
        return frozenset(map(chr, range(128)))
    table = one_byte_table(charset)
    if table is None:
        return None
    return frozenset(table) - {NONE} - set(_ONLY_READ.get(charset, ""))


def with_question_marks(text: str, charset: str) -> str:
    """The text with a ? for each letter that the set lacks. Raises DecodeError where the set is not
    known so well."""
    if charset in WHOLE:
        return text
    if charset in BASIC:
        return "".join(letter if letter <= "\uffff" else "?" for letter in text)
    if (known := letters(charset)) is None:
        raise DecodeError(f"which letters of a string character set {charset} lacks is not known")
    return "".join(letter if letter in known else "?" for letter in text)


def bytes_of(text: str, charset: str) -> bytes:
    """The text in a one-byte set. Raises DecodeError for another one, and for one that has a letter
    twice."""
    places = {letter: byte for byte, letter in enumerate(one_byte_table(charset) or "")}
    known = letters(charset)
    if known is None or len(places) < len((one_byte_table(charset) or "").replace(NONE, "")):
        raise DecodeError(f"the bytes of a string in character set {charset} are not known")
    return bytes(places[letter] for letter in text)
