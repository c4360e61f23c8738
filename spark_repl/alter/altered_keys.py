"""The keys of a table after ALTER TABLE: indexes, the key that the server logs, foreign keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..errors import StatementError
from ..sql import foreign_keys, keys
from ..sql.actions import (
    AddColumn,
    AddKey,
    ChangeColumn,
    DropConstraint,
    DropIndex,
    RenameIndex,
)  # fmt: skip
from ..sql.create_table import keys_of
from ..sql.keys import PRIMARY, UNIQUE, Key
from ..sql.new_columns import not_null
from ..tables.column import CHARACTER_TYPES, ColumnType

if TYPE_CHECKING:
    from ..sql.actions import Alteration
    from ..sql.keys import KeyClause
    from ..tables.column import Column
    from ..tables.source_table import SourceTable
    from ..tables.table_keys import ForeignKey, PlainIndex, UniqueIndex
    from .column_actions import PendingColumn


@dataclass(frozen=True, slots=True)
class Keyed:
    """The columns and keys of a table. ``columns`` are NOT NULL in the primary key; the other
    fields are as in SourceTable."""

    columns: tuple[Column, ...]
    primary_key: tuple[int, ...]
    has_primary: bool | None
    unique: tuple[UniqueIndex, ...] | None
    indexes: tuple[PlainIndex, ...] | None


def altered_keys(
    definition: SourceTable,
    alteration: Alteration,
    entries: Sequence[PendingColumn],
    columns: tuple[Column, ...],
) -> Keyed:
    """Return the columns and keys after the statement. If the UNIQUE indexes are not known (the
    definition was made from rows), the key is the remaining part of the old key, until the next
    TABLE_MAP names it. Raise StatementError for a key's column that does not exist."""
    new = _new_keys(alteration)
    new_columns = {
        e.before.name.lower(): c for e, c in zip(entries, columns, strict=True) if e.before
    }
    remaining = _remaining_keys(_keys_before(definition), alteration, definition)
    new_columns |= _again(remaining, entries, columns, new_columns)
    _check_choices(remaining, entries, columns)
    carried = [key for k in remaining if (key := keys.carried(k, new_columns)) is not None]
    primary = [key for key in carried if key.kind == PRIMARY]
    names = {name.lower() for key in primary for name in key.columns}
    names |= {p.column.lower() for key in new if key.kind == PRIMARY for p in key.parts}
    columns = tuple(not_null(c) if c.name.lower() in names else c for c in columns)
    ordered = keys.ordered(keys.added(carried, new, columns), columns)
    has_primary = any(key.kind == PRIMARY and key.name for key in ordered)
    unknown = definition.unique is None
    return Keyed(
        columns,
        keys.logged(ordered, columns),
        None if unknown and not has_primary and definition.has_primary is None else has_primary,
        None if unknown else keys.unique_of(ordered),
        None if definition.indexes is None else keys.plain_of(ordered),
    )


def _keys_before(definition: SourceTable) -> list[Key]:
    """Return the table's keys. A logged key that may be a PRIMARY KEY or not is returned as a
    PRIMARY KEY without a name."""
    names = tuple(definition.columns[i].name for i in definition.primary_key)
    old_keys = []
    if definition.has_primary or (names and definition.unique is None):
        old_keys.append(Key(PRIMARY, PRIMARY if definition.has_primary else "", names))
    old_keys += [
        Key(UNIQUE, u.name, u.columns, u.whole, prefixes=u.prefixes)
        for u in definition.unique or ()
    ]
    plain = definition.indexes or ()
    return old_keys + [Key("INDEX", p.name, p.columns, generated=p.generated) for p in plain]


def _remaining_keys(
    before: list[Key], alteration: Alteration, definition: SourceTable
) -> list[Key]:
    """Return the keys without those that DROP INDEX, DROP PRIMARY KEY and DROP CONSTRAINT name,
    with renamed indexes."""
    remaining, new_names = list(before), dict[str, str]()
    for action in alteration.actions:
        if isinstance(action, DropIndex):
            name = action.name.lower()
            remaining = [k for k in remaining if (k.name or PRIMARY).lower() != name]
        elif isinstance(action, DropConstraint) and not action.kind:
            foreign = {key.name.lower() for key in definition.foreign_keys or ()}
            name = action.name.lower()
            remaining = [
                k for k in remaining
                if name in foreign or k.kind not in (PRIMARY, UNIQUE) or k.name.lower() != name
            ]  # fmt: skip
        elif isinstance(action, RenameIndex):
            new_names[action.name.lower()] = action.new
    return [replace(key, name=new_names.get(key.name.lower(), key.name)) for key in remaining]


def _again(
    remaining: Sequence[Key],
    entries: Sequence[PendingColumn],
    columns: Sequence[Column],
    columns_before: Mapping[str, Column],
) -> dict[str, Column]:
    """Return new columns that have the names of dropped ones, whose places in indexes they get.
    Raise StatementError if the index is unique: it then covers a prefix of the old column's
    length."""
    inside = {name.lower() for key in remaining for name in key.columns} - columns_before.keys()
    unique = {n.lower() for key in remaining if key.kind in (PRIMARY, UNIQUE) for n in key.columns}
    renewed = {}
    for entry, column in zip(entries, columns, strict=True):
        name = column.name.lower()
        if entry.before is None and name in inside:
            if name in unique:
                message = (
                    f"what a UNIQUE index over the new column {column.name} holds is not known"
                )
                raise StatementError(message)
            renewed[name] = column
    return renewed


def _check_choices(
    remaining: Sequence[Key], entries: Sequence[PendingColumn], columns: Sequence[Column]
) -> None:
    """Raise StatementError if an ENUM or SET in a UNIQUE index becomes text. The index then covers
    a prefix, whose length depends on the ENUM's character set (measured on 9.7.4)."""
    inside = {name.lower() for key in remaining if key.kind == UNIQUE for name in key.columns}
    for entry, column in zip(entries, columns, strict=True):
        before = entry.before
        if before is None or before.name.lower() not in inside:
            continue
        if before.type in (ColumnType.ENUM, ColumnType.SET) and column.type in CHARACTER_TYPES:
            message = f"what a UNIQUE index over column {before.name} holds is not known"
            raise StatementError(message)


def without_inline_keys(alteration: Alteration) -> Alteration:
    """Remove REFERENCES from columns' attributes, where a server before 9.0 ignores it."""
    actions = tuple(
        replace(action, column=replace(action.column, references=()))
        if isinstance(action, AddColumn | ChangeColumn)
        else action
        for action in alteration.actions
    )
    return replace(alteration, actions=actions)


def _new_keys(alteration: Alteration) -> list[KeyClause]:
    clauses: list[KeyClause] = []
    for action in alteration.actions:
        if isinstance(action, AddKey):
            clauses.append(action.key)
        elif isinstance(action, AddColumn | ChangeColumn):
            clauses += keys_of(action.column)
    return clauses


def altered_foreign_keys(
    definition: SourceTable,
    alteration: Alteration,
    entries: Sequence[PendingColumn],
) -> tuple[ForeignKey, ...] | None:
    """Return the foreign keys after the statement, under the columns' new names; None if they are
    not known."""
    if definition.foreign_keys is None:
        return None
    new = {e.before.name.lower(): e.name for e in entries if e.before}

    def renamed(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(new.get(name.lower(), name) for name in names)

    before = tuple(
        replace(
            key,
            columns=renamed(key.columns),
            referenced=renamed(key.referenced) if key.parent == definition.name else key.referenced,
        )
        for key in definition.foreign_keys
    )
    clauses = _new_keys(alteration)
    added = [key.foreign for key in clauses if key.foreign is not None]
    gone = [a.name for a in alteration.actions if isinstance(a, DropConstraint)]
    return foreign_keys.altered(before, definition.name, added, gone)
