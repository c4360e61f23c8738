"""Numbers of the character sets and collations that statements name (MySQL 9.7)."""

from __future__ import annotations

from ..errors import StatementError

# Character set -> id of its default collation, bytes of its longest character.
_CHARSETS = {
    "big5": (1, 2), "dec8": (3, 1), "cp850": (4, 1), "hp8": (6, 1), "koi8r": (7, 1),
    "latin1": (8, 1), "latin2": (9, 1), "swe7": (10, 1), "ascii": (11, 1), "ujis": (12, 3),
    "sjis": (13, 2), "hebrew": (16, 1), "tis620": (18, 1), "euckr": (19, 2), "koi8u": (22, 1),
    "gb2312": (24, 2), "greek": (25, 1), "cp1250": (26, 1), "gbk": (28, 2), "latin5": (30, 1),
    "armscii8": (32, 1), "utf8mb3": (33, 3), "ucs2": (35, 2), "cp866": (36, 1),
    "keybcs2": (37, 1), "macce": (38, 1), "macroman": (39, 1), "cp852": (40, 1),
    "latin7": (41, 1), "cp1251": (51, 1), "utf16": (54, 4), "utf16le": (56, 4),
    "cp1256": (57, 1), "cp1257": (59, 1), "utf32": (60, 4), "binary": (63, 1),
    "geostd8": (92, 1), "cp932": (95, 2), "eucjpms": (97, 3), "gb18030": (248, 4),
    "utf8mb4": (255, 4), "utf8": (33, 3),
}  # fmt: skip

ASSUMED = "utf8mb4_"
"""prefix of a character set that is not known and assumed to be utf8mb4"""
NAMES = frozenset(_CHARSETS)
"""names of all character sets"""
WIDE = frozenset(("ucs2", "utf16", "utf16le", "utf32"))
"""character sets whose characters have at least two bytes"""
# Collations with another mapping of case: their numbers have to be known.
TURKISH = {
    "utf16_turkish_ci": 110, "ucs2_turkish_ci": 137, "utf32_turkish_ci": 169,
    "utf8mb3_turkish_ci": 201, "utf8_turkish_ci": 201, "utf8mb4_turkish_ci": 233,
    "utf8mb4_tr_0900_ai_ci": 265, "utf8mb4_tr_0900_as_cs": 288,
}  # fmt: skip

_WIDTHS = {"ucs2": 2, "utf16": 2, "utf16le": 2, "utf32": 4}


def padded(raw: bytes, charset: str) -> bytes:
    """Return the bytes of a hexadecimal or bit literal as a string of the character set: with
    leading zeros, so that they make whole characters, as on 9.7.4."""
    return bytes(-len(raw) % _WIDTHS.get(charset, 1)) + raw


def collation(charset: str) -> tuple[int, int]:
    """Return (collation id, bytes of the longest character) for the name of a character set or
    collation. Raise StatementError for an unknown name."""
    name = charset.lower()
    entry = _CHARSETS.get(name) or _CHARSETS.get(name.partition("_")[0])
    if entry is None:
        raise StatementError(f"character set {charset} is not known")
    return TURKISH.get(name, entry[0]), entry[1]
