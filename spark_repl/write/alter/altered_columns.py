"""Columns of a Delta table after ALTER TABLE, and whether its data files have them as they are.

A column of a Delta table of shards may get a wider type because of one shard. The files of all
shards that have the column are then rewritten, in the commit that changes the type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...alter.alteration import Altered, CarriedColumn
from ...config.renaming import shard_of, whole_of
from ...convert.lossless import widens
from ...delta import partitions
from ...delta.columns import Columns
from ...delta.schema_change import altered as altered_metadata
from ...delta.schema_change import has_mapping
from ...delta.stamp import Stamp
from ...errors import BEGIN_AGAIN, OTHER_TARGET, SettingError, TargetError
from ...rules.metadata_columns import shard_column
from ..files.compaction import CompactTask
from ..files.key_index import hashes_alike
from ..shared.shard_tables import columns_of, others_of, stays_in_files, union
from ..shared.shared_metadata import widen
from ..tables.table_metadata import columns_of_all
from .altered_rows import AlterTask

if TYPE_CHECKING:
    import pyarrow as pa

    from ...delta.snapshot import NewTable
    from ...tables.table_definition import TableDefinition
    from ..tables.table import Table
    from ..tables.tracking import Tracking


def metadata(tracking: Tracking, table: Table, altered: Altered) -> NewTable | None:
    """What becomes of the Delta table's metadata; None where it stays. Raises SettingError."""
    if not table.is_shard:
        return own_metadata(table, altered)
    wanted, others = altered.definition, _definitions(tracking, table)
    if table.is_shared:  # what other channels have is not known: all columns stay as they are
        _check_renamed(table, altered)
        return union(table.snapshot, wanted, (), others)
    kinds = {field.name.lower(): field.type for field in wanted.arrow_schema()}
    had = table.definition.arrow_schema()
    # One that stays what it is has no narrower type behind a statement about others.
    names = [field.name for field in had if kinds.get(field.name.lower()) != field.type]
    return union(table.snapshot, wanted, names, others, widens=True)


def bring_columns(tracking: Tracking, table: Table, altered: Altered) -> None:
    """Gives a table that other channels feed, too, the columns that the statement brings, in a
    commit before its own: that one can wait behind others' then as it is. The table's lock is held.
    Raises SettingError, and what a commit raises."""
    if table.is_shared:
        _check_renamed(table, altered)
        stamp = Stamp(columns_of_all(tracking.app), table.position, "{}")
        others = others_of(table, tracking.all_tables())
        widen(tracking.commits, table, altered.definition, others, stamp)


def _definitions(tracking: Tracking, table: Table) -> list[TableDefinition]:
    """Those of the other shards in its Delta table, as far as they are this channel's."""
    return [one.definition for one in others_of(table, tracking.all_tables())]


def finds_columns(table: Table, altered: Altered, new: NewTable | None) -> bool:
    """Whether the data files' columns are found where they are, by what the statement makes of the
    Delta table's metadata."""
    if not table.is_shard:
        return _finds_own(table, altered)
    after = columns_behind(table, altered.definition, new)
    schema = new.schema_string if new else table.snapshot.schema_string
    kept = [one.number if isinstance(one, CarriedColumn) else None for one in altered.origins]
    return stays_in_files(table.columns, after, kept, Columns.of(schema))


def held_wide(table: Table, altered: Altered) -> frozenset[int]:
    """Numbers of the columns behind the statement whose values a shard's data files have as they
    become, as the Delta table's type is wider than the shard's was. A key has to have the hashes
    that are in its index."""
    wider, before = dict(table.columns.wider), table.definition.columns
    key = altered.definition.sought_key
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


def columns_behind(table: Table, definition: TableDefinition, new: NewTable | None) -> Columns:
    """The table's columns behind a change; ``new``: what it makes of the Delta table's metadata."""
    there = table.snapshot
    if new is not None:
        schema, by = new.schema_string, new.partition_columns
        there = replace(there, schema_string=schema, partition_columns=by)
    whole = Columns.of(there.schema_string, there.partition_columns)
    return columns_of(whole, definition) if table.is_shard else whole


def _check_renamed(table: Table, altered: Altered) -> None:
    """Raises SettingError where a column gets another name, in a table of several channels."""
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


def own_metadata(table: Table, altered: Altered) -> NewTable:
    """The same of a table that is alone in its Delta table."""
    return altered_metadata(
        table.snapshot,
        altered.definition.arrow_schema(),
        _kept(table.definition, altered),
        _partitions(table, altered),
    )


def _kept(before: TableDefinition, altered: Altered) -> list[int | None]:
    """For each column the number of the one before whose data it is; None: its data is new."""
    return [
        origin.number
        if isinstance(origin, CarriedColumn)
        and before.columns[origin.number].arrow_type == column.arrow_type
        else None
        for origin, column in zip(altered.origins, altered.definition.columns, strict=True)
    ]


def _finds_own(table: Table, altered: Altered) -> bool:
    """Whether the data files' columns are found by what they are called then: with column mapping
    always; without it where none gets another name, and none goes, whose name might come again."""
    if has_mapping(table.snapshot.configuration):
        return True
    kept = _kept(table.definition, altered)
    names = [
        (table.definition.columns[number].name, column.name)
        for number, column in zip(kept, altered.definition.columns, strict=True)
        if number is not None
    ]
    return len(names) == len(table.definition.columns) and all(a == b for a, b in names)


def _partitions(table: Table, altered: Altered) -> list[str]:
    """The names that the columns have now by which the table is partitioned. Raises StatementError
    where one goes, or changes its type."""
    names = []
    for name in table.columns.partitions:
        number = table.columns.names.index(name)
        kept = _kept(table.definition, altered)
        if number not in kept:
            raise SettingError(
                f"column {name} goes, or changes its type, by which the table is partitioned",
                table=table.name,
                hint="take it out of target.partition_by, and copy the table again: spark-repl"
                " snapshot --config F --table DB.T",
            )
        names.append(altered.definition.columns[kept.index(number)].name)
    partitions.check(altered.definition, tuple(names))
    return names


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
