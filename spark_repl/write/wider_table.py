"""WiderTable: a Delta table of shards is given the columns that one of them has and no one else."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import ConcurrentChangeError
from .shard_columns import union

if TYPE_CHECKING:
    from ..binlog.definition import TableDefinition
    from ..delta.stamp import Stamp
    from .table import Table
    from .table_commits import TableCommits

_TRIES = 100


def widen(
    commits: TableCommits,
    table: Table,
    shaped: TableDefinition,
    others: Collection[TableDefinition],
    stamp: Stamp,
) -> None:
    """Gives the Delta table of ``table``, whose lock is held, the columns of a shard that is
    ``shaped`` so; ``others``: the other shards' definitions. Where another channel that feeds the
    table comes first it is tried again. Raises SettingError where a column is of another type
    there, and what a commit raises."""
    for left in reversed(range(_TRIES)):
        commits.refresh(table)
        new = union(table.snapshot, shaped, (), others)
        if new is None:
            return
        moves = stamp.app == commits.app
        # An XA branch that was ended by hand is behind the place where the next group begins.
        position = max(stamp.position, table.position) if moves else table.position
        own = replace(stamp, position=position)
        table.delta.pending = position if moves else table.delta.pending
        try:
            version = commits.delta.alter(table.snapshot, new, [], own)
        except Exception as error:
            commits.refresh(table)
            if union(table.snapshot, shaped, (), others) is None:
                return
            beaten = table.is_shared and isinstance(error, ConcurrentChangeError)
            if not beaten or not left:
                raise
            continue
        files = commits.all_live(table).behind([])
        table.take(commits.delta.altered(table.snapshot, version), position, files)
        return
