"""MySQL's character sets: collation id -> character set -> Unicode text.

Source: information_schema.collations of MySQL 9.7. One-byte sets become a 256-entry table, wide
sets go through Python's codec of the same repertoire.
"""

from __future__ import annotations

import codecs
from functools import lru_cache

from ..errors import DecodeError

BINARY = 63
UTF8 = frozenset(("utf8mb4", "utf8mb3", "ascii"))

_COLLATIONS = {
    "armscii8": "32,64",
    "ascii": "11,65",
    "big5": "1,84",
    "binary": "63",
    "cp1250": "26,34,44,66,99",
    "cp1251": "14,23,50-52",
    "cp1256": "57,67",
    "cp1257": "29,58-59",
    "cp850": "4,80",
    "cp852": "40,81",
    "cp866": "36,68",
    "cp932": "95-96",
    "dec8": "3,69",
    "eucjpms": "97-98",
    "euckr": "19,85",
    "gb18030": "248-250",
    "gb2312": "24,86",
    "gbk": "28,87",
    "geostd8": "92-93",
    "greek": "25,70",
    "hebrew": "16,71",
    "hp8": "6,72",
    "keybcs2": "37,73",
    "koi8r": "7,74",
    "koi8u": "22,75",
    "latin1": "5,8,15,31,47-49,94",
    "latin2": "2,9,21,27,77",
    "latin5": "30,78",
    "latin7": "20,41-42,79",
    "macce": "38,43",
    "macroman": "39,53",
    "sjis": "13,88",
    "swe7": "10,82",
    "tis620": "18,89",
    "ucs2": "35,90,128-151,159",
    "ujis": "12,91",
    "utf16": "54-55,101-124",
    "utf16le": "56,62",
    "utf32": "60-61,160-183",
    "utf8mb3": "33,76,83,192-215,223",
    "utf8mb4": "45-46,224-247,255-323",
}


def _collation_ids() -> dict[int, str]:
    ids: dict[int, str] = {}
    for charset, ranges in _COLLATIONS.items():
        for part in ranges.split(","):
            first, _, last = part.partition("-")
            ids.update(dict.fromkeys(range(int(first), int(last or first) + 1), charset))
    return ids


_CHARSET_OF = _collation_ids()

# Python's codec where its name is not MySQL's.
_ONE_BYTE = {
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1256": "cp1256",
    "cp1257": "cp1257",
    "cp850": "cp850",
    "cp852": "cp852",
    "cp866": "cp866",
    "greek": "iso8859_7",
    "hebrew": "iso8859_8",
    "koi8r": "koi8_r",
    "koi8u": "koi8_u",
    "latin1": "cp1252",
    "latin2": "iso8859_2",
    "latin5": "iso8859_9",
    "latin7": "iso8859_13",
    "macce": "mac_latin2",
    "macroman": "mac_roman",
    "tis620": "tis_620",
}
_WIDE = {
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


def charset_of(collation: int) -> str:
    """Name of the character set of a collation id; DecodeError for an id that MySQL 9.7 lacks."""
    try:
        return _CHARSET_OF[collation]
    except KeyError:
        raise DecodeError(
            f"collation {collation} is not one of MySQL 9.7's",
            hint="convert the column to utf8mb4 on the source",
        ) from None


@lru_cache
def one_byte_table(charset: str) -> str | None:
    """The 256 characters of a one-byte set; None when the set has wide characters.

    U+FFFF marks bytes that have no character.
    """
    codec = _ONE_BYTE.get(charset)
    if codec is None:
        return None
    chars = [bytes((byte,)).decode(codec, "ignore") or "\uffff" for byte in range(256)]
    if charset == "latin1":
        # MySQL's latin1 is cp1252 with its five holes filled by the C1 control of that number.
        chars = [chr(byte) if char == "\uffff" else char for byte, char in enumerate(chars)]
    return "".join(chars)


def to_text(value: bytes, charset: str) -> str:
    """One value in ``charset`` as text; DecodeError for bytes that are not of the set."""
    try:
        if charset in UTF8:
            return value.decode("utf-8")
        table = one_byte_table(charset)
        if table is None:
            return codecs.decode(value, _WIDE[charset])
    except (UnicodeDecodeError, KeyError) as error:
        raise _undecodable(value, charset) from error
    text = value.decode("latin-1").translate({i: c for i, c in enumerate(table)})
    if "\uffff" in text:
        raise _undecodable(value, charset)
    return text


def _undecodable(value: bytes, charset: str) -> DecodeError:
    return DecodeError(
        f"bytes {value[:32].hex()} are not text in character set {charset}",
        hint="repair the value on the source, or change the column to a binary type",
    )
