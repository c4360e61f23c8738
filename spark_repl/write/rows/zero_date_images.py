"""NULL dates that may be zero dates (zero_dates = "null"), also in rows that are images of the log.

In mode changelog columns are nullable for the rows that TRUNCATE is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from ...rules.metadata_columns import TRUNCATE, numbers_of
from ...rules.table_mode import logs_changes
from ...tables.column import DATE_TYPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from ...convert.type_change import TypeChange
    from ...tables.table_definition import TableDefinition


def are_images(definition: TableDefinition, arrays: Sequence[pa.Array]) -> pa.Array | None:
    """Which of some rows, ``arrays`` [columns of the table], these are; None in other modes."""
    if not logs_changes(definition):
        return None
    return pc.not_equal(arrays[numbers_of(definition)["operation"]], TRUNCATE)


def check_dates(values: pa.Array, images: pa.Array | None, change: TypeChange) -> None:
    """Raise Unconvertible if a date is NULL that may be a zero date on the source (zero_dates =
    "null"). ``images``: which rows are images of the log; None: none is."""
    before = change.before
    if before.mask or before.type not in DATE_TYPES:
        return
    values = values if images is None else values.filter(images)
    if not values.null_count:
        return
    if (before.logged or before).nullable:
        raise change.refused(f"a NULL of {before.name} may stand for a zero date")
    raise change.refused("there are NULLs in a column that can have none: zero dates, maybe")
