"""JoinedTable: a Delta table that several channels feed, as one of them comes to it.

The first one makes it, all others give it the columns that their shard has and no one else, and
keep its files for as long as they promise their cuts. Either is a commit with the channel's own
position, on the version that was looked at, or another look.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...delta.columns import Columns
from ...delta.snapshot import NewTable
from ...errors import ConcurrentChangeError, TargetError
from ..files.commit import removed
from ..upkeep.file_retention import shorter
from .shard_columns import union

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ...delta.log_replay import Action
    from ...delta.snapshot import Snapshot
    from ...delta.stamp import Stamp
    from ...delta.table_log import TableLog
    from ...tables.table_definition import TableDefinition

_TRIES = 100
SHARED = "spark_repl.shared"
"""property of a table that several channels feed"""


@dataclass(frozen=True)
class Joining:
    """``shaped``: a channel's first shard in a Delta table; ``new``: how that is made where it is
    not there; ``gone``: shards of which a copy that was given up may have left rows; ``hours``: for
    how long files stay; ``now_ms``: when files are retired."""

    shaped: TableDefinition
    new: NewTable
    gone: Collection[str]
    hours: int
    now_ms: int


def make_or_join(delta: TableLog, folder: str, one: Joining, stamp: Stamp) -> None:
    """Makes the Delta table at ``folder``, or brings a channel's shard into the one that another
    channel has made. Raises TargetError, SettingError, and what a commit raises: called again it
    finds what has landed."""
    if delta.snapshot(folder) is None:
        try:
            return delta.create(folder, _shared(one.new), stamp)
        except ConcurrentChangeError:
            if delta.snapshot(folder) is None:
                raise
    for left in reversed(range(_TRIES)):
        there = delta.snapshot(folder)
        if there is None:
            raise TargetError("the table is gone", table=one.shaped.name, file=folder)
        _check(there, one.new, one.shaped.name)
        try:
            return _join(delta, there, one, stamp)
        except ConcurrentChangeError:
            if not left:
                raise
    return None


def left_over(
    columns: Columns, files: Mapping[str, Action], shards: Collection[str], now_ms: int
) -> list[Action]:
    """What removes the files of ``shards``, of all of the Delta table's ``files``."""
    (name,) = columns.partitions
    physical = columns.physical[columns.names.index(name)]
    own = [a for a in files.values() if (a.get("partitionValues") or {}).get(physical) in shards]
    return [{"remove": removed(add, now_ms)} for add in own]


def _join(delta: TableLog, there: Snapshot, one: Joining, stamp: Stamp) -> None:
    """Commits what the table lacks for the shard, behind the version ``there``."""
    held, wider = delta.last_txn(there, stamp.app), _joined(there, one.shaped, one.hours)
    columns = Columns.of(there.schema_string, there.partition_columns)
    gone = left_over(columns, delta.files(there), one.gone, one.now_ms)
    own = replace(stamp, position=max(stamp.position, held or 0))
    if wider is not None:
        delta.alter(there, wider, gone, own)
    elif gone or held is None:
        delta.commit(there, gone, own)


def _shared(new: NewTable) -> NewTable:
    return replace(new, configuration={**new.configuration, SHARED: "true"})


def _check(there: Snapshot, new: NewTable, name: str) -> None:
    """Raises TargetError for a table that no channel has made to be fed by several."""
    if not there.has(SHARED) or there.partition_columns != new.partition_columns:
        raise TargetError(
            "the Delta table at this path was not made to be fed by several channels",
            table=name,
            file=there.folder,
            hint="move it away, or use another target",
        )


def _joined(there: Snapshot, shaped: TableDefinition, hours: int) -> NewTable | None:
    """The table's metadata with the shard's columns, and files that stay for so long; None: it has
    both. Raises SettingError."""
    wider, longer = union(there, shaped, (), ()), shorter(there.configuration, hours)
    if wider is None and not longer:
        return None
    made = wider or NewTable(there.schema_string, there.configuration, there.partition_columns)
    return replace(made, configuration={**made.configuration, **longer})
