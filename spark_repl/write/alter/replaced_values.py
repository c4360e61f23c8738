"""Values that the target has in place of values that Delta can't hold: NULL of a zero date
(``zero_dates = "null"``), U+FFFD of bytes without a character (``text_errors = "replace"``).

ALTER TABLE is refused where its outcome depends on the value that was replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from ...binlog.charsets.charset import REPLACEMENT, charset_of
from ...convert.type_change import TypeFamily, family_of
from ...rules.metadata_columns import TRUNCATE, numbers_of
from ...rules.table_mode import logs_changes
from ...tables.column import DATE_TYPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from ...alter.alteration import CarriedColumn
    from ...convert.type_change import TypeChange
    from ...tables.table_definition import TableDefinition


def are_images(definition: TableDefinition, arrays: Sequence[pa.Array]) -> pa.Array | None:
    """Return which of some rows, ``arrays`` [columns of the table], are images from the log. Return
    None unless the table's mode is changelog, in which a TRUNCATE is a row whose columns are NULL.
    """
    if not logs_changes(definition):
        return None
    return pc.not_equal(arrays[numbers_of(definition)["operation"]], TRUNCATE)


def check_replaced_dates(values: pa.Array, images: pa.Array | None, change: TypeChange) -> None:
    """Raise Unconvertible if a date is NULL that may be a zero date on the source (zero_dates =
    "null"). ``images``: which rows are images of the log; None: check all rows."""
    before = change.before
    if before.mask or before.type not in DATE_TYPES:
        return
    values = values if images is None else values.filter(images)
    if not values.null_count:
        return
    if (before.logged or before).nullable:
        raise change.refused(f"a NULL of {before.name} may stand for a zero date")
    raise change.refused("there are NULLs in a column that can have none: zero dates, maybe")


_MEMBERS = (TypeFamily.ENUM, TypeFamily.SET)


def may_recode(origin: CarriedColumn, change: TypeChange) -> bool:
    """Return whether the server may convert the bytes of a column's texts."""
    before, after = family_of(change.before), family_of(change.after)
    if before in _MEMBERS:
        return origin.written
    if before != TypeFamily.TEXT:
        return False
    if after != TypeFamily.TEXT:
        return True
    return charset_of(change.before.collation) != charset_of(change.after.collation)


def check_replaced_texts(values: pa.Array, change: TypeChange) -> None:
    """Raise Unconvertible if one of the values has a character that may be a replaced one."""
    if not pa.types.is_string(values.type):
        return
    if pc.any(pc.match_substring(values, REPLACEMENT)).as_py():
        raise change.refused("a text has U+FFFD, which may stand for bytes without a character")
