"""Columns of a Delta table that become others, of a wider type, by what comes to one of its shards:
the files of all that have them are written anew, in the commit that makes them so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...config.renaming import shard_of
from ...delta.columns import Columns
from ...errors import BEGIN_AGAIN, OTHER_TARGET, TargetError
from ...rules.metadata_columns import shard_column
from ..files.compaction import CompactTask
from ..shared.shard_columns import columns_of, union
from .altered_rows import AlterTask

if TYPE_CHECKING:
    import pyarrow as pa

    from ...delta.snapshot import NewTable
    from ...tables.table_definition import TableDefinition
    from ..tables.table import Table
    from ..tables.tracking import Tracking


@dataclass(frozen=True)
class SameRows:
    """Rows that are written anew as they are."""

    def columns(self, arrays: Sequence[pa.Array]) -> list[pa.Array]:
        return list(arrays)


def moves_columns(table: Table, new: NewTable) -> bool:
    """Whether files have to be written anew for the ``new`` metadata of the table's Delta table."""
    return not {*table.all_columns.physical} <= {*Columns.of(new.schema_string).physical}


def needs_room(shards: Sequence[Table], shaped: TableDefinition) -> bool:
    """Whether files of the ``shards`` have to be written anew for one that is ``shaped`` so. Raises
    SettingError where no type holds the values of both."""
    definitions = [one.definition for one in shards]
    new = union(shards[0].snapshot, shaped, (), definitions, widens=True)
    return new is not None and moves_columns(shards[0], new)


def rewritten(
    tracking: Tracking, table: Table, shards: Sequence[Table], new: NewTable
) -> list[AlterTask]:
    """What writes the files anew of those ``shards`` in the Delta table of ``table`` of which
    columns are others behind the ``new`` metadata. The table's lock is held. Raises TargetError for
    files that are of none of them, nor of ``table``: nobody knows what their columns are."""
    by_name = {one.name: one for one in reversed(shards)}
    _check_known(tracking, table, {shard_of(table.name), *map(shard_of, by_name)})
    whole, tasks = Columns.of(new.schema_string, new.partition_columns), list[AlterTask]()
    for one in by_name.values():
        there = replace(one, columns=columns_of(whole, one.definition))
        if there.columns.physical == one.columns.physical:
            continue
        to = CompactTask.of(there, tracking.key_folder(there), ())
        folder = tracking.key_folder(one)
        tasks += [
            AlterTask(CompactTask.of(one, folder, (file,)), to, SameRows())
            for file in tracking.commits.live_files(one)
        ]
    return tasks


def _check_known(tracking: Tracking, table: Table, shards: set[str]) -> None:
    """Raises TargetError where there are files of none of the ``shards``."""
    column = table.columns.physical[shard_column(table.definition)]
    live = tracking.commits.all_live(table)
    unknown = [str(one) for one in table.delta.shared(live, column) if one not in shards]
    if unknown:
        raise TargetError(
            f"the table has rows of shards that are not known: {', '.join(sorted(unknown))}",
            table=table.name,
            file=table.folder,
            hint=f"report this, and {OTHER_TARGET if table.is_shared else BEGIN_AGAIN}",
        )
