"""Rows that a TRUNCATE takes on the source, in tables that keep them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ddl.extra_columns import keeps_deleted
from ..ddl.policy import Policy
from ..ddl.table_modes import has_versions
from ..write.ended_versions import TruncatedVersions
from ..write.soft_deletes import Truncated

if TYPE_CHECKING:
    from ..binlog.definition import TableDefinition
    from .logged import Logged


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
