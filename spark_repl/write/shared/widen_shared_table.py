"""WiderTable: a Delta table of shards is given what one of them needs: columns that no one else
has, and types that hold its values, too."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...errors import ConcurrentChangeError
from ..files.discard import discard
from .shard_columns import look_again, union

if TYPE_CHECKING:
    from ...delta.log_replay import Action
    from ...delta.snapshot import NewTable
    from ...delta.stamp import Stamp
    from ...tables.table_definition import TableDefinition
    from ..tables.table import Table
    from ..tables.table_commits import TableCommits

    Rewrite = Callable[[NewTable], Sequence[Action]]

_TRIES = 100


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
