"""Rows that are images of the log (mode changelog), whose columns are nullable for the rows that
TRUNCATE is: what is NULL in an image, where the source has no NULL, may be a zero date."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from ..binlog.definition import DATE_TYPES
from ..ddl.extra_columns import TRUNCATE, numbers_of
from ..ddl.table_modes import logs_changes

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from ..binlog.definition import TableDefinition
    from ..ddl.type_change import TypeChange


def are_images(definition: TableDefinition, arrays: Sequence[pa.Array]) -> pa.Array | None:
    """Which of some rows, ``arrays`` [columns of the table], these are; None in other modes."""
    if not logs_changes(definition):
        return None
    return pc.not_equal(arrays[numbers_of(definition)["operation"]], TRUNCATE)


def check_dates(values: pa.Array, images: pa.Array | None, change: TypeChange) -> None:
    """Raises Unconvertible where a date of one of the ``images`` is NULL that the source's is
    not."""
    before = change.before
    if images is None or before.mask or before.type not in DATE_TYPES:
        return
    if not (before.logged or before).nullable and values.filter(images).null_count:
        raise change.refused("there are NULLs in a column that can have none: zero dates, maybe")
