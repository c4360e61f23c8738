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

from ...delta.columns import Columns
from ...delta.snapshot import NewTable
from ...errors import ConcurrentChangeError, TargetError
from ..files.commit import removed
from ..files.discard import discard
from ..upkeep.file_retention import shorter
from .shard_tables import look_again, union

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ...delta.log_replay import Action
    from ...delta.snapshot import NewTable, Snapshot
    from ...delta.stamp import Stamp
    from ...delta.table_log import TableLog
    from ...tables.table_definition import TableDefinition
    from ..tables.table import Table
    from ..tables.table_commits import TableCommits

    Rewrite = Callable[[NewTable], Sequence[Action]]

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


def widen(
    commits: TableCommits,
    table: Table,
    shaped: TableDefinition,
    others: Collection[Table],
    stamp: Stamp,
    rewrite: Rewrite | None = None,
) -> None:
    """Gives the Delta table of ``table``, whose lock is held, what a shard needs that is ``shaped``
    so; ``others``: the other shards; ``rewrite``: what writes files anew where a column gets a
    wider type, and returns the actions for it: without it none does, unless there are no files.
    Where another channel that feeds the table comes first it is tried again. Raises SettingError
    where a column's type does not hold the shard's values, and what a commit raises."""
    definitions = [one.definition for one in others]
    for left in reversed(range(_TRIES)):
        commits.refresh(table)
        live = commits.all_live(table)
        widens = not table.is_shared and (rewrite is not None or not live.adds)
        new = union(table.snapshot, shaped, (), definitions, widens=widens)
        if new is None:
            return
        actions = list(rewrite(new)) if rewrite else []
        moves = stamp.app == commits.app
        # An XA branch that was ended by hand is behind the place where the next group begins.
        position = max(stamp.position, table.position) if moves else table.position
        own = replace(stamp, position=position)
        table.delta.pending = position if moves else table.delta.pending
        planned = table.snapshot.version
        try:
            version = commits.delta.alter(table.snapshot, new, actions, own)
        except Exception as error:
            commits.refresh(table)
            if union(table.snapshot, shaped, (), definitions) is None:
                break
            made = [action["add"]["path"] for action in actions if "add" in action]
            discard(table.folder, made, tried_behind=planned)
            beaten = table.is_shared and isinstance(error, ConcurrentChangeError)
            if not beaten or not left:
                raise
            continue
        # Of another origin: what was planned on the columns before must not land.
        files = replace(live.behind(actions), origin=object()) if actions else live.behind([])
        table.take(commits.delta.advance(table.snapshot, version), position, files)
        break
    look_again([table, *others])
