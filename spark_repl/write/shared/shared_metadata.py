"""Metadata of a Delta table of shards: its creation, further channels that join it, and columns
that one of its shards needs.

The first channel creates the table. Each other channel adds the columns that only its shard has,
and extends the retention of files to that of its cuts. Either is a commit with the channel's own
position, on the version that was read; if another channel commits first, the table is read again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...delta.files.delta_columns import Columns
from ...delta.log.retention_properties import shorter_properties
from ...delta.log.table_snapshot import NewTable
from ...errors import ConcurrentChangeError, TargetError
from ..files.commit import removed
from ..files.discard import discard
from .shard_tables import refresh_columns, union_metadata

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ...delta.log.log_replay import Action
    from ...delta.log.stamp import Stamp
    from ...delta.log.table_log import TableLog
    from ...delta.log.table_snapshot import NewTable, Snapshot
    from ...tables.target_table import TargetTable
    from ..tables.table import Table
    from ..tables.table_commits import TableCommits

    Rewrite = Callable[[NewTable], Sequence[Action]]

_TRIES = 100
SHARED = "spark_repl.shared"
"""property of a table that several channels feed"""


@dataclass(frozen=True)
class Joining:
    """How a channel's first shard joins a Delta table. ``shaped``: the shard; ``new``: the table's
    metadata if it does not exist; ``gone``: shards of which a copy that was given up may have left
    rows; ``hours``: retention of files; ``now_ms``: time of removals, in milliseconds."""

    shaped: TargetTable
    new: NewTable
    gone: Collection[str]
    hours: int
    now_ms: int


def make_or_join(delta: TableLog, folder: str, joining: Joining, stamp: Stamp) -> None:
    """Create the Delta table at ``folder``, or add a channel's shard to the table that another
    channel created. Raise TargetError, SettingError, and what a commit raises. After an error, a
    second call finds commits that succeeded."""
    if delta.snapshot(folder) is None:
        try:
            return delta.create(folder, _shared(joining.new), stamp)
        except ConcurrentChangeError:
            if delta.snapshot(folder) is None:
                raise
    for tries_left in reversed(range(_TRIES)):
        snapshot = delta.snapshot(folder)
        if snapshot is None:
            raise TargetError("the table is gone", table=joining.shaped.name, file=folder)
        _check(snapshot, joining.new, joining.shaped.name)
        try:
            return _join(delta, snapshot, joining, stamp)
        except ConcurrentChangeError:
            if not tries_left:
                raise
    return None


def left_over(
    columns: Columns, files: Mapping[str, Action], shards: Collection[str], now_ms: int
) -> list[Action]:
    """Return the actions that remove the files of ``shards`` among the Delta table's ``files``."""
    (name,) = columns.partitions
    physical = columns.physical[columns.names.index(name)]
    own = [a for a in files.values() if (a.get("partitionValues") or {}).get(physical) in shards]
    return [{"remove": removed(add, now_ms)} for add in own]


def _join(delta: TableLog, snapshot: Snapshot, joining: Joining, stamp: Stamp) -> None:
    """Commit what the table lacks for the shard, on the version ``snapshot``."""
    last_position, wider = (
        delta.last_txn(snapshot, stamp.app),
        _joined(snapshot, joining.shaped, joining.hours),
    )
    columns = Columns.of(snapshot.schema_string, snapshot.partition_columns)
    gone = left_over(columns, delta.files(snapshot), joining.gone, joining.now_ms)
    own = replace(stamp, position=max(stamp.position, last_position or 0))
    if wider is not None:
        delta.alter(snapshot, wider, gone, own)
    elif gone or last_position is None:
        delta.commit(snapshot, gone, own)


def _shared(new: NewTable) -> NewTable:
    return replace(new, configuration={**new.configuration, SHARED: "true"})


def _check(snapshot: Snapshot, new: NewTable, name: str) -> None:
    """Raise TargetError for a table that no channel created for several channels."""
    if not snapshot.has(SHARED) or snapshot.partition_columns != new.partition_columns:
        raise TargetError(
            "the Delta table at this path was not made to be fed by several channels",
            table=name,
            file=snapshot.folder,
            hint="move it away, or use another target",
        )


def _joined(snapshot: Snapshot, shaped: TargetTable, hours: int) -> NewTable | None:
    """Return the table's metadata with the shard's columns and a retention of at least ``hours``,
    None if it has both. Raise SettingError."""
    wider, longer = (
        union_metadata(snapshot, shaped, (), ()),
        shorter_properties(snapshot.configuration, hours),
    )
    if wider is None and not longer:
        return None
    metadata = wider or NewTable(
        snapshot.schema_string, snapshot.configuration, snapshot.partition_columns
    )
    return replace(metadata, configuration={**metadata.configuration, **longer})


def widen(
    commits: TableCommits,
    table: Table,
    shaped: TargetTable,
    siblings: Collection[Table],
    stamp: Stamp,
    rewrite: Rewrite | None = None,
) -> None:
    """Give the Delta table of ``table``, whose lock is held, the columns and types that the shard
    ``shaped`` needs.

    ``siblings``: the other shards; ``rewrite``: rewrites files if a column gets a wider type, and
    returns the actions. Without ``rewrite`` no column gets a wider type, unless the table has no
    files. If another channel that feeds the table commits first, the commit is tried again. Raise
    SettingError if a column's type does not hold the shard's values, and what a commit raises.
    """
    definitions = [sibling.definition for sibling in siblings]
    for tries_left in reversed(range(_TRIES)):
        commits.refresh(table)
        live = commits.all_live(table)
        widens = not table.is_shared and (rewrite is not None or not live.adds)
        new = union_metadata(table.snapshot, shaped, (), definitions, widens=widens)
        if new is None:
            return
        actions = list(rewrite(new)) if rewrite else []
        moves = stamp.app == commits.app
        # An XA branch that a user ended by hand may be after the place where the next group begins.
        position = max(stamp.position, table.position) if moves else table.position
        own = replace(stamp, position=position)
        table.delta.pending = position if moves else table.delta.pending
        planned = table.snapshot.version
        try:
            version = commits.delta.alter(table.snapshot, new, actions, own)
        except Exception as error:
            commits.refresh(table)
            if union_metadata(table.snapshot, shaped, (), definitions) is None:
                break
            new_files = [action["add"]["path"] for action in actions if "add" in action]
            discard(table.folder, new_files, tried_behind=planned)
            beaten = table.is_shared and isinstance(error, ConcurrentChangeError)
            if not beaten or not tries_left:
                raise
            continue
        # The files get a new origin: a commit that was planned on the old columns must not land.
        files = replace(live.after(actions), origin=object()) if actions else live.after([])
        table.update(commits.delta.advance(table.snapshot, version), position, files)
        break
    refresh_columns([table, *siblings])
