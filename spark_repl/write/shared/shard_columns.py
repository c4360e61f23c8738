"""Columns of a Delta table that many tables of the source are in: each shard has some of them.

A column is the same for all shards that have one of its name, in any case. Its type in Delta holds
the values of each: the shards' own may be narrower. It gets no narrower while two shards have it.
No data file of a shard holds a column that the shard has not.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ...config.renaming import whole_of
from ...delta.columns import Columns, delta_type, field_json, plain
from ...delta.common_type import common_type
from ...delta.schema_change import ColumnIds, featured
from ...delta.snapshot import NewTable
from ...errors import ALL_SHARDS, SettingError
from ...rules.metadata_columns import shard_column

if TYPE_CHECKING:
    from ...delta.snapshot import Snapshot
    from ...tables.table_definition import TableDefinition
    from ..tables.table import Table

HINT = (
    "the type that a column has in the table which the shards share has to hold every shard's"
    " values (a new column that UPDATE fills, and DROP COLUMN of this one, come through shard by"
    f" shard): have all shards altered on the source, and {ALL_SHARDS}"
)


def check_alike(definitions: Iterable[TableDefinition]) -> None:
    """Raises SettingError with all columns of which shards that are to be in one Delta table have
    types that none holds. ``definitions``: as the target's tables have them."""
    kinds, faults = dict[tuple[str, str], tuple[str, Any]](), list[str]()
    for one in definitions:
        whole = whole_of(one.name)
        for field in one.arrow_schema() if shard_column(one) >= 0 else ():
            mine, name = plain(delta_type(field.type)), field.name
            other, kind = kinds.setdefault((whole, name.lower()), (one.name, mine))
            wider = mine if kind == mine else common_type(kind, mine)
            if wider is None:
                faults.append(f"column {name} is {kind} in {other} and {mine} in {one.name}")
            elif wider != kind:
                kinds[whole, name.lower()] = one.name, wider
    if faults:
        raise SettingError("; ".join(faults), hint=HINT)


def columns_of(whole: Columns, definition: TableDefinition) -> Columns:
    """Those of the ``whole`` Delta table that a shard has, in the shard's order, under its names.
    One that is not there any more is of a shard that has gone, behind the place that is applied."""
    numbers = {name.lower(): number for number, name in enumerate(whole.names)}
    schema = definition.arrow_schema()
    at = [numbers.get(name.lower(), -1) for name in schema.names]
    own = [json.dumps(delta_type(field.type)) for field in schema]
    wider = {
        i: json.loads(whole.types[n])
        for i, n in enumerate(at)
        if n >= 0 and _widens(json.loads(own[i]), json.loads(whole.types[n]))
    }
    theirs = [whole.types[n] if n >= 0 and i not in wider else own[i] for i, n in enumerate(at)]
    return Columns(
        tuple(schema.names),
        tuple(whole.physical[n] if n >= 0 else schema.names[i] for i, n in enumerate(at)),
        tuple(whole.ids[n] if n >= 0 else None for n in at),
        tuple(theirs),
        whole.partitions,
        tuple(wider.items()),
    )


def look_again(tables: Iterable[Table]) -> None:
    """Takes in where the columns of shards are in their Delta table, which one has changed."""
    for one in tables:
        if one.is_shard:
            one.columns = columns_of(one.all_columns, one.definition)


def union(
    before: Snapshot,
    definition: TableDefinition,
    had: Iterable[str],
    others: Collection[TableDefinition],
    *,
    widens: bool = False,
) -> NewTable | None:
    """The Delta table's metadata with the columns of a shard's ``definition``; ``had``: the names
    of those that it had and has not as they were, ``others``: the other shards' definitions;
    ``widens``: whether a column may get a wider type, as another one of that name: all files that
    have it are to be written anew then. None where nothing changes.

    Raises SettingError where one that the shard did not have alone does not hold its values."""
    wanted = {field.name.lower(): field for field in definition.arrow_schema()}
    held = {column.name.lower(): one.name for one in others for column in one.columns}
    own = {name.lower() for name in had} - held.keys()
    configuration = dict(before.configuration)
    ids, made = ColumnIds(configuration), list[dict[str, Any]]()
    fields: list[dict[str, Any]] = json.loads(before.schema_string)["fields"]
    for field in fields:
        name = field["name"].lower()
        new = wanted.pop(name, None)
        if new is None:
            made += [] if name in own else [field]
            continue
        there, kind = plain(field["type"]), plain(delta_type(new.type))
        wider = kind if name in own or there == kind else common_type(there, kind)
        if wider is None or not (widens or wider == there or name in own):
            raise _unlike(definition, field, held.get(name, "another shard"), kind)
        if wider == there:
            made.append(field)
        elif name in own:
            made.append(_new(ids, field_json(new)))
        else:
            made.append(_new(ids, {**field_json(new), "name": field["name"], "type": wider}))
    made += [_new(ids, field_json(field)) for field in wanted.values()]
    if made == fields:
        return None
    featured(configuration, before, made)
    ids.keep(configuration)
    schema = json.dumps({"type": "struct", "fields": made})
    return NewTable(schema, configuration, before.partition_columns)


def stays_in_files(
    before: Columns, after: Columns, kept: Sequence[int | None], whole: Columns
) -> bool:
    """Whether a shard's data files may stay as they are, with its columns from ``before`` on
    ``after``. ``kept`` [after]: the number of the column before whose values it has, None of a new
    one. Each is found where it was, a new one nowhere, and none that has gone is one of the
    ``whole`` table's still."""
    there = all(
        physical not in before.physical if number is None else before.physical[number] == physical
        for number, physical in zip(kept, after.physical, strict=True)
    )
    left = {*before.physical} - {*after.physical}
    return there and left.isdisjoint(whole.physical)


def _widens(own: Any, there: Any) -> bool:
    """Whether a shard's type is another one than the Delta table's, which holds its values."""
    own, there = plain(own), plain(there)
    return bool(own != there and common_type(own, there) == there)


def _new(ids: ColumnIds, field: dict[str, Any]) -> dict[str, Any]:
    """Some shards have NULL in it."""
    return {**ids.given(field), "nullable": True}


def _unlike(
    definition: TableDefinition, field: dict[str, Any], other: str, kind: Any
) -> SettingError:
    return SettingError(
        f"column {field['name']} is {field['type']} in {whole_of(definition.name)}, with {other},"
        f" and would be {kind}",
        table=definition.name,
        hint=HINT,
    )
