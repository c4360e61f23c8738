"""What a copy that an online schema-change tool has filled says of the table's own rows, which
reach it by INSERT IGNORE ... SELECT and by REPLACE."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import SettingError
from .alteration import Altered, Filled, KeptColumn
from .widening import widens

if TYPE_CHECKING:
    from ..binlog.definition import Column, TableDefinition
    from .alteration import Origin

_HINT = (
    'with ddl.online_tools = "follow" the tool\'s table becomes the table; or copy the table anew'
    " behind the tool's RENAME (spark-repl snapshot --table)"
)


def copied(before: TableDefinition, made: TableDefinition) -> Altered:
    """What has become of the rows of ``before`` in a tool's copy ``made``: columns by their names.

    Raises SettingError for what the definitions do not say: values of another kind than those
    copied, new ones that are no literals, rows that a new UNIQUE index has no room for.
    """
    names = {column.name.lower(): number for number, column in enumerate(before.columns)}
    origins: list[Origin] = []
    for column in made.columns:
        number = names.get(column.name.lower())
        if number is None:
            origins.append(_new(made, column))
        else:
            origins.append(_same(made, before.columns[number], column, number))
    known = _unique(before)
    if known is None or (indexes := _unique(made)) is None:
        raise _refused(made, "which UNIQUE indexes it has is not known")
    if more := indexes - known:
        listed = ", ".join(min(sorted(one) for one in more))
        raise _refused(made, f"which rows a new UNIQUE index ({listed}) has no room for")
    return Altered(made, tuple(origins))


def _new(made: TableDefinition, column: Column) -> Origin:
    if column.generated or column.auto_increment or column.default is None:
        raise _refused(made, f"the values of the new column {column.name}")
    return Filled(column.default)


def _same(made: TableDefinition, old: Column, new: Column, number: int) -> Origin:
    if old.generated != new.generated or (new.auto_increment and not old.auto_increment):
        raise _refused(made, f"the values of column {new.name}")
    plain = replace(old, name=new.name, nullable=new.nullable, visible=new.visible) == new
    if plain and old.detail == new.detail:
        return KeptColumn(number)
    if old.generated or not widens(old, new):
        raise _refused(made, f"what the values of column {new.name} are, whose type changes")
    return KeptColumn(number, written=True)


def _unique(definition: TableDefinition) -> set[frozenset[str]] | None:
    """The columns of each key and UNIQUE index, and how much of them counts; None: not known."""
    if definition.unique is None:
        return None
    columns = definition.columns
    key = frozenset(columns[number].name.lower() for number in definition.primary_key)
    column_sets = {key} if key else set[frozenset[str]]()
    for index in definition.unique:
        prefixes = index.prefixes or (0,) * len(index.columns)
        names = (
            n.lower() + (f"({p})" if p else "")
            for n, p in zip(index.columns, prefixes, strict=True)
        )
        other = [] if index.whole or index.prefixes else [f"index {index.name}"]
        column_sets.add(frozenset([*names, *other]))
    return column_sets


def _refused(made: TableDefinition, reason: str) -> SettingError:
    return SettingError(
        f"an online schema-change tool's table, whose rows are left out, does not say: {reason}",
        table=made.name,
        hint=_HINT,
    )
