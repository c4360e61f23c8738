"""What a TRUNCATE is to tables that keep the rows which it takes on the source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ...decode.added_columns import truncated_at
from ...rules.metadata_columns import keeps_deleted
from ...rules.table_mode import has_versions
from ...sql.policy import Policy
from ...write.rows.scd2_history import TruncatedVersions
from ...write.rows.soft_deletes import Truncated

if TYPE_CHECKING:
    from ...tables.table_definition import TableDefinition
    from ..log.statement_event import Logged


def marks_of(
    there: TableDefinition, logged: Logged, policy: Policy
) -> Truncated | TruncatedVersions | None:
    """What marks the rows of the table ``there``; None where they go, or stay as they are."""
    moment = logged.cut.group_gtids, logged.committed_us
    if keeps_deleted(there):
        return Truncated(there, *moment)
    if has_versions(there) and policy is not Policy.IGNORE_DROP:
        return TruncatedVersions(there, *moment, logged.position)
    return None


def row_of(there: TableDefinition, logged: Logged) -> pa.Table:
    """The row [1] that it is in the changelog ``there``: the source's columns are NULL."""
    said = truncated_at(there, logged.cut.group_gtids, logged.committed_us, logged.position)
    schema = there.arrow_schema()
    columns = [
        said[column.extra].cast(kind) if column.extra else pa.nulls(1, kind)
        for column, kind in zip(there.columns, schema.types, strict=True)
    ]
    return pa.Table.from_arrays(columns, names=schema.names)
