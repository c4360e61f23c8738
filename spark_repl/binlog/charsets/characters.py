"""The division of a text's bytes into characters, as MySQL 9.7 does it. It also divides bytes that
are no valid character."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TWO = rb"[\x81-\xfe].|."
_SHIFT_JIS = rb"[\x81-\x9f\xe0-\xfc].|."
_EUC = rb"\x8f..|[\x8e\xa1-\xfe].|."
# A surrogate is one character of three bytes.
_UTF8 = rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}|."
_PATTERNS = {
    "big5": _TWO,
    "cp932": _SHIFT_JIS,
    "eucjpms": _EUC,
    "euckr": _TWO,
    "gb18030": rb"[\x81-\xfe][0-9][\x81-\xfe][0-9]|[\x81-\xfe].|.",
    "gb2312": _TWO,
    "gbk": _TWO,
    "sjis": _SHIFT_JIS,
    "ucs2": rb"..|.",
    "ujis": _EUC,
    "utf16": rb"[\xd8-\xdb].[\xdc-\xdf].|..|.",
    "utf16le": rb".[\xd8-\xdb].[\xdc-\xdf]|..|.",
    "utf32": rb"....|.+",
    "utf8mb3": _UTF8,
    "utf8mb4": _UTF8,
}
_COMPILED = {name: re.compile(pattern, re.DOTALL) for name, pattern in _PATTERNS.items()}
_BYTE = re.compile(rb".", re.DOTALL)


def characters(value: bytes, charset: str) -> Iterator[bytes]:
    """Yield the bytes of each character of ``value``, which is in ``charset``."""
    return (match[0] for match in _COMPILED.get(charset, _BYTE).finditer(value))
