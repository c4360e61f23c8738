"""Collations whose comparison is known here, by the numbers that MySQL gives them.

Source: information_schema.collations of MySQL 9.7.
"""

from __future__ import annotations

from .charset import charset_of

NAMES = {
    8: "latin1_swedish_ci", 11: "ascii_general_ci", 33: "utf8mb3_general_ci",
    45: "utf8mb4_general_ci", 46: "utf8mb4_bin", 47: "latin1_bin", 48: "latin1_general_ci",
    49: "latin1_general_cs", 63: "binary", 65: "ascii_bin", 83: "utf8mb3_bin",
    192: "utf8mb3_unicode_ci", 214: "utf8mb3_unicode_520_ci", 223: "utf8mb3_general_mysql500_ci",
    224: "utf8mb4_unicode_ci", 246: "utf8mb4_unicode_520_ci", 255: "utf8mb4_0900_ai_ci",
    278: "utf8mb4_0900_as_cs", 305: "utf8mb4_0900_as_ci", 309: "utf8mb4_0900_bin",
}  # fmt: skip
_NUMBERS = {name: number for number, name in NAMES.items()}
# What a character set means without a collation; of utf8mb4 that depends on the server.
_DEFAULTS = {"latin1": 8, "ascii": 11, "utf8mb3": 33, "binary": 63}


def name_of(collation: int) -> str:
    """The collation's name, or one that names its character set and is no collation's that is
    known here. Raises DecodeError."""
    return NAMES.get(collation) or f"{charset_of(collation)}_{collation}"


def number_of(name: str, utf8mb4: int) -> int:
    """The number of a collation, or of a character set's own one; 0 where that is not known.
    ``utf8mb4``: the number of utf8mb4's."""
    name = name.lower()
    name = name.replace("utf8", "utf8mb3", 1) if name.partition("_")[0] == "utf8" else name
    if name == "utf8mb4":
        return utf8mb4
    return _NUMBERS.get(name) or _DEFAULTS.get(name, 0)
