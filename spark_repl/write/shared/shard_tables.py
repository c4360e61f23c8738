"""Shards: tables of the source that are in one Delta table, each with its own data files there.

Each shard has some of the Delta table's columns. A column belongs to all shards that have one of
its name, compared without case. The type in Delta holds the values of each shard; a shard's own
type may be narrower. The Delta type gets no narrower while two shards have the column. A data file
of a shard holds only the shard's columns.
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
from ...errors import (
    ALL_SHARDS,
    BEGIN_AGAIN,
    OTHER_TARGET,
    SettingError,
    StatementError,
    TargetError,
)
from ...rules.metadata_columns import shard_column
from ...sql.policy import Policy

if TYPE_CHECKING:
    from ...control.table.cut import TableVersion
    from ...delta.snapshot import Snapshot
    from ...tables.table_definition import TableDefinition
    from ..tables.table import Table

_COPY = f"a shard is not copied by itself: leave it out by [filters], or {BEGIN_AGAIN}"


def beside(name: str, tables: Iterable[Table]) -> list[Table]:
    """Those of the ``tables`` that are in the Delta table which the shard ``name`` is to be in."""
    whole = whole_of(name)
    return [one for one in tables if one.is_shard and whole_of(one.name) == whole]


def others_of(shard: Table, tables: Iterable[Table]) -> list[Table]:
    """Those of the ``tables`` that are other shards in its Delta table."""
    others = [one for one in beside(shard.name, tables) if one.folder == shard.folder]
    # Behind a crash its CREATE may come again, which finds it there a second time.
    return [one for one in others if one.path != shard.path]


def check_policy(shaped: TableDefinition, policy: Policy) -> None:
    """Raises SettingError where what the source drops of a shard would stay."""
    if policy in (Policy.IGNORE_DROP, Policy.ADDITIVE_ONLY):
        raise SettingError(
            f"policy {policy}: the table is in {whole_of(shaped.name)} with others (key_prefix, or"
            " channels, of [[tables]]), which keeps nothing that the source drops",
            table=shaped.name, hint="give it the policy apply or stop (on_ddl of [[tables]])",
        )  # fmt: skip


def check_renamed_shard(before: str, after: str, shards: Iterable[bool]) -> None:
    """Raises SettingError where a table comes into a Delta table of ``shards``, or leaves it, by
    its new name, which its rows don't have."""
    if before != after and any(shards):
        raise SettingError(
            f"{before} would be called {after}: what tells rows of many tables in one apart"
            " (key_prefix, or channels, of [[tables]]) does not follow RENAME",
            table=before,
            hint="leave the statement out (spark-repl skip --config F --gtid GTID), and the table"
            ' by [filters]; an online schema-change tool needs ddl.online_tools = "fold" before it'
            f" begins; or {ALL_SHARDS}",
        )


def check_put_back(table: Table, at_cut: TableVersion | None) -> None:
    """Raises TargetError where a table that other channels feed, too, has not what the cut shows of
    this one's: its newest versions are gone, and others have come in their place."""
    if at_cut is not None and table.position < at_cut.position:
        raise TargetError(
            "the table has less of this channel than its newest cut shows: an older state of its"
            " folder was put back",
            table=table.name,
            file=table.folder,
            hint=f"put a later one back, or {OTHER_TARGET}",
        )


def check_ended(ended: Collection[str], tables: Iterable[Table]) -> None:
    """Raises SettingError where the filters leave out a shard whose rows would stay."""
    gone = [one.name for one in tables if one.is_shard and one.name in ended]
    if gone:
        raise SettingError(
            f"the filters leave out shards whose rows {whole_of(gone[0])} has",
            table=", ".join(sorted(gone)),
            hint=f"take the change of [filters] back, or {BEGIN_AGAIN}",
        )


def not_copied(name: str, reason: str) -> StatementError:
    """The error of what only a new copy of a shard would mend."""
    return StatementError(reason, table=name, hint=_COPY)


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
