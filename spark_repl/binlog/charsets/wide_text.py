"""Character sets of more than one byte: Python's codecs, corrected where MySQL 9.7 maps otherwise.

Every two-byte sequence of these sets was compared with the server, and every three-byte sequence of
the EUC sets. A sequence that the server converts to a question mark or to U+FFFD has no character
here.

It also divides a text's bytes into characters as MySQL 9.7 does, including bytes that are no valid
character.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

_CODECS = {
    "big5": "big5",
    "cp932": "cp932",
    "eucjpms": "euc_jp",
    "euckr": "cp949",
    "gb18030": "gb18030",
    "gb2312": "gb2312",
    "gbk": "gbk",
    "sjis": "shift_jis",
    "ucs2": "utf_16_be",
    "ujis": "euc_jp",
    "utf16": "utf_16_be",
    "utf16le": "utf_16_le",
    "utf32": "utf_32_be",
}
_MENDED = {
    # MySQL follows GB 18030-2005, Python the edition of 2000.
    "gb18030": str.maketrans("\u1e3f\ue7c7", "\ue7c7\u1e3f"),
    "eucjpms": str.maketrans("〜‖−¢£¬¦", "～∥－￠￡￢￤"),
}
_TWO_BACKSLASHES = ("sjis", "ujis")
# Codes that the server converts to U+FFFD.
_NO_BIG5 = frozenset(
    (b"\xa1\x5a", b"\xa1\xc3", b"\xa1\xc5", b"\xa1\xfe", b"\xa2\x40", b"\xa2\xcc", b"\xa2\xce")
)
_MAYBE_NO_BIG5 = re.compile(b"|".join(map(re.escape, sorted(_NO_BIG5))))
_BIG5_ETEN = dict(zip(range(0xF9D6, 0xF9DD), "碁銹裏墻恒粧嫺", strict=True))
# From 8ff3f3 to 8ff3fe and from 8ff4a1 on.
_EUCJPMS_IBM = (
    "ⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩ\uff07\uff02㈱№℡炻仼僴凬匇匤\ufa0e咊坙\ufa0f\ufa10增寬峵嵓\ufa11德悅愠敎昻晥\ufa12"
    "\uf929栁\ufa13\ufa14橫櫢淸淲瀨\ufa15\ufa16甁皂皞\ufa17礰\ufa18\ufa19\ufa1a\ufa1b竧\ufa1c\ufa1d"
    "綠緖\ufa1e荢\ufa1f薰\ufa20\ufa21蠇\ufa22譿賴赶\ufa23\ufa24\ufa25郞\ufa26鄕\ufa27\ufa28閒\uf9dc"
    "\ufa29霻靍靑\ufa2a\ufa2b\ufa2c馞髙魲\ufa2d黑"
)
_ROW = 94


def decode_wide(value: bytes, charset: str, *, backslash: str = "\\") -> str:
    """Decode ``value``. Raise UnicodeDecodeError for bytes that are no character, and KeyError for
    a set that this module does not decode. The second, two-byte backslash of sjis and ujis is
    decoded as ``backslash``."""
    if charset == "eucjpms":
        # Python reads both this and 7e as a tilde; the server reads this as the full-width one.
        value = value.replace(b"\x8f\xa2\xb7", b"\xa1\xc1")
    elif charset == "big5" and _MAYBE_NO_BIG5.search(value):
        _refuse(value, charset, _NO_BIG5)
    text = codecs.decode(value, _CODECS[charset], _HANDLERS.get(charset, "strict"))
    if charset == "ucs2" and text and max(text) > "\uffff":
        raise UnicodeDecodeError(charset, value, 0, len(value), "surrogates")
    if charset in _TWO_BACKSLASHES:
        return text.replace("＼", backslash)
    return text.translate(_MENDED[charset]) if charset in _MENDED else text


def _refuse(value: bytes, charset: str, codes: frozenset[bytes]) -> None:
    """Raise UnicodeDecodeError if one of the characters of ``value`` is one of ``codes``."""
    if not codes.isdisjoint(characters(value, charset)):
        raise UnicodeDecodeError(charset, value, 0, len(value), "the server has U+FFFD for it")


def _big5(error: UnicodeError) -> tuple[str, int]:
    value, at = _place(error)
    char = _BIG5_ETEN.get(int.from_bytes(value[at : at + 2], "big"))
    if char is None:
        raise error
    return char, at + 2


def _ujis(error: UnicodeError) -> tuple[str, int]:
    value, at = _place(error)
    size = 3 if value[at] == 0x8F else 2
    lead, trail = value[at : at + size].rjust(3, b"\0")[1:]
    if size + at > len(value) or lead < 0xF5 or not 0xA1 <= trail <= 0xFE or lead > 0xFE:
        raise error
    # User-defined characters: ten rows of each plane, in order.
    plane = 0xE3AC if size == 3 else 0xE000
    return chr(plane + (lead - 0xF5) * _ROW + trail - 0xA1), at + size


def _eucjpms(error: UnicodeError) -> tuple[str, int]:
    value, at = _place(error)
    if value[at] == 0xAD and 0xA1 <= value[at + 1 : at + 2].ljust(1, b"\0")[0] <= 0xFE:
        # cp932 has NEC's row 13, with two rows to a lead byte.
        trail = value[at + 1] - 0xA1 + 0x40
        return bytes((0x87, trail + (trail >= 0x7F))).decode("cp932"), at + 2
    if value[at] == 0x8F and value[at + 1 : at + 2] in (b"\xf3", b"\xf4") and at + 3 <= len(value):
        number = (value[at + 1] - 0xF3) * _ROW + value[at + 2] - 0xF3
        if 0xA1 <= value[at + 2] <= 0xFE and 0 <= number < len(_EUCJPMS_IBM):
            return _EUCJPMS_IBM[number], at + 3
        raise error
    return _ujis(error)


def _place(error: UnicodeError) -> tuple[bytes, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.object, error.start


_HANDLERS = {"big5": "spark_repl.big5", "ujis": "spark_repl.ujis", "eucjpms": "spark_repl.eucjpms"}
codecs.register_error("spark_repl.big5", _big5)
codecs.register_error("spark_repl.ujis", _ujis)
codecs.register_error("spark_repl.eucjpms", _eucjpms)


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
