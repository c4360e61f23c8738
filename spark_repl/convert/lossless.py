"""Changes of type that keep all values, in the same Arrow type or in a wider one."""

from __future__ import annotations

from dataclasses import replace

from ..binlog.charsets.charset import charset_of
from ..sql.charsets import WIDE
from ..sql.session import Session
from ..tables.column import Column, ColumnType, Form
from .temporal import is_fixed
from .to_number import integer_range
from .to_text import keeps_characters
from .type_change import TypeChange, TypeFamily, bytes_max, characters, family_of, longest_character

_T = ColumnType
_NO_AUTO_VALUE_ON_ZERO = 1 << 19
_STRICT = 1 << 22
UTC = Session(sql_mode=_STRICT, time_zone="+00:00")
"""a session in which a value that does not fit is an error"""
_DOUBLE_BITS, _DOUBLE, _FLOAT_BITS = 53, 8, 24


def keeps_values(change: TypeChange) -> bool:
    """Return whether the change can't affect any stored value, so that only metadata changes."""
    before, after, session = change.before, change.after, change.session
    kind = family_of(before)
    if before.arrow_type is None or before.arrow_type != after.arrow_type:
        return False
    if before.form != after.form or change.pads:
        return False
    newly = after.auto_increment and not before.auto_increment
    moment = family_of(after) == TypeFamily.TIMESTAMP  # a strict server also stores the time
    if before.nullable and not after.nullable and (newly or moment or not session.is_strict):
        return False
    if kind in (TypeFamily.REAL, TypeFamily.VECTOR) and not change.plain:
        return False
    if (
        kind == TypeFamily.TIMESTAMP
        and before.meta != after.meta
        and not is_fixed(session.time_zone)
    ):
        return False
    if numbers_zeros(before, after, session):
        return False
    if kind in (TypeFamily.ENUM, TypeFamily.SET) and family_of(after) == TypeFamily.TEXT:
        return not after.assumed and _literals_fit(before, after)
    if kind != family_of(after) or kind is None:
        return False
    # A strict server refuses a text that does not fit the character set.
    if after.assumed and not before.assumed and not session.is_strict:
        return False
    return _RULES[kind](before, after)


def numbers_zeros(before: Column, after: Column, session: Session) -> bool:
    """Return whether the server numbers rows with the value 0 because the column becomes
    AUTO_INCREMENT."""
    newly = after.auto_increment and not before.auto_increment
    return newly and not session.sql_mode & _NO_AUTO_VALUE_ON_ZERO


def _integers(before: Column, after: Column) -> bool:
    (low, high), (least, most) = integer_range(before), integer_range(after)
    return least <= low and high <= most


def _decimals(before: Column, after: Column) -> bool:
    same_scale = before.scale == after.scale and before.precision <= after.precision
    return same_scale and not _loses_sign(before, after)


def _loses_sign(before: Column, after: Column) -> bool:
    return after.unsigned and not before.unsigned


def _reals(before: Column, after: Column) -> bool:
    return before.type == after.type and not _loses_sign(before, after)


def _always(before: Column, after: Column) -> bool:
    return True


def _bits(before: Column, after: Column) -> bool:
    return before.meta <= after.meta and (before.meta + 7) // 8 == (after.meta + 7) // 8


def _fractions(before: Column, after: Column) -> bool:
    if before.form == Form.TEXT or after.type in (_T.TIME, _T.TIME_OLD):
        return before.meta == after.meta or (
            before.form == Form.MICROSECONDS and before.meta < after.meta
        )
    return before.meta <= after.meta


def _enums(before: Column, after: Column) -> bool:
    return set(before.literals) <= set(after.literals)


def _sets(before: Column, after: Column) -> bool:
    """Return whether the members keep their order, in which the server prints them."""
    return (
        tuple(member for member in after.literals if member in before.literals) == before.literals
    )


def _bytes(before: Column, after: Column) -> bool:
    if after.type == _T.STRING:
        return before.type == _T.STRING and before.meta == after.meta
    return bytes_max(before) <= bytes_max(after)


def _texts(before: Column, after: Column) -> bool:
    if not keeps_characters(charset_of(before.collation), charset_of(after.collation)):
        return False
    if after.type == _T.STRING and before.type != _T.STRING:
        return False  # CHAR drops trailing spaces
    if after.type != _T.BLOB:
        most = bytes_max(before) if before.type == _T.BLOB else characters(before)
        return most <= characters(after)
    if charset_of(before.collation) == charset_of(after.collation):
        return bytes_max(before) <= bytes_max(after)
    most = bytes_max(before) if before.type == _T.BLOB else characters(before)
    return most * longest_character(after) <= bytes_max(after)


def _literals_fit(before: Column, after: Column) -> bool:
    texts = before.literals
    if after.type == _T.STRING and any(text.endswith(" ") for text in texts):
        return False
    if charset_of(after.collation) in WIDE:
        return False
    if before.type == _T.SET:
        texts = (",".join(before.literals),)
    if not all(text.isascii() for text in texts) and not keeps_characters(
        "utf8mb4", charset_of(after.collation)
    ):
        return False
    longest = max((len(text) for text in texts), default=0)
    if after.type == _T.BLOB:
        return longest * longest_character(after) <= bytes_max(after)
    return longest <= characters(after)


_RULES = {
    TypeFamily.INTEGER: _integers,
    TypeFamily.DECIMAL: _decimals,
    TypeFamily.REAL: _reals,
    TypeFamily.YEAR: _always,
    TypeFamily.BIT: _bits,
    TypeFamily.ENUM: _enums,
    TypeFamily.SET: _sets,
    TypeFamily.TEXT: _texts,
    TypeFamily.BYTES: _bytes,
    TypeFamily.DATE: _always,
    TypeFamily.DATETIME: _fractions,
    TypeFamily.TIMESTAMP: _fractions,
    TypeFamily.TIME: _fractions,
    TypeFamily.JSON: _always,
    TypeFamily.GEOMETRY: _always,
    TypeFamily.VECTOR: _always,
}


def widens(before: Column, after: Column) -> bool:
    """Return whether each value of ``before`` is also one of ``after``, so that a column of type
    ``after`` holds both. NULL, names, defaults and AUTO_INCREMENT are ignored."""
    old = replace(before, nullable=True, auto_increment=False)
    new = replace(after, nullable=True, auto_increment=False)
    plain = before.detail == after.detail == ""
    if keeps_values(TypeChange(old, new, UTC, plain=plain)):
        return True
    if before.form or after.form or before.arrow_type is None or after.arrow_type is None:
        return False
    kinds = (family_of(before), family_of(after))
    if kinds[0] not in (TypeFamily.INTEGER, TypeFamily.DECIMAL, TypeFamily.REAL):
        return kinds == (TypeFamily.DATE, TypeFamily.DATETIME)
    if kinds[0] == TypeFamily.INTEGER:
        return _integer(before, after)
    if before.unsigned != after.unsigned and after.unsigned:
        return False
    if kinds == (TypeFamily.DECIMAL, TypeFamily.DECIMAL):
        whole = before.precision - before.scale <= after.precision - after.scale
        return whole and before.scale <= after.scale
    return plain and kinds == (TypeFamily.REAL, TypeFamily.REAL) and before.meta <= after.meta


def _integer(before: Column, after: Column) -> bool:
    low, high = integer_range(before)
    if family_of(after) == TypeFamily.INTEGER:
        least, most = integer_range(after)
        return bool(least <= low and high <= most)
    if low < 0 and after.unsigned:
        return False
    if family_of(after) == TypeFamily.DECIMAL:
        return bool(high < 10 ** (after.precision - after.scale))
    if family_of(after) == TypeFamily.REAL:
        digits = _DOUBLE_BITS if after.meta == _DOUBLE else _FLOAT_BITS
        return bool(high < 2**digits and after.detail == "")
    return False
