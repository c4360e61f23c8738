"""Planning cascades: which tables a group's changes may reach, and by which foreign keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from ...binlog.charsets.charset import NAMES, charset_of
from ...binlog.charsets.collation_compare import EXACT
from ...errors import DecodeError
from ...tables.case_folding import fold
from ...tables.column import BINARY, CHARACTER_TYPES, DATE_TYPES, ColumnType, Form

if TYPE_CHECKING:
    from ...tables.column import Column
    from ...tables.source_table import SourceTable
    from ...tables.table_keys import ForeignKey

Place = tuple[str, int]
"""(name of a table, number of one of its columns)"""

_FLOATS = (ColumnType.FLOAT, ColumnType.DOUBLE)
_WORD = r"(?<![\w$]){}(?![\w$])"
HINT = (
    "copy the tables again from behind this transaction; or have the source log such changes (MySQL"
    " 9.6 or newer, innodb_native_foreign_keys=OFF)"
)


@dataclass(frozen=True)
class CascadingKey:
    """A foreign key with an action, and the numbers of its columns in both tables."""

    key: ForeignKey
    child: str
    parent: str
    referencing: tuple[int, ...]
    referenced: tuple[int, ...]

    @property
    def name(self) -> str:
        """Return the name by which InnoDB sorts foreign keys: ``database/constraint``."""
        return f"{self.child.partition('.')[0]}/{self.key.name}"

    @property
    def changes_values(self) -> bool:
        return bool(self.key.on_update) or self.key.on_delete == "SET NULL"


@dataclass(frozen=True)
class CascadePlan:
    """The foreign keys along which a group's changes cascade.

    ``keys``: ascending by parent, and within a parent in the order in which InnoDB executes them.
    ``definitions``: definitions of all tables of the keys. ``harmless``: tables whose changes no
    key cascades, by the configuration.
    """

    keys: tuple[CascadingKey, ...]
    definitions: Mapping[str, SourceTable]
    harmless: frozenset[str] = field(default_factory=frozenset)

    @property
    def children(self) -> tuple[str, ...]:
        """Return the tables whose rows cascades change."""
        return tuple(sorted({key.child for key in self.keys}))

    @cached_property
    def domains(self) -> list[list[Place]]:
        """Return sets of columns that keys compare with each other, directly or through other
        columns."""
        domains: list[list[Place]] = []
        for key in self.keys:
            for pair in zip(key.referencing, key.referenced, strict=True):
                places = (key.child, pair[0]), (key.parent, pair[1])
                met = [domain for domain in domains if not {*places}.isdisjoint(domain)]
                joined = sorted({*places}.union(*met))
                domains = [domain for domain in domains if domain not in met] + [joined]
        return domains

    def collation(self, place: Place) -> int:
        """Return the collation that compares the column's values; EXACT for bytes and numbers.

        Raise DecodeError if the collation is not known.
        """
        (domain,) = [domain for domain in self.domains if place in domain]
        columns = [self.definitions[name].columns[number] for name, number in domain]
        if columns[0].type not in CHARACTER_TYPES or columns[0].collation == BINARY:
            return EXACT
        collations = {column.compares for column in columns} - {0}
        if len(collations) != 1 or not collations <= NAMES.keys():
            raise DecodeError(
                f"how the collation of column {columns[0].name} compares is not known here",
                table=domain[0][0],
            )
        return collations.pop()

    def table(self, name: str) -> str | None:
        """Return the plan's name of a table that the log calls ``name``; None if it has none."""
        if name in self.definitions:
            return name
        return next((own for own in self.definitions if fold(own) == fold(name)), None)


def plan_cascades(
    changed: Iterable[str],
    keys: Mapping[str, tuple[ForeignKey, ...] | None],
    definitions: Mapping[str, SourceTable],
    harmless: frozenset[str],
    zero_dates: str,
) -> CascadePlan:
    """Return the plan for the cascades of a group.

    ``changed``: tables with changes that cascade. ``keys``: each table's own foreign keys.
    ``definitions``: definitions of the target's tables, completed by the group's TABLE_MAPs.
    Raise DecodeError for a key that can't be emulated.
    """
    by_parent: dict[str, list[tuple[str, ForeignKey]]] = {}
    for child, own in keys.items():
        for key in own or ():
            if key.on_delete or key.on_update:
                by_parent.setdefault(fold(key.parent), []).append((child, key))
    carrying, seen, left = list[CascadingKey](), set[str](), sorted(changed)
    while left:
        parent = left.pop()
        if parent in seen:
            continue
        seen.add(parent)
        cascading = [] if fold(parent) in harmless else by_parent.get(fold(parent), [])
        resolved = [_resolve(parent, child, key, definitions) for child, key in cascading]
        carrying += sorted(resolved, key=lambda f: (not _clustered(f, definitions), f.name))
        left += [child for child, _ in cascading]
    for followed in carrying:
        _check(followed, definitions, zero_dates)
    ordered = tuple(sorted(carrying, key=lambda f: f.parent))
    result = CascadePlan(ordered, {name: definitions[name] for name in sorted(seen)}, harmless)
    for domain in result.domains:
        result.collation(domain[0])
    return result


def _resolve(
    parent: str, child: str, key: ForeignKey, definitions: Mapping[str, SourceTable]
) -> CascadingKey:
    if sum(fold(name) == fold(parent) for name in definitions) > 1:
        raise _refused(key, child, "tables are told apart by the case of their names alone")
    for name in (child, parent):
        if name not in definitions:
            raise _refused(key, child, f"the definition of {name} is not known")
    referenced = _numbers(definitions[parent], key.referenced)
    referencing = _numbers(definitions[child], key.columns)
    if not key.referenced:
        referenced = list(definitions[parent].primary_key)
    if None in (*referenced, *referencing) or len(referenced) != len(referencing):
        raise _refused(key, child, "its columns are not those of the tables")
    pairs = [n for n in referencing if n is not None], [n for n in referenced if n is not None]
    return CascadingKey(key, child, parent, tuple(pairs[0]), tuple(pairs[1]))


def _numbers(definition: SourceTable, names: Iterable[str]) -> list[int | None]:
    numbers = {column.name.lower(): i for i, column in enumerate(definition.columns)}
    return [numbers.get(name.lower()) for name in names]


def _clustered(followed: CascadingKey, definitions: Mapping[str, SourceTable]) -> bool:
    """Return whether the key references the clustered index: InnoDB executes such keys first."""
    key = definitions[followed.parent].primary_key
    return key[: len(followed.referenced)] == followed.referenced


def _check(followed: CascadingKey, definitions: Mapping[str, SourceTable], zero_dates: str) -> None:
    key, child, parent = followed.key, definitions[followed.child], definitions[followed.parent]
    if "SET DEFAULT" in (key.on_delete, key.on_update):
        raise _refused(key, child.name, "InnoDB has no SET DEFAULT")
    for a, b in zip(followed.referencing, followed.referenced, strict=True):
        if not _alike(child.columns[a], parent.columns[b]):
            raise _refused(key, child.name, f"the types of {child.columns[a].name} differ")
        if child.columns[a].type in _FLOATS:
            raise _refused(key, child.name, f"{child.columns[a].name} is a floating-point number")
        column = child.columns[a]
        if zero_dates == "null" and column.type in DATE_TYPES and column.form != Form.TEXT:
            raise _refused(key, child.name, "its zero dates are NULL here")
    if followed.changes_values and (name := _computed(child, followed.referencing)):
        raise _refused(key, child.name, f"the generated column {name} changes with it")


def _alike(child: Column, parent: Column) -> bool:
    """Return whether equal values of both columns are equal in the target."""
    same = (child.arrow_type, child.literals, child.form) == (
        parent.arrow_type, parent.literals, parent.form
    )  # fmt: skip
    if ColumnType(child.type) in CHARACTER_TYPES:
        same &= charset_of(child.collation) == charset_of(parent.collation)
    if child.collation == BINARY and ColumnType.STRING in (child.type, parent.type):
        return same and (child.type, child.meta) == (parent.type, parent.meta)
    return same


def _computed(definition: SourceTable, changed: Iterable[int]) -> str:
    """Return a generated column that depends on the ``changed`` columns; '' if there is none."""
    names = [definition.columns[number].name for number in changed]
    for column in definition.columns:
        for name in names:
            word = _WORD.format(re.escape(name.lower()))
            if column.generated and re.search(word, column.generated.lower()):
                return column.name
    return ""


def _refused(key: ForeignKey, child: str, why: str) -> DecodeError:
    return DecodeError(
        f"the source has changed rows of {child} with this change, by the foreign key {key.name},"
        f" its log does not hold them, and they can't be followed here: {why}",
        hint=HINT,
    )
