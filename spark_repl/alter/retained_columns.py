"""A target's table that keeps more than the source's: dropped columns and the wider types of
narrowed ones (policy ``additive_only``).

Without the ``kept`` columns, the target's columns are the source's, in the source's order. If a
column is wider than the source's, ``logged`` is the source's column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..convert.lossless import widens
from ..convert.type_change import described
from ..errors import SettingError
from ..tables.target_table import TargetTable
from .alteration import (
    Altered,
    CarriedColumn,
    ComputedValue,
    ConstantValue,
    CurrentTimestamp,
    RestoredColumn,
)

if TYPE_CHECKING:
    from ..tables.column import Column
    from ..tables.source_table import SourceTable
    from .alteration import ColumnSource

_NULL = ConstantValue("NULL")
_HINT = (
    "leave the statement out (spark-repl skip --config F --gtid GTID) and change the table by hand,"
    " or take the table's policy back to apply (ddl.policy)"
)


@dataclass(frozen=True)
class _Place:
    """A column of the target after the statement. ``before`` is its number before it, -1 for a new
    column."""

    column: Column
    origin: ColumnSource
    before: int = -1


def retain_columns(
    target: TargetTable, altered: Altered[SourceTable], *, keeps: bool
) -> Altered[TargetTable]:
    """Return the target's table after the source applies ``altered``. ``keeps``: the target keeps a
    column that is dropped or narrowed; otherwise it keeps only columns that it already kept.

    Raise SettingError for a type that is neither wider nor narrower, for a column with the name of
    a kept column, and for a table without a key, whose rows could not be identified.
    """
    own = [number for number, column in enumerate(target.columns) if not column.kept]
    carried = {o.number for o in altered.origins if isinstance(o, CarriedColumn)}
    gone = {own[i] for i in range(len(own)) if i not in carried} if keeps else set[int]()
    spare = {target.columns[i].name.lower(): i for i in gone}
    spare |= {c.name.lower(): i for i, c in enumerate(target.columns) if c.kept}
    key = set(altered.definition.primary_key)
    places = []
    for number, (origin, column) in enumerate(
        zip(altered.origins, altered.definition.columns, strict=True)
    ):
        at = spare.get(column.name.lower())
        if isinstance(origin, CarriedColumn):
            if at is not None:
                raise _refused(target, f"the target keeps a column {column.name} that was dropped")
            at, is_key = own[origin.number], number in key or not key
            old = target.columns[at]
            follows = not keeps and _is_changed(old, column)
            merged = column if follows else _merged(target, old, column, key=is_key)
            written = origin.written and (follows or not _has_type(old, merged))
            places.append(_Place(merged, CarriedColumn(at, written), at))
        elif at is not None:
            places.append(_restored(target, at, column, origin, key=number in key))
            del spare[column.name.lower()]
        else:
            places.append(_Place(column, origin))
    source_columns = [place.column for place in places]
    _with_kept(places, target.columns, sorted(spare.values()))
    return _altered(altered, places, source_columns)


def _altered(
    altered: Altered[SourceTable], places: Sequence[_Place], own: Sequence[Column]
) -> Altered[TargetTable]:
    """Return the alteration of the target's table. ``own``: the columns that the source also
    has."""
    columns = tuple(place.column for place in places)
    at = [next(i for i, candidate in enumerate(columns) if candidate is column) for column in own]
    key = tuple(at[number] for number in altered.definition.primary_key)
    source = TargetTable.mirror_of(altered.definition)
    after = replace(source, columns=columns, primary_key=key)
    if not after.is_mirror and not key:
        raise _refused(
            after, "the table has no key, which tells the rows apart that the target keeps more of"
        )
    origins = tuple(place.origin for place in places)
    if not after.is_mirror:
        if any(isinstance(origin, ComputedValue) for origin in origins):
            raise _refused(after, "an expression is not computed where the target keeps more")
        if altered.gone:
            raise _refused(after, "the rows of a partition are not looked for then")
    return altered.of(after, origins)


def _with_kept(places: list[_Place], before: Sequence[Column], numbers: Sequence[int]) -> None:
    """Add the columns that only the target has. Each follows its former left neighbour, or the
    nearest column before that which still exists."""
    for number in numbers:
        column = replace(
            before[number], kept=True, nullable=True, default=None, generated="",
            auto_increment=False, logged=None,
        )  # fmt: skip
        numbers = [place.before for place in places]
        nearest = max((n for n in numbers if n < number), default=-1)
        at = numbers.index(nearest) + 1 if nearest >= 0 else 0
        places.insert(at, _Place(column, CarriedColumn(number), number))


def _restored(
    target: TargetTable, number: int, column: Column, origin: ColumnSource, *, key: bool
) -> _Place:
    """Return a column that the source has again. Raise SettingError if it is in the key."""
    if key:
        raise _refused(target, f"column {column.name} was dropped, and is of the key now")
    merged = _merged(target, target.columns[number], column, key=False)
    if not isinstance(origin, ConstantValue | CurrentTimestamp):
        return _Place(merged, origin, number)
    plain = origin == _NULL
    return _Place(
        merged, CarriedColumn(number) if plain else RestoredColumn(number, origin), number
    )


def _is_changed(before: Column, after: Column) -> bool:
    """Return whether the source changed its version of the target's column ``before``."""
    old = before.as_logged
    return replace(old, name=after.name, visible=after.visible) != after


def _has_type(old: Column, merged: Column) -> bool:
    """Return whether the target's column keeps its type; its name and properties that no value
    shows may change."""
    own = replace(old, name=merged.name, visible=merged.visible, kept=False, logged=merged.logged)
    return replace(own, nullable=merged.nullable) == merged


def _merged(target: TargetTable, old: Column, new: Column, *, key: bool) -> Column:
    """Return the target's column after its column ``old`` became ``new`` in the source. Raise
    SettingError if neither type holds all values of the other, or if a key column becomes
    narrower."""
    bare = replace(old, name=new.name, visible=new.visible, kept=False, logged=None)
    nullable = new.nullable if key else old.nullable or new.nullable
    if replace(bare, nullable=new.nullable) == new or widens(bare, new):
        wide = replace(new, nullable=nullable)
    elif widens(new, bare):
        if key:
            raise _refused(
                target, f"column {old.name} becomes {described(new)}: rows are told apart by it,"
                f" and those that the target keeps as {described(old)} could not be",
            )  # fmt: skip
        wide = replace(
            bare, nullable=nullable, default=new.default, generated=new.generated,
            auto_increment=new.auto_increment,
        )  # fmt: skip
    else:
        raise _refused(
            target, f"column {old.name} becomes {described(new)}, in the target it is"
            f" {described(old)}: neither type holds all values of the other",
        )  # fmt: skip
    return wide if wide == new else replace(wide, logged=new)


def _refused(table: TargetTable, reason: str) -> SettingError:
    return SettingError(f"policy additive_only: {reason}", table=table.name, hint=_HINT)
