"""MySQL's character sets: collation id -> character set -> Unicode text. Also the names of the
collations whose comparison the package implements.

Source: information_schema.collations of MySQL 9.7.
"""

from __future__ import annotations

from ...errors import DecodeError
from .one_byte import NONE, one_byte_table
from .wide_text import characters, decode_wide

LETTER_BACKSLASH = "\udc5c"
"""in a statement's text: a two-byte backslash, which the server's parser reads as a letter"""
REPLACEMENT = "\ufffd"
"""replacement for bytes without a character if ``text_errors`` = "replace" is set"""
TEXT_ERRORS_HINT = 'set target.text_errors = "replace" in the configuration, and start again'
"""hint for bytes without a character, except in a key or in a column that a row filter reads"""
KEY_TEXT_HINT = "correct the key on the source, and start again"
"""hint for bytes without a character in a key that a copy reads: characters of keys are never
replaced"""
LOGGED_KEY_TEXT_HINT = (
    "leave the transaction out (spark-repl skip --config F --gtid GTID), correct the key on the"
    " source, and copy the table again (spark-repl snapshot --config F --table DB.T)"
)
"""hint for bytes without a character in a key that the log contains"""
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
NAMES = {
    8: "latin1_swedish_ci", 11: "ascii_general_ci", 33: "utf8mb3_general_ci",
    45: "utf8mb4_general_ci", 46: "utf8mb4_bin", 47: "latin1_bin", 48: "latin1_general_ci",
    49: "latin1_general_cs", 63: "binary", 65: "ascii_bin", 83: "utf8mb3_bin",
    192: "utf8mb3_unicode_ci", 214: "utf8mb3_unicode_520_ci", 223: "utf8mb3_general_mysql500_ci",
    224: "utf8mb4_unicode_ci", 246: "utf8mb4_unicode_520_ci", 255: "utf8mb4_0900_ai_ci",
    278: "utf8mb4_0900_as_cs", 305: "utf8mb4_0900_as_ci", 309: "utf8mb4_0900_bin",
}  # fmt: skip
ORDERED = frozenset((46, 65, 83, 309))
"""ids of the collations whose order the package implements: the order of code points"""
_NUMBERS = {name: number for number, name in NAMES.items()}
# The collation of a character set that is declared without one. For utf8mb4 it depends on the
# server.
_DEFAULTS = {"latin1": 8, "ascii": 11, "utf8mb3": 33, "binary": 63}


def _collation_ids() -> dict[int, str]:
    ids: dict[int, str] = {}
    for charset, ranges in _COLLATIONS.items():
        for part in ranges.split(","):
            first, _, last = part.partition("-")
            ids.update(dict.fromkeys(range(int(first), int(last or first) + 1), charset))
    return ids


_CHARSET_OF = _collation_ids()


def charset_of(collation: int) -> str:
    """Return the name of the character set of a collation id. Raise DecodeError for an id that
    MySQL 9.7 lacks."""
    try:
        return _CHARSET_OF[collation]
    except KeyError:
        raise DecodeError(
            f"collation {collation} is not one of MySQL 9.7's",
            hint="convert the column to utf8mb4 on the source",
        ) from None


def name_of(collation: int) -> str:
    """Return the collation's name. For a collation without a name in NAMES, return its character
    set and its id, joined by "_". Raise DecodeError if MySQL 9.7 has no such id."""
    return NAMES.get(collation) or f"{charset_of(collation)}_{collation}"


def number_of(name: str, utf8mb4: int) -> int:
    """Return the id of a collation, or of a character set's default collation; 0 if the name is not
    in the tables above. ``utf8mb4`` is the id of the default collation of utf8mb4."""
    name = name.lower()
    name = name.replace("utf8", "utf8mb3", 1) if name.partition("_")[0] == "utf8" else name
    if name == "utf8mb4":
        return utf8mb4
    return _NUMBERS.get(name) or _DEFAULTS.get(name, 0)


def to_text(value: bytes, charset: str, *, backslash: str = "\\") -> str:
    """Decode one value in ``charset``. Raise DecodeError for bytes that the set does not define.
    sjis and ujis have a second, two-byte backslash: it is decoded as ``backslash``."""
    try:
        if charset in UTF8:
            return value.decode("utf-8")
        table = one_byte_table(charset)
        if table is None:
            return decode_wide(value, charset, backslash=backslash)
    except (UnicodeDecodeError, KeyError) as error:
        raise undecodable(value, charset) from error
    text = value.decode("latin-1").translate(dict(enumerate(table)))
    if NONE in text:
        raise undecodable(value, charset)
    return text


def replaced_text(value: bytes, charset: str) -> str:
    """Return ``value`` as text, with REPLACEMENT for each character that the set lacks."""
    out = list[str]()
    for character in characters(value, charset):
        try:
            out.append(to_text(character, charset))
        except DecodeError:
            out.append(REPLACEMENT)
    return "".join(out)


def _is_character(value: bytes, charset: str) -> bool:
    try:
        to_text(value, charset)
    except DecodeError:
        return False
    return True


def undecodable(value: bytes, charset: str) -> DecodeError:
    """Return the error for a value with bytes that are no character. It names the first such
    place."""
    for character in characters(value, charset):
        if len(character) < len(value) and not _is_character(character, charset):
            value = character
            break
    return DecodeError(
        f"bytes {value[:32].hex()} are not text in character set {charset}",
        hint=TEXT_ERRORS_HINT,
    )
