"""Columns of a Delta table behind ALTER TABLE, and whether its data files have them as they are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..config.renaming import whole_of
from ..ddl.alteration import Altered, KeptColumn
from ..delta import partitions
from ..delta.columns import Columns
from ..delta.schema_change import altered as altered_metadata
from ..delta.schema_change import has_mapping
from ..delta.stamp import Stamp
from ..errors import SettingError
from .app_ids import columns_of_all
from .shard_columns import HINT, columns_of, stays_in_files, union
from .shards import beside
from .wider_table import widen

if TYPE_CHECKING:
    from ..binlog.definition import TableDefinition
    from ..delta.table_log import NewTable
    from .table import Table
    from .tracking import Tracking


def metadata(tracking: Tracking, table: Table, altered: Altered) -> NewTable | None:
    """What becomes of the Delta table's metadata; None where it stays. Raises SettingError."""
    if not table.is_shard:
        return own_metadata(table, altered)
    _check_renamed(table, altered)
    # What other channels have that feed the table, too, is not known: all columns stay.
    names = [] if table.is_shared else table.definition.arrow_schema().names
    return union(table.snapshot, altered.definition, names, _others(tracking, table))


def bring_columns(tracking: Tracking, table: Table, altered: Altered) -> None:
    """Gives a table that other channels feed, too, the columns that the statement brings, in a
    commit before its own: that one can wait behind others' then as it is. The table's lock is held.
    Raises SettingError, and what a commit raises."""
    if table.is_shared:
        _check_renamed(table, altered)
        stamp = Stamp(columns_of_all(tracking.app), table.position, "{}")
        others = _others(tracking, table)
        widen(tracking.commits, table, altered.definition, others, stamp)


def _others(tracking: Tracking, table: Table) -> list[TableDefinition]:
    """The definitions of the other shards in its Delta table, as far as they are this channel's."""
    others = [
        one for one in beside(table.name, tracking.all_tables()) if one.folder == table.folder
    ]
    # Behind a crash its CREATE may come again, which finds it there a second time.
    return [one.definition for one in others if one.path != table.path]


def finds_columns(tracking: Tracking, table: Table, altered: Altered) -> bool:
    """Whether the data files' columns are found where they are."""
    if not table.is_shard:
        return _finds_own(table, altered)
    new = metadata(tracking, table, altered)
    after = columns_behind(table, altered.definition, new)
    schema = new.schema_string if new else table.snapshot.schema_string
    had = {name.lower() for name in table.columns.names}
    again = any(
        column.name.lower() in had and not isinstance(origin, KeptColumn)
        for origin, column in zip(altered.origins, altered.definition.columns, strict=True)
    )
    return not again and stays_in_files(table.columns, after, Columns.of(schema))


def columns_behind(table: Table, definition: TableDefinition, new: NewTable | None) -> Columns:
    """The table's columns behind a change; ``new``: what it makes of the Delta table's metadata."""
    there = table.snapshot
    if new is not None:
        schema, by = new.schema_string, new.partition_columns
        there = replace(there, schema_string=schema, partition_columns=by)
    whole = Columns.of(there.schema_string, there.partition_columns)
    return columns_of(whole, definition) if table.is_shard else whole


def _check_renamed(table: Table, altered: Altered) -> None:
    """Raises SettingError where a column gets another name: others may have it under its own."""
    before = table.definition.columns
    for origin, column in zip(altered.origins, altered.definition.columns, strict=True):
        if isinstance(origin, KeptColumn):
            name = before[origin.number].name
            if name.lower() != column.name.lower():
                raise SettingError(
                    f"column {name} would be {column.name}, in one of the tables that"
                    f" {whole_of(table.name)} has",
                    table=table.name,
                    hint=HINT,
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
        if isinstance(origin, KeptColumn)
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
                hint="target.partition_by names it: copy the table anew without it (spark-repl"
                " snapshot --table)",
            )
        names.append(altered.definition.columns[kept.index(number)].name)
    partitions.check(altered.definition, tuple(names))
    return names
