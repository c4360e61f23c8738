"""Versions of rows that the source has no more (mode history): no ALTER TABLE makes others of their
values in silence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from ..convert.conversion import convert
from ..errors import StatementError
from ..rules.metadata_columns import numbers_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from ..binlog.definition import TableDefinition
    from ..convert.type_change import TypeChange

_STRICT_ALL_TABLES = 1 << 22


def outlived(definition: TableDefinition, arrays: Sequence[pa.Array]) -> pa.Array | None:
    """Which of some rows, ``arrays`` [columns of the table], these are; None: none is."""
    current = numbers_of(definition).get("current")
    if current is None:
        return None
    return pc.invert(pc.fill_null(arrays[current], False))


def check_fit(values: pa.Array, gone: pa.Array | None, change: TypeChange) -> None:
    """Raises StatementError where a value of the rows that are ``gone`` does not fit, also by a
    session's sql_mode with which a server stores another in its place."""
    if gone is None or change.session.is_strict:
        return
    mode = change.session.sql_mode | _STRICT_ALL_TABLES
    strict = replace(change, session=replace(change.session, sql_mode=mode))
    try:
        convert(values.filter(gone), strict)
    except StatementError as error:
        error.message += ", in a version that the source has no more"
        raise
