"""widens: whether every value of a column has its exact like in another type, whoever asks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..sql.session import Session
from .lossless import keeps_values
from .to_number import integer_range
from .type_change import TypeChange, TypeFamily, family_of

if TYPE_CHECKING:
    from ..tables.column import Column

_STRICT = 1 << 22
UTC = Session(sql_mode=_STRICT, time_zone="+00:00")
"""a session in which a value that does not fit is an error"""
_DOUBLE_BITS, _DOUBLE, _FLOAT_BITS = 53, 8, 24


def widens(before: Column, after: Column) -> bool:
    """Whether each value of ``before`` is one of ``after``, so that a column of that type holds
    both. Whether NULL is allowed, names, defaults and AUTO_INCREMENT do not count."""
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
