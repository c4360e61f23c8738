"""Columns of a Delta table after ALTER TABLE, and whether its data files have them as they are.

A column of a Delta table of shards may get a wider type because of one shard. The files of all
shards that have the column are then rewritten, in the commit that changes the type.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...alter.alteration import Altered, CarriedColumn
from ...config.renaming import shard_of, whole_of
from ...convert.lossless import widens
from ...delta.files import partitions
from ...delta.files.delta_columns import Columns
from ...delta.log.schema_change import altered as altered_metadata
from ...delta.log.schema_change import has_mapping
from ...delta.log.stamp import Stamp
from ...errors import BEGIN_AGAIN, OTHER_TARGET, SettingError, TargetError
from ..files.compaction import CompactTask
from ..files.key_index import hashes_alike
from ..shared.shard_tables import columns_of, stays_in_files, union_metadata
from ..shared.shared_metadata import widen
from ..tables.source_description import described
from ..tables.table_metadata import columns_of_all
from .altered_rows import AlterTask

if TYPE_CHECKING:
    import pyarrow as pa

    from ...delta.log.table_snapshot import NewTable
    from ...tables.target_table import TargetTable
    from ..tables.table import Table
    from ..tables.table_commits import TableCommits
    from ..tables.tracking import Tracking


def new_metadata(
    table: Table, altered: Altered[TargetTable], siblings: Iterable[Table]
) -> NewTable | None:
    """Return the new metadata of the Delta table, None if it does not change. ``siblings``: the
    other shards in it that belong to this channel. Raise SettingError."""
    if not table.is_shard:
        return own_metadata(table, altered)
    wanted, definitions = altered.definition, [shard.definition for shard in siblings]
    if table.is_shared:  # the columns of other channels are unknown: all columns stay
        _check_renamed(table, altered)
        return union_metadata(table.snapshot, wanted, (), definitions)
    kinds = {field.name.lower(): field.type for field in wanted.arrow_schema()}
    had = table.definition.arrow_schema()
    # A column that the statement does not change keeps its type in Delta.
    names = [field.name for field in had if kinds.get(field.name.lower()) != field.type]
    return union_metadata(table.snapshot, wanted, names, definitions, widens=True)


def add_columns_in_advance(
    commits: TableCommits, table: Table, altered: Altered[TargetTable], siblings: Sequence[Table]
) -> None:
    """Add the columns that the statement needs to a table that other channels also feed. After this
    commit, the statement's own commit can be repeated unchanged if other channels commit first.
    The table's lock is held. Raise SettingError, and what a commit raises."""
    if table.is_shared:
        _check_renamed(table, altered)
        stamp = Stamp(columns_of_all(commits.app), table.position, "{}")
        widen(commits, table, altered.definition, siblings, stamp)


def finds_columns(table: Table, altered: Altered[TargetTable], new: NewTable | None) -> bool:
    """Return whether the data files' columns can be found with the metadata after the statement."""
    if not table.is_shard:
        return _finds_own(table, altered)
    after = columns_after(table, altered.definition, new)
    schema = new.schema_string if new else table.snapshot.schema_string
    numbers = [o.number if isinstance(o, CarriedColumn) else None for o in altered.origins]
    return stays_in_files(table.columns, after, numbers, Columns.of(schema))


def already_wide(table: Table, altered: Altered[TargetTable]) -> frozenset[int]:
    """Return the numbers of the columns whose values a shard's data files already have in the new
    type, because the Delta table's type was wider than the shard's. A column of the key must have
    the same hashes in both types, because its index has these hashes."""
    wider, before = dict(table.columns.wider), table.definition.columns
    key = altered.definition.lookup_key
    return frozenset(
        number
        for number, (origin, column) in enumerate(
            zip(altered.origins, altered.definition.columns, strict=True)
        )
        if isinstance(origin, CarriedColumn)
        and origin.number in wider
        and widens(old := before[origin.number], column)
        and old.nullable <= column.nullable
        and old.auto_increment == column.auto_increment
        and (number not in key or hashes_alike(old.arrow_type, column.arrow_type))
    )


def columns_after(table: Table, definition: TargetTable, new: NewTable | None) -> Columns:
    """Return the table's columns after a change. ``new``: the Delta table's new metadata, None if
    it does not change."""
    snapshot = table.snapshot
    if new is not None:
        schema, by = new.schema_string, new.partition_columns
        snapshot = replace(snapshot, schema_string=schema, partition_columns=by)
    whole = Columns.of(snapshot.schema_string, snapshot.partition_columns)
    return columns_of(whole, definition) if table.is_shard else whole


def _check_renamed(table: Table, altered: Altered[TargetTable]) -> None:
    """Raise SettingError if the statement renames a column of a table that several channels
    feed."""
    before = table.definition.columns
    for origin, column in zip(altered.origins, altered.definition.columns, strict=True):
        if isinstance(origin, CarriedColumn):
            name = before[origin.number].name
            if name.lower() != column.name.lower():
                raise SettingError(
                    f"column {name} would be {column.name}, in one of the tables that"
                    f" {whole_of(table.name)} has",
                    table=table.name,
                    hint="several channels feed the table, and its columns only come: add a column"
                    " of the new name, and fill it by UPDATE, instead; now have all shards altered"
                    f" on the source, and {OTHER_TARGET}",
                )


def own_metadata(table: Table, altered: Altered[TargetTable]) -> NewTable:
    """Return the new metadata of a table that does not share its Delta table."""
    before, numbers = table.definition, _kept_numbers(table.definition, altered)
    schema, partitions = altered.definition.arrow_schema(), _partitions(table, altered)
    new = altered_metadata(table.snapshot, schema, numbers, partitions)
    return described(new, altered.definition, before, numbers)


def _kept_numbers(before: TargetTable, altered: Altered[TargetTable]) -> list[int | None]:
    """Return, for each column, the number of the previous column whose data it has; None: its data
    is new."""
    return [
        origin.number
        if isinstance(origin, CarriedColumn)
        and before.columns[origin.number].arrow_type == column.arrow_type
        else None
        for origin, column in zip(altered.origins, altered.definition.columns, strict=True)
    ]


def _finds_own(table: Table, altered: Altered[TargetTable]) -> bool:
    """Return whether the data files' columns are found by their names. With column mapping they
    always are. Without it, no column may be renamed, and none dropped: its name might be used
    again."""
    if has_mapping(table.snapshot.configuration):
        return True
    numbers = _kept_numbers(table.definition, altered)
    names = [
        (table.definition.columns[number].name, column.name)
        for number, column in zip(numbers, altered.definition.columns, strict=True)
        if number is not None
    ]
    return len(names) == len(table.definition.columns) and all(a == b for a, b in names)


def _partitions(table: Table, altered: Altered[TargetTable]) -> list[str]:
    """Return the present names of the columns by which the table is partitioned. Raise SettingError
    if one is dropped, or changes its type."""
    names = []
    for name in table.columns.partitions:
        number = table.columns.names.index(name)
        numbers = _kept_numbers(table.definition, altered)
        if number not in numbers:
            raise SettingError(
                f"column {name} goes, or changes its type, by which the table is partitioned",
                table=table.name,
                hint="take it out of target.partition_by, and copy the table again: spark-repl"
                " snapshot --config F --table DB.T",
            )
        names.append(altered.definition.columns[numbers.index(number)].name)
    partitions.check(altered.definition, tuple(names))
    return names


@dataclass(frozen=True)
class SameRows:
    """Rows that are rewritten unchanged."""

    def columns(self, arrays: Sequence[pa.Array]) -> list[pa.Array]:
        return list(arrays)


def moves_columns(table: Table, new: NewTable) -> bool:
    """Return whether files must be rewritten for the ``new`` metadata of the table's Delta
    table."""
    return not {*table.all_columns.physical} <= {*Columns.of(new.schema_string).physical}


def needs_wider_types(shards: Sequence[Table], shaped: TargetTable) -> bool:
    """Return whether files of the ``shards`` must be rewritten for a new shard, ``shaped``. Raise
    SettingError if no type holds the values of both."""
    definitions = [shard.definition for shard in shards]
    new = union_metadata(shards[0].snapshot, shaped, (), definitions, widens=True)
    return new is not None and moves_columns(shards[0], new)


def rewrite_tasks(
    tracking: Tracking, table: Table, shards: Sequence[Table], new: NewTable
) -> list[AlterTask]:
    """Return the tasks that rewrite the files of those ``shards``, in the Delta table of ``table``,
    whose columns change with the ``new`` metadata. The table's lock is held. Raise TargetError if a
    file belongs neither to one of them nor to ``table``, because its columns are unknown."""
    by_name = {shard.name: shard for shard in reversed(shards)}
    _check_known(tracking.commits, table, {shard_of(table.name), *map(shard_of, by_name)})
    whole, tasks = Columns.of(new.schema_string, new.partition_columns), list[AlterTask]()
    for shard in by_name.values():
        changed = replace(shard, columns=columns_of(whole, shard.definition))
        if changed.columns.physical == shard.columns.physical:
            continue
        to = CompactTask.of(changed, tracking.key_folder(changed), ())
        folder = tracking.key_folder(shard)
        tasks += [
            AlterTask(CompactTask.of(shard, folder, (file,)), to, SameRows())
            for file in tracking.commits.live_files(shard)
        ]
    return tasks


def _check_known(commits: TableCommits, table: Table, shards: set[str]) -> None:
    """Raise TargetError if a file belongs to none of the ``shards``."""
    column = table.columns.physical[table.definition.shard_column]
    live = commits.all_live(table)
    unknown = [str(name) for name in table.delta.shared(live, column) if name not in shards]
    if unknown:
        raise TargetError(
            f"the table has rows of shards that are not known: {', '.join(sorted(unknown))}",
            table=table.name,
            file=table.folder,
            hint=f"report this, and {OTHER_TARGET if table.is_shared else BEGIN_AGAIN}",
        )
