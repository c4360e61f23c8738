"""Start faults: what the configuration says of a table that is there, and was not made so."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...errors import SettingError
from ..shared.shards import check_policy
from .logged_shape import check_columns

if TYPE_CHECKING:
    from .new_tables import NewTables
    from .table import Table
    from .tracking import Tracking


def start_faults(tracking: Tracking, table: Table, new: NewTables) -> list[SettingError]:
    """What is at fault; the first of each kind, of columns and rows, of policies, and of rows that
    other channels may have, which are recorded as ``new`` tables' are."""
    checks = [partial(check_columns, table, tracking.column_rules)]
    if table.is_shard:
        policy = tracking.policy(table.name)
        checks.append(partial(check_policy, table.definition, policy))
    if table.is_shared and table.definition.row_filter:
        checks.append(partial(new.record, table.definition, table.path))
    faults = list[SettingError]()
    for check in checks:
        try:
            check()
        except SettingError as error:
            faults.append(error)
    return faults
