"""Columns of a Delta table that many tables of the source are in: each shard has some of them.

A column is the same for all shards that have one of its name, in any case, and of its type in
Delta. No data file of a shard holds a column that the shard has not.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from ..config.renaming import whole_of
from ..ddl.extra_columns import shard_column
from ..delta.columns import Columns, delta_type, field_json, plain
from ..delta.schema_change import ColumnIds, featured
from ..delta.table_log import NewTable
from ..errors import SettingError

if TYPE_CHECKING:
    from ..binlog.definition import TableDefinition
    from ..delta.table_log import Snapshot

HINT = (
    "a column of one name is of one type in the table that the shards share: give the shards the"
    " same definition, leave the statement out (spark-repl skip) or the shard by [filters], or copy"
    " all tables into an empty target"
)


def check_alike(definitions: Iterable[TableDefinition]) -> None:
    """Raises SettingError with all columns of which shards that are to be in one Delta table have
    different types there. ``definitions``: as the target's tables have them."""
    kinds, faults = dict[tuple[str, str], tuple[str, Any]](), list[str]()
    for one in definitions:
        whole = whole_of(one.name)
        for field in one.arrow_schema() if shard_column(one) >= 0 else ():
            mine, name = delta_type(field.type), field.name
            other, kind = kinds.setdefault((whole, name.lower()), (one.name, mine))
            if plain(kind) != plain(mine):
                faults.append(f"column {name} is {kind} in {other} and {mine} in {one.name}")
    if faults:
        raise SettingError("; ".join(faults), hint=HINT)


def columns_of(whole: Columns, definition: TableDefinition) -> Columns:
    """Those of the ``whole`` Delta table that a shard has, in the shard's order, under its names.
    One that is not there any more is of a shard that has gone, behind the place that is applied."""
    numbers = {name.lower(): number for number, name in enumerate(whole.names)}
    schema = definition.arrow_schema()
    at = [numbers.get(name.lower(), -1) for name in schema.names]
    own = [json.dumps(delta_type(field.type)) for field in schema]
    return Columns(
        tuple(schema.names),
        tuple(whole.physical[n] if n >= 0 else schema.names[i] for i, n in enumerate(at)),
        tuple(whole.ids[n] if n >= 0 else None for n in at),
        tuple(whole.types[n] if n >= 0 else own[i] for i, n in enumerate(at)),
        whole.partitions,
    )


def union(
    before: Snapshot,
    definition: TableDefinition,
    had: Iterable[str],
    others: Collection[TableDefinition],
) -> NewTable | None:
    """The Delta table's metadata with the columns of a shard's ``definition``; ``had``: the names
    of those that it had, ``others``: the other shards' definitions. None where nothing changes.

    Raises SettingError where one that the shard did not have alone is of another type there."""
    wanted = {field.name.lower(): field for field in definition.arrow_schema()}
    held = {column.name.lower(): one.name for one in others for column in one.columns}
    own = {name.lower() for name in had} - held.keys()
    configuration = dict(before.configuration)
    ids, made = ColumnIds(configuration), list[dict[str, Any]]()
    fields: list[dict[str, Any]] = json.loads(before.schema_string)["fields"]
    for field in fields:
        name = field["name"].lower()
        new = wanted.pop(name, None)
        if new is not None and plain(field["type"]) != plain(delta_type(new.type)):
            if name not in own:
                other = held.get(name, "a shard that was dropped")
                raise _unlike(definition, field, other, delta_type(new.type))
            made.append(_new(ids, new))
        elif new is not None or name not in own:
            made.append(field)
    made += [_new(ids, field) for field in wanted.values()]
    if made == fields:
        return None
    featured(configuration, before, made)
    ids.keep(configuration)
    schema = json.dumps({"type": "struct", "fields": made})
    return NewTable(schema, configuration, before.partition_columns)


def stays_in_files(before: Columns, after: Columns, whole: Columns) -> bool:
    """Whether a shard's data files may stay as they are, with its columns from ``before`` on
    ``after``: each is found where it was, and none that has gone is one of the ``whole`` table's
    still."""
    had = dict(zip(map(str.lower, before.names), before.physical, strict=True))
    pairs = zip(map(str.lower, after.names), after.physical, strict=True)
    left = {*before.physical} - {*after.physical}
    there = all(had.get(name, physical) == physical for name, physical in pairs)
    return there and left.isdisjoint(whole.physical)


def _new(ids: ColumnIds, field: Any) -> dict[str, Any]:
    """Other shards have NULL in it."""
    return {**ids.given(field_json(field)), "nullable": True}


def _unlike(
    definition: TableDefinition, field: dict[str, Any], other: str, kind: Any
) -> SettingError:
    return SettingError(
        f"column {field['name']} is {field['type']} in {whole_of(definition.name)}, by {other}, and"
        f" would be {kind}",
        table=definition.name,
        hint=HINT,
    )
