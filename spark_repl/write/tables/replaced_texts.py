"""Texts in which bytes without a character became U+FFFD (``text_errors = "replace"``), and
statements whose outcome depends on these bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from ...binlog.charsets.charset import REPLACEMENT, charset_of
from ...convert.type_change import TypeFamily, family_of

if TYPE_CHECKING:
    from ...alter.alteration import KeptColumn
    from ...convert.type_change import TypeChange

_MEMBERS = (TypeFamily.ENUM, TypeFamily.SET)


def may_recode(origin: KeptColumn, change: TypeChange) -> bool:
    """Return whether the server may convert the bytes of a column's texts."""
    before, after = family_of(change.before), family_of(change.after)
    if before in _MEMBERS:
        return origin.written
    if before != TypeFamily.TEXT:
        return False
    if after != TypeFamily.TEXT:
        return True
    return charset_of(change.before.collation) != charset_of(change.after.collation)


def check_texts(values: pa.Array, change: TypeChange) -> None:
    """Raise Unconvertible if one of the values has a character that may be a replaced one."""
    if not pa.types.is_string(values.type):
        return
    if pc.any(pc.match_substring(values, REPLACEMENT)).as_py():
        raise change.refused("a text has U+FFFD, which may stand for bytes without a character")
