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
from ...delta.files.delta_columns import Columns, common_type, delta_type, field_json, plain
from ...delta.log.schema_change import ColumnIds, featured
from ...delta.log.table_snapshot import NewTable
from ...errors import (
    ALL_SHARDS,
    BEGIN_AGAIN,
    OTHER_TARGET,
    SettingError,
    StatementError,
    TargetError,
)
from ...sql.policy import Policy

if TYPE_CHECKING:
    from ...control.table.cut import TableVersion
    from ...delta.log.table_snapshot import Snapshot
    from ...tables.target_table import TargetTable
    from ..tables.table import Table

_COPY = f"a shard is not copied by itself: leave it out by [filters], or {BEGIN_AGAIN}"


def shards_beside(name: str, tables: Iterable[Table]) -> list[Table]:
    """Return those of the ``tables`` that are in the same Delta table as the shard ``name``."""
    whole = whole_of(name)
    return [table for table in tables if table.is_shard and whole_of(table.name) == whole]


def siblings_of(shard: Table, tables: Iterable[Table]) -> list[Table]:
    """Return those of the ``tables`` that are other shards in the shard's Delta table."""
    siblings = [t for t in shards_beside(shard.name, tables) if t.folder == shard.folder]
    # After a crash its CREATE may be applied again: the shard is then among the tables twice.
    return [table for table in siblings if table.path != shard.path]


def check_policy(shaped: TargetTable, policy: Policy) -> None:
    """Raise SettingError if the policy keeps what the source drops, which is not possible for a
    shard."""
    if policy in (Policy.IGNORE_DROP, Policy.ADDITIVE_ONLY):
        raise SettingError(
            f"policy {policy}: the table is in {whole_of(shaped.name)} with others (key_prefix, or"
            " channels, of [[tables]]), which keeps nothing that the source drops",
            table=shaped.name, hint="give it the policy apply or stop (on_ddl of [[tables]])",
        )  # fmt: skip


def check_renamed_shard(before: str, after: str, shards: Iterable[bool]) -> None:
    """Raise SettingError if a rename moves a table into a Delta table of ``shards``, or out of one,
    because its rows would have the wrong shard name."""
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
    """Raise TargetError if a table that several channels feed lacks versions that the cut shows for
    this channel: its newest versions were lost, and other channels have committed new ones."""
    if at_cut is not None and table.position < at_cut.position:
        raise TargetError(
            "the table has less of this channel than its newest cut shows: an older state of its"
            " folder was put back",
            table=table.name,
            file=table.folder,
            hint=f"put a later one back, or {OTHER_TARGET}",
        )


def check_ended(ended: Collection[str], tables: Iterable[Table]) -> None:
    """Raise SettingError if the filters now exclude a shard whose rows would stay in the table."""
    gone = [table.name for table in tables if table.is_shard and table.name in ended]
    if gone:
        raise SettingError(
            f"the filters leave out shards whose rows {whole_of(gone[0])} has",
            table=", ".join(sorted(gone)),
            hint=f"take the change of [filters] back, or {BEGIN_AGAIN}",
        )


def not_copied(name: str, reason: str) -> StatementError:
    """Return the error for a shard that only a new copy could repair."""
    return StatementError(reason, table=name, hint=_COPY)


HINT = (
    "the type that a column has in the table which the shards share has to hold every shard's"
    " values (a new column that UPDATE fills, and DROP COLUMN of this one, come through shard by"
    f" shard): have all shards altered on the source, and {ALL_SHARDS}"
)


def check_alike(definitions: Iterable[TargetTable]) -> None:
    """Raise SettingError with all columns whose types in the shards of one Delta table have no
    common type. ``definitions``: as the target's tables have them."""
    kinds, faults = dict[tuple[str, str], tuple[str, Any]](), list[str]()
    for definition in definitions:
        whole = whole_of(definition.name)
        for field in definition.arrow_schema() if definition.is_shard else ():
            own, name = plain(delta_type(field.type)), field.name
            other, kind = kinds.setdefault((whole, name.lower()), (definition.name, own))
            wider = own if kind == own else common_type(kind, own)
            if wider is None:
                faults.append(f"column {name} is {kind} in {other} and {own} in {definition.name}")
            elif wider != kind:
                kinds[whole, name.lower()] = definition.name, wider
    if faults:
        raise SettingError("; ".join(faults), hint=HINT)


def columns_of(whole: Columns, definition: TargetTable) -> Columns:
    """Return the columns of the ``whole`` Delta table that a shard has, in the shard's order and
    with its names. Columns that no longer exist belong to shards that were dropped later in the
    log."""
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


def refresh_columns(tables: Iterable[Table]) -> None:
    """Read the columns of shards again, after one shard has changed those of their Delta table."""
    for table in tables:
        if table.is_shard:
            table.columns = columns_of(table.all_columns, table.definition)


def union_metadata(
    before: Snapshot,
    definition: TargetTable,
    had: Iterable[str],
    siblings: Collection[TargetTable],
    *,
    widens: bool = False,
) -> NewTable | None:
    """Return the Delta table's metadata with the columns of a shard's ``definition``, None if
    nothing changes.

    ``had``: names of columns that the shard had and now lacks, or has with another type;
    ``siblings``: the other shards' definitions; ``widens``: whether a column may get a wider type.
    It is then another column of that name, and all files that have it must be rewritten.

    Raise SettingError if a column that other shards have can't hold this shard's values.
    """
    wanted = {field.name.lower(): field for field in definition.arrow_schema()}
    owner_of = {
        column.name.lower(): sibling.name for sibling in siblings for column in sibling.columns
    }
    own = {name.lower() for name in had} - owner_of.keys()
    configuration = dict(before.configuration)
    ids, new_fields = ColumnIds(configuration), list[dict[str, Any]]()
    fields: list[dict[str, Any]] = json.loads(before.schema_string)["fields"]
    for field in fields:
        name = field["name"].lower()
        new = wanted.pop(name, None)
        if new is None:
            new_fields += [] if name in own else [field]
            continue
        present, kind = plain(field["type"]), plain(delta_type(new.type))
        wider = kind if name in own or present == kind else common_type(present, kind)
        if wider is None or not (widens or wider == present or name in own):
            raise _unlike(definition, field, owner_of.get(name, "another shard"), kind)
        if wider == present:
            new_fields.append(field)
        elif name in own:
            new_fields.append(_new(ids, field_json(new)))
        else:
            new_fields.append(_new(ids, {**field_json(new), "name": field["name"], "type": wider}))
    new_fields += [_new(ids, field_json(field)) for field in wanted.values()]
    if new_fields == fields:
        return None
    featured(configuration, before, new_fields)
    ids.keep(configuration)
    schema = json.dumps({"type": "struct", "fields": new_fields})
    return NewTable(schema, configuration, before.partition_columns)


def stays_in_files(
    before: Columns, after: Columns, origins: Sequence[int | None], whole: Columns
) -> bool:
    """Return whether a shard's data files may stay unchanged when its columns change from
    ``before`` to ``after``. ``origins`` [after]: the number of the previous column whose values it
    has, None for a new one.

    They may stay if each column has the same physical column as before, no file has a new column,
    and no dropped column is still a column of the ``whole`` table.
    """
    is_found = all(
        physical not in before.physical if number is None else before.physical[number] == physical
        for number, physical in zip(origins, after.physical, strict=True)
    )
    dropped = {*before.physical} - {*after.physical}
    return is_found and dropped.isdisjoint(whole.physical)


def _widens(own: Any, whole: Any) -> bool:
    """Return whether the Delta table's type is wider than the shard's and holds its values."""
    own, whole = plain(own), plain(whole)
    return bool(own != whole and common_type(own, whole) == whole)


def _new(ids: ColumnIds, field: dict[str, Any]) -> dict[str, Any]:
    """Return a new field. It is nullable: other shards have NULL in it."""
    return {**ids.given(field), "nullable": True}


def _unlike(definition: TargetTable, field: dict[str, Any], other: str, kind: Any) -> SettingError:
    return SettingError(
        f"column {field['name']} is {field['type']} in {whole_of(definition.name)}, with {other},"
        f" and would be {kind}",
        table=definition.name,
        hint=HINT,
    )
