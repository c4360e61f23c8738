"""ENUM and SET: members by name and by number, from and to columns of other types.

A text that is not a member of the new list may still be one by its number: '2' is the second. The
column's collation compares names, and ``Column`` does not describe its comparisons. If the
collation would decide, the result is not known.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa

from ..binlog.charsets.charset import charset_of
from ..sql.charsets import WIDE
from ..tables.column import Column, ColumnType
from .type_change import Converted, TypeChange, TypeFamily, by_distinct, family_of

_NUMBER = re.compile(r"[ \t\n\v\f\r]*([+-]?)0*([0-9]+)", re.ASCII)
_PRINTABLE = re.compile(r"[ -~]*")
_ENUM_NUMBER_BYTES, _SET_NUMBER_BYTES, _SET_MEMBERS_MAX = 6, 22, 64


def store_member(texts: pa.Array, change: TypeChange) -> Converted:
    """Convert text to ENUM or SET. Raise Unconvertible if only the collation identifies the
    member."""
    if any(member.endswith(" ") for member in (*change.before.literals, *change.after.literals)):
        raise change.refused("members of CHARACTER SET binary are compared with their spaces")
    is_enum = change.after.type == ColumnType.ENUM
    converted = by_distinct(texts, (_enum if is_enum else _set)(change), pa.string())
    return Converted(converted.values, converted.unfit, "is no member")


def members_of_bits(number: pa.Array, change: TypeChange) -> Converted:
    """Convert BIT to SET bit by bit, and to ENUM as the member's number in the list."""
    literals = change.after.literals
    is_enum = change.after.type == ColumnType.ENUM

    def store(value: int | None) -> tuple[str | None, bool]:
        if value is None:
            return None, True
        if is_enum:
            fits = 0 < value <= len(literals)
            return (literals[int(value) - 1] if fits else ""), fits
        return _joined(literals, int(value)), not int(value) >> len(literals)

    return by_distinct(number, store, pa.string())


def _joined(literals: tuple[str, ...], bits: int) -> str:
    return ",".join(member for i, member in enumerate(literals) if bits >> i & 1)


def _finder(change: TypeChange) -> Callable[[str], int]:
    """Return a function from a name to its place in the list, -1 for none. The function raises
    Unconvertible if the collation would decide."""
    after: Column = change.after
    places = {literal: i for i, literal in enumerate(after.literals)}
    folded = {literal.lower() for literal in after.literals}
    plain = all(_PRINTABLE.fullmatch(literal) for literal in after.literals)

    def find(name: str) -> int:
        if name in places:
            return places[name]
        if not plain or not _PRINTABLE.fullmatch(name) or name.lower() in folded:
            raise change.refused(f"whether {name!r} is a member depends on the collation")
        return -1

    return find


def _number(text: str, most: int, change: TypeChange) -> int:
    """Return the number in a text; -1 if it has none, or one above ``most``. Raise Unconvertible
    for text of wide letters."""
    if any(
        charset_of(column.collation) in WIDE
        for column in (change.before, change.after)
        if family_of(column) == TypeFamily.TEXT
    ):
        raise change.refused(f"whether the server reads {text!r} as a number is not known")
    match = _NUMBER.fullmatch(text)
    if not match or (match[1] == "-" and int(match[2])):
        return -1
    value = int(match[2])
    return value if value <= most else -1


def _bare(name: str, change: TypeChange) -> str:
    """Return a name without the spaces at its end. Raise Unconvertible if they may count: they do
    in CHARACTER SET binary, and no definition records the character set of ENUM and SET."""
    literals = change.after.literals
    bare = name if name in literals else name.rstrip(" ")
    if bare != name and bare in literals:
        raise change.refused(f"whether {name!r} is a member depends on the character set")
    return bare


def _enum(change: TypeChange) -> Callable[[str | None], tuple[str | None, bool]]:
    literals, find = change.after.literals, _finder(change)
    from_enum = change.before.type == ColumnType.ENUM

    def store(text: str | None) -> tuple[str | None, bool]:
        if text is None or (text == "" and from_enum):
            return text, True
        name = _bare(text, change)
        place = find(name)
        if place >= 0:
            return literals[place], True
        number = _number(name, len(literals), change) if len(name) < _ENUM_NUMBER_BYTES else -1
        return (literals[number - 1] if number > 0 else ""), number >= 0

    return store


def _set(change: TypeChange) -> Callable[[str | None], tuple[str | None, bool]]:
    literals, find = change.after.literals, _finder(change)
    if len(literals) == _SET_MEMBERS_MAX:
        raise change.refused("how the server reads numbers into a SET of 64 is not known")

    def store(text: str | None) -> tuple[str | None, bool]:
        if not text:
            return text, True
        bits, fits = 0, True
        for name in text.split(","):
            place = find(_bare(name, change))
            fits = fits and place >= 0
            bits |= 1 << place if place >= 0 else 0
        if not bits and len(text) < _SET_NUMBER_BYTES:
            number = _number(text, (1 << len(literals)) - 1, change)
            return _joined(literals, max(number, 0)), number >= 0
        return _joined(literals, bits), fits

    return store
